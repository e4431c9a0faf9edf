package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// groupFormats calls f for every format with a quantised product.
func groupFormats(f func(d tensor.DType, l *groupLayout)) {
	for d := range layouts {
		if l, ok := layouts[d].(*groupLayout); ok {
			f(tensor.DType(d), l)
		}
	}
}

// Every format has a layout, and where its product asks for them kernels in each tier.
func TestEveryFormatHasItsRows(t *testing.T) {
	for _, f := range quant.All() {
		if int(f.DType) >= len(layouts) || layouts[f.DType] == nil {
			t.Errorf("%v has no layout", f.DType)
			continue
		}
		if _, ok := layouts[f.DType].(*groupLayout); ok != (f.Product == quant.GroupProduct) {
			t.Errorf("%v: its layout is not that of its product", f.DType)
		}
		for _, tier := range tiers() {
			switch layouts[f.DType].(type) {
			case *groupLayout:
				if int(f.DType) >= len(tier.k.groups) || tier.k.groups[f.DType].product == nil || tier.k.groups[f.DType].unpack == nil {
					t.Errorf("%v: no kernels in tier %s", f.DType, tier.name)
				} else if (tier.k.groups[f.DType].expand == nil) != (tier.k.bytePanel == nil) {
					t.Errorf("%v: panels of tier %s lack a part", f.DType, tier.name)
				}
			case halfLayout:
				if int(f.DType) >= len(tier.k.halves) || tier.k.halves[f.DType].product == nil {
					t.Errorf("%v: no kernels in tier %s", f.DType, tier.name)
				}
			}
		}
	}
}

// randomGroups makes lines and scales of random bits; the float16 numbers are tame.
func randomGroups(l *groupLayout, blocks, groups int) (data []byte, scale []uint16) {
	r := rand.New(rand.NewPCG(uint64(l.bits), uint64(groups)))
	data = make([]byte, blocks*groups*l.lineBytes())
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	scale = make([]uint16, blocks*groups*l.words)
	head := l.words // of the words of a run, those that are float16 numbers
	if l.groups > 1 {
		head = l.groups*l.words - l.groups*lanes // two bytes of scales a group and lane
	}
	for i := range scale {
		if i%(l.groups*l.words) < head {
			scale[i] = quant.F32ToF16(float32(r.NormFloat64()) * 0.01)
		} else {
			scale[i] = uint16(r.Uint32())
		}
	}
	return data, scale
}

// Products, with weights as they lie and by way of panels, and unpacked weights are the same
// from every tier.
func TestGroupKernels(t *testing.T) {
	for rows := 1; rows <= 18; rows++ {
		for _, groups := range []int{1, 2, 5, 8, 24} {
			x := make([]quantGroup, rows*(groups+1))
			generic.quantise(x, fill(make([]float32, len(x)*group), 7, 2))
			groupFormats(func(d tensor.DType, l *groupLayout) {
				if groups%l.groups != 0 {
					return
				}
				const blocks, stride = 3, 3*lanes + 3
				data, scale := randomGroups(l, blocks, groups)
				name := fmt.Sprintf("%v, %d rows, %d groups", d, rows, groups)
				twins(t, name, func(k *kernels, mem func(int) []float32) {
					acc := fill(mem((rows-1)*stride+blocks*lanes), 3, 1)
					k.groups[d].product(&quantArgs{acc: acc, accStride: stride, data: data, scale: scale, blocks: blocks, x: x, rows: rows, groups: groups})
				})
				twins(t, "unpack "+name, func(k *kernels, mem func(int) []float32) {
					k.groups[d].unpack(mem(groups*group*lanes), data, scale, groups)
				})
				testPanels(t, name, d, l, x, rows, groups, data, scale)
			})
		}
	}
}

// testPanels: panels, and products with panels, are alike on all tiers, wherever the sums
// go, and those have the bits of the products without.
func testPanels(t *testing.T, name string, d tensor.DType, l *groupLayout, x []quantGroup, rows, groups int, data []byte, scale []uint16) {
	const stride, apart = 2*lanes + 5, 2*lanes + 7
	panelOf := func(k *kernels) []panelGroup {
		panel := make([]panelGroup, 2*groups)
		for b := range 2 {
			k.groups[d].expand(panel[b:], data[b*groups*l.lineBytes():], scale[b*groups*l.words:], groups)
		}
		return panel
	}
	twins(t, "panel of "+name, func(k *kernels, mem func(int) []float32) {
		for _, g := range panelOf(k.panelling()) {
			out := mem(len(g.lines) + 2*lanes)
			for i, v := range g.lines {
				out[i] = float32(v)
			}
			copy(out[len(g.lines):], g.scale[:])
			copy(out[len(g.lines)+lanes:], g.minimum[:])
		}
	})
	var want []float32
	twins(t, "by way of a panel of "+name, func(k *kernels, mem func(int) []float32) {
		k = k.panelling()
		acc := fill(mem((rows-1)*stride+2*lanes), 3, 1)
		k.bytePanel(&panelArgs{acc, stride, panelOf(k), l.form, x, groups + 1, rows, acc, stride, false})
		want = acc
	})
	for _, add := range []bool{false, true} {
		twins(t, fmt.Sprintf("by way of a panel of %s, elsewhere, added %t", name, add), func(k *kernels, mem func(int) []float32) {
			k = k.panelling()
			acc := fill(make([]float32, (rows-1)*stride+2*lanes), 3, 1)
			out := fill(mem((rows-1)*apart+2*lanes), 4, 1)
			k.bytePanel(&panelArgs{acc, stride, panelOf(k), l.form, x, groups + 1, rows, out, apart, add})
		})
	}
	for _, tier := range tiers() {
		acc := fill(make([]float32, (rows-1)*stride+2*lanes), 3, 1)
		for r := range rows { // rows of x are one group longer
			tier.k.groups[d].product(&quantArgs{acc: acc[r*stride:], accStride: stride, data: data, scale: scale, blocks: 2, x: x[r*(groups+1):], rows: 1, groups: groups})
		}
		for i := range acc {
			if acc[i] != want[i] {
				t.Errorf("%s: sum %d is %v with a panel, %v without in tier %s", name, i, want[i], acc[i], tier.name)
				break
			}
		}
	}
}

// panelling is k, or the generic kernels for a tier without panels of bytes.
func (k *kernels) panelling() *kernels {
	if k.bytePanel == nil {
		return &generic
	}
	return k
}

// Sums of the greatest products of one sign are exact: no tier lets 16 bits overflow.
func TestQuantSumsAreExact(t *testing.T) {
	const groups, blocks = superGroups, 2
	groupFormats(func(d tensor.DType, l *groupLayout) {
		for _, bits := range []byte{0, 0xff} {
			for _, v := range []float32{1, -1} {
				data := bytes.Repeat([]byte{bits}, blocks*groups*l.lineBytes())
				_, scale := randomGroups(l, blocks, groups)
				x := make([]quantGroup, groups)
				row := make([]float32, groups*group)
				for i := range row {
					row[i] = v
				}
				generic.quantise(x, row)
				twins(t, fmt.Sprintf("%v, all %#x, times %v", d, bits, v), func(k *kernels, mem func(int) []float32) {
					q := &quantArgs{acc: mem(blocks * lanes), accStride: blocks * lanes, data: data, scale: scale, blocks: blocks, x: x, rows: 1, groups: groups}
					clear(q.acc)
					k.groups[d].product(q)
				})
			}
		}
	})
}
