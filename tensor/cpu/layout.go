package cpu

import (
	"whorl/tensor"
	"whorl/tensor/quant"
)

// layout is how weights of a data type lie (package doc), and how rows meet them.
type layout interface {
	// size gives the bytes of values and of scales of a block of 16 rows of so many columns.
	size(cols int) (values, scales int)
	// repack moves a row as it lies in a file to lane j of block b.
	repack(w *weight, row []byte, b, j int)
	// dequantise writes that row as package quant would from the file.
	dequantise(w *weight, dst []float32, b, j int)
	// columns dequantises columns [c, c+n) of block b to dst, [column][16 rows], which has room
	// for three more. c is a multiple of tensor formats' largest group.
	columns(k *kernels, w *weight, dst []float32, b, c, n int)
	// multiply writes products to acc, zeros before, or, of panelled weights, to where they
	// are to go; acc is its scratch then.
	multiply(op *productOp, s *scratch, acc []float32, w *weight, p piece)
}

// piece is what a tile multiplies: blocks [b0, b0+nb) of a weight with rows [r0, r0+rows).
type piece struct {
	b0, nb, r0, rows int
	to               outcome
}

// layouts has a row for each format. [floatLayout] suits any: it unpacks at load. Beside
// this row, formats with a quantised product have kernels in each tier (kernels.groups);
// the generic tier makes its own from the row.
var layouts = []layout{
	tensor.F32:  floatLayout{},
	tensor.F16:  halfLayout{quant.F16ToF32},
	tensor.BF16: halfLayout{quant.BF16ToF32},
	tensor.INT8: rowLayout{},
	tensor.NF4:  levelLayout{},

	tensor.Q8_0: &groupLayout{bits: 8, offset: 128, scaling: oneScale, values: func(v *words, src []byte, _ int) {
		for k := range v.low {
			v.low[k] = word(src, 2, k) ^ 0x80808080 // signed to unsigned by +128
		}
	}},
	tensor.Q4_0: &groupLayout{bits: 4, offset: 8, scaling: oneScale, values: func(v *words, src []byte, _ int) { v.nibbles(src, 2) }},
	tensor.Q4_1: &groupLayout{bits: 4, scaling: scaleAndMinimum, values: func(v *words, src []byte, _ int) { v.nibbles(src, 4) }},
	tensor.Q5_0: &groupLayout{bits: 5, offset: 16, scaling: oneScale, values: func(v *words, src []byte, _ int) {
		v.nibbles(src, 6)
		for k := range v.high {
			v.high[k] = word(src, 2, 0) >> (4 * k) & 15 * 0x00204081 // bit i to bit 8*i
		}
	}},
	tensor.Q4_K: &groupLayout{bits: 4, scaling: sixBitScales, values: func(v *words, src []byte, g int) {
		for k := range v.low {
			v.low[k] = word(src, 16+g/2*32, k) >> (g % 2 * 4)
		}
	}},
	tensor.Q5_K: &groupLayout{bits: 5, scaling: sixBitScales, values: func(v *words, src []byte, g int) {
		for k := range v.low {
			v.low[k], v.high[k] = word(src, 48+g/2*32, k)>>(g%2*4), word(src, 16, k)>>g
		}
	}},
	tensor.Q6_K: &groupLayout{bits: 6, offset: 32, scaling: halfScales, values: func(v *words, src []byte, g int) {
		for k := range v.low {
			v.low[k] = word(src, g/4*64+g%2*32, k) >> (g % 4 / 2 * 4)
			v.high[k] = word(src, 128+g/4*32, k) >> (g % 4 * 2)
		}
	}},
}

// rowForm says in which forms rows meet weights.
type rowForm uint8

const (
	inGroups rowForm = 1 << iota // 8 bits per group of 32
	inRows                       // 8 bits per row, outliers apart
)

// formOf is how rows meet a format under [tensor.Act8]; 0 is as floats.
func formOf(t tensor.DType) rowForm {
	f, _ := quant.Of(t)
	switch f.Product {
	case quant.GroupProduct:
		return inGroups
	case quant.RowProduct:
		return inRows
	}
	return 0
}

// under is the forms that an activation mode asks for.
func (f rowForm) under(mode tensor.Activations) rowForm {
	if mode == tensor.Act8 {
		return f
	}
	return 0
}
