package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// randomGroups makes lines and scales of a block of any format.
func randomGroups(l layout, groups int) (data []byte, scale []uint16) {
	r := rand.New(rand.NewPCG(uint64(groups), 11))
	data, scale = make([]byte, groups*l.lineBytes), make([]uint16, groups*l.scales)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for i := range scale {
		scale[i] = quant.F32ToF16(float32(r.NormFloat64()) * 0.01)
	}
	return data, scale
}

// panelling is k, or the generic kernels for a tier without panels of bytes.
func (k *kernels) panelling() *kernels {
	if k.bytePanel == nil {
		return &generic
	}
	return k
}

// A panel of each format is the same from every tier, and so are the products with it.
func TestPanelKernels(t *testing.T) {
	for _, format := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1} {
		l := layoutOf(format)
		for _, groups := range []int{1, 2, 5, byteGroups} {
			data, scale := randomGroups(l, 2*groups)
			panelOf := func(k *kernels) []panelGroup {
				panel := make([]panelGroup, 2*groups)
				for i := range 2 {
					k.panelling().expander(format)(panel[i:], data[i*groups*l.lineBytes:], scale[i*groups*l.scales:], groups)
				}
				return panel
			}
			twins(t, fmt.Sprintf("expand %v, %d groups", format, groups), func(k *kernels, mem func(int) []float32) {
				for _, g := range panelOf(k) {
					out := mem(len(g.lines) + 2*lanes)
					for i, v := range g.lines {
						out[i] = float32(v)
					}
					copy(out[len(g.lines):], g.scale[:])
					copy(out[len(g.lines)+lanes:], g.minimum[:])
				}
			})
			for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 12, 13, 17} {
				const stride = 2*lanes + 3
				x := make([]quantGroup, rows*(groups+1))
				generic.quantise(x, fill(make([]float32, len(x)*group), 7, 2))
				twins(t, fmt.Sprintf("panel of %v, %d groups, %d rows", format, groups, rows), func(k *kernels, mem func(int) []float32) {
					acc := fill(mem((rows-1)*stride+2*lanes), 3, 1)
					k.panelling().bytePanel(&panelArgs{acc, stride, panelOf(k), l.panelForm(), x, groups + 1, rows, acc, stride, false})
				})
				for _, add := range []bool{false, true} {
					twins(t, fmt.Sprintf("panel of %v, %d groups, %d rows, elsewhere, added %t", format, groups, rows, add), func(k *kernels, mem func(int) []float32) {
						const apart = stride + 2
						acc := fill(make([]float32, (rows-1)*stride+2*lanes), 3, 1)
						out := fill(mem((rows-1)*apart+2*lanes), 4, 1)
						k.panelling().bytePanel(&panelArgs{acc, stride, panelOf(k), l.panelForm(), x, groups + 1, rows, out, apart, add})
					})
				}
			}
		}
	}
}

// Products by way of a panel have the bits of direct ones.
func TestPanelIsDirect(t *testing.T) {
	const groups, rows, stride = 7, 9, 2 * lanes
	x := make([]quantGroup, rows*groups)
	generic.quantise(x, fill(make([]float32, len(x)*group), 8, 2))
	for _, format := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1} {
		l := layoutOf(format)
		data, scale := randomGroups(l, 2*groups)
		q := quantArgs{acc: make([]float32, rows*stride), accStride: stride, data: data, scale: scale, blocks: 2, x: x, rows: rows, groups: groups}
		map[tensor.DType]func(*quantArgs){tensor.Q8_0: generic.q8_0, tensor.Q4_0: generic.q4_0, tensor.Q4_1: generic.q4_1}[format](&q)
		panel := make([]panelGroup, 2*groups)
		for i := range 2 {
			generic.expander(format)(panel[i:], data[i*groups*l.lineBytes:], scale[i*groups*l.scales:], groups)
		}
		acc := make([]float32, rows*stride)
		generic.bytePanel(&panelArgs{acc, stride, panel, l.panelForm(), x, groups, rows, acc, stride, false})
		for i := range acc {
			if acc[i] != q.acc[i] {
				t.Fatalf("%v: product %d is %v by a panel, %v without", format, i, acc[i], q.acc[i])
			}
		}
	}
}

func TestWidenKernels(t *testing.T) {
	src := make([]uint16, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	twins(t, "widen f16", func(k *kernels, mem func(int) []float32) { k.widenF16(mem(len(src)), src) })
	twins(t, "widen bf16", func(k *kernels, mem func(int) []float32) { k.widenBF16(mem(len(src)), src) })
}

// The assembly knows these offsets (asm/panel.go).
func TestPanelGroupLayout(t *testing.T) {
	var g panelGroup
	if got := [...]uintptr{unsafe.Offsetof(g.scale), unsafe.Offsetof(g.minimum), unsafe.Sizeof(g)}; got != [...]uintptr{512, 576, 640} {
		t.Errorf("layout of a group of a panel is %v", got)
	}
}
