package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

var highTypes = []tensor.DType{tensor.Q5_0, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

// randomHigh makes lines and scales of random bits; the float16 numbers are tame.
func randomHigh(t tensor.DType, blocks, groups int) (data []byte, scale []uint16) {
	l := layoutOf(t)
	r := rand.New(rand.NewPCG(uint64(t), uint64(groups)))
	data = make([]byte, blocks*groups*l.lineBytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	scale = make([]uint16, blocks*groups*l.scales)
	for i := range scale {
		scale[i] = quant.F32ToF16(float32(r.NormFloat64()) * 0.01)
	}
	if !l.super {
		return data, scale
	}
	for s := range blocks * groups / superGroups {
		head := map[bool]int{false: 2, true: 1}[t == tensor.Q6_K] * lanes
		run := scale[s*superGroups*l.scales:][:superGroups*l.scales]
		for i := head; i < len(run); i++ {
			run[i] = uint16(r.Uint32()) // two bytes of scales
		}
	}
	return data, scale
}

func TestHighKernels(t *testing.T) {
	for rows := 1; rows <= 18; rows++ {
		for _, groups := range []int{1, 5, 8, 24} {
			for _, d := range highTypes {
				if layoutOf(d).super && groups%superGroups != 0 {
					continue
				}
				const blocks, stride = 4, 4*lanes + 3
				data, scale := randomHigh(d, blocks, groups)
				x := make([]quantGroup, rows*groups)
				generic.quantise(x, fill(make([]float32, rows*groups*group), 7, 2))
				name := fmt.Sprintf("%v, %d rows, %d groups", d, rows, groups)
				twins(t, name, func(k *kernels, mem func(int) []float32) {
					acc := fill(mem((rows-1)*stride+blocks*lanes), 3, 1)
					k.high.of(d).product(&quantArgs{acc: acc, accStride: stride, data: data, scale: scale, blocks: blocks, x: x, rows: rows, groups: groups})
				})
				twins(t, "unpack "+name, func(k *kernels, mem func(int) []float32) {
					k.high.of(d).unpack(mem(groups*group*lanes), data, scale, groups)
				})
				highPanels(t, name, d, x, rows, groups, data, scale)
			}
		}
	}
}

// highPanels: panels, and products with panels, are alike on all tiers, and those have the
// bits of the products without.
func highPanels(t *testing.T, name string, d tensor.DType, x []quantGroup, rows, groups int, data []byte, scale []uint16) {
	const stride = 2*lanes + 5
	l := layoutOf(d)
	var want []float32
	twins(t, "panel of "+name, func(k *kernels, mem func(int) []float32) {
		panel := make([]panelGroup, 2*groups)
		for b := range 2 {
			k.panelling().high.of(d).expand(panel[b:], data[b*groups*l.lineBytes:], scale[b*groups*l.scales:], groups)
		}
		lines, scales := mem(len(panel)*len(panel[0].lines)), mem(len(panel)*2*lanes)
		for i := range panel {
			for c, v := range panel[i].lines {
				lines[i*len(panel[i].lines)+c] = float32(v)
			}
			copy(scales[2*i*lanes:], panel[i].scale[:])
			copy(scales[(2*i+1)*lanes:], panel[i].minimum[:])
		}
		acc := fill(mem((rows-1)*stride+2*lanes), 3, 1)
		k.panelling().bytePanel(&panelArgs{acc, stride, panel, l.panelForm(), x, groups, rows, acc, stride, false})
		want = acc
	})
	acc := fill(make([]float32, (rows-1)*stride+2*lanes), 3, 1)
	generic.high.of(d).product(&quantArgs{acc: acc, accStride: stride, data: data, scale: scale, blocks: 2, x: x, rows: rows, groups: groups})
	for i := range acc {
		if acc[i] != want[i] {
			t.Errorf("%s: sum %d is %v with a panel, %v without", name, i, want[i], acc[i])
			break
		}
	}
}
