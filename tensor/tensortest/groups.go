package tensortest

import (
	"encoding/binary"
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// ruleGroup is a group of 32 columns of a row of blocks as the rules see it: integers, in
// runs of equal length with a scale each, and perhaps a minimum.
type ruleGroup struct {
	q       [32]int
	scales  []float32
	minimum float32
	offset  bool // there is a minimum
}

// ruleFormat reads the blocks of a format without the help of package quant.
type ruleFormat struct {
	value func(b block, g, i int) int // column i of group g
	ends  func(b block, g int, out *ruleGroup)
	// tame says where the float16 numbers of a large block lie, and values for them that
	// leave sums of products small.
	tame map[int]float32
}

// ruleFormats has a row for each format with a quantised product.
var ruleFormats = map[tensor.DType]ruleFormat{
	tensor.Q8_0: {value: func(b block, _, i int) int { return int(int8(b[2+i])) }, ends: oneScale},
	tensor.Q4_0: {value: func(b block, _, i int) int { return b.bits(2+i%16, i/16*4, 4) - 8 }, ends: oneScale},
	tensor.Q4_1: {value: func(b block, _, i int) int { return b.bits(4+i%16, i/16*4, 4) }, ends: scaleAndMinimum},
	tensor.Q5_0: {value: func(b block, _, i int) int {
		return b.bits(6+i%16, i/16*4, 4) + b.bits(2+i/8, i%8, 1)*16 - 16
	}, ends: oneScale},
	tensor.Q4_K: {value: func(b block, g, i int) int { return b.bits(16+g/2*32+i, g%2*4, 4) },
		ends: sixBitScales, tame: map[int]float32{0: 0.001, 2: 0.005}},
	tensor.Q5_K: {value: func(b block, g, i int) int { return b.bits(48+g/2*32+i, g%2*4, 4) + b.bits(16+i, g, 1)*16 },
		ends: sixBitScales, tame: map[int]float32{0: 0.001, 2: 0.005}},
	tensor.Q6_K: {value: func(b block, g, i int) int {
		return b.bits(g/4*64+g%2*32+i, g/2%2*4, 4) + b.bits(128+g/4*32+i, g%4*2, 2)*16 - 32
	}, ends: halfGroupScales, tame: map[int]float32{208: 0.001}},
}

func readGroup(f quant.Format, row []byte, g int) (out ruleGroup) {
	per := f.Group / 32
	b, g, r := block(row[g/per*f.Bytes:][:f.Bytes]), g%per, ruleFormats[f.DType]
	for i := range out.q {
		out.q[i] = r.value(b, g, i)
	}
	r.ends(b, g, &out)
	return out
}

// block is one of a file.
type block []byte

func (b block) half(at int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b[at:])) }

// bits are n bits of a byte, from the given one on.
func (b block) bits(at, from, n int) int { return int(b[at]) >> from & (1<<n - 1) }

func oneScale(b block, _ int, out *ruleGroup) { out.scales = []float32{b.half(0)} }

func scaleAndMinimum(b block, _ int, out *ruleGroup) {
	out.scales, out.minimum, out.offset = []float32{b.half(0)}, b.half(2), true
}

func sixBitScales(b block, g int, out *ruleGroup) {
	sc, m := sixBits(b[4:16], g)
	out.scales = []float32{float32(b.half(0) * float32(sc))}
	out.minimum, out.offset = -float32(b.half(2)*float32(m)), true
}

func halfGroupScales(b block, g int, out *ruleGroup) {
	for _, sc := range b[192+2*g:][:2] {
		out.scales = append(out.scales, float32(b.half(208)*float32(int8(sc))))
	}
}

// sixBits reads scale and minimum of a group from 96 bits: four groups keep theirs in the
// low 6 bits of bytes of their own; the pairs of bits above those belong to the last four.
func sixBits(b []byte, g int) (scale, minimum int) {
	if g < 4 {
		return int(b[g] % 64), int(b[4+g] % 64)
	}
	return int(b[4+g]%16) + 16*int(b[g-4]/64), int(b[4+g]/16) + 16*int(b[g]/64)
}

// quantProduct is the product of a row of blocks with x in 8 bits.
func quantProduct(f quant.Format, row []byte, x []float32) float32 {
	acc := float32(0)
	for g := range len(x) / 32 {
		w, v := readGroup(f, row, g), x[g*32:][:32]
		amax := float32(0)
		for _, e := range v {
			amax = max(amax, float32(math.Abs(float64(e))))
		}
		d, id := amax/127, 127/amax
		dots, sum := make([]int, len(w.scales)), 0
		for i, e := range v {
			q := int(math.RoundToEven(float64(float32(e * id))))
			dots[i*len(dots)/32] += q * w.q[i]
			sum += q
		}
		product := float32(0)
		for i, s := range dots {
			product = fma(float32(s), w.scales[i], product)
		}
		acc = fma(product, d, acc)
		if w.offset {
			acc = fma(w.minimum, float32(d*float32(sum)), acc)
		}
	}
	return acc
}
