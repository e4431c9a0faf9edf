package tensortest

import (
	"encoding/binary"
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// ruleGroup is a group of 32 columns of a row of blocks as the rules see it, read without
// the help of package quant: runs of integers with a scale each, and perhaps a minimum.
type ruleGroup struct {
	q       [32]int
	scales  []float32 // of runs of equal length
	minimum float32
	offset  bool // there is a minimum
}

func readGroup(f quant.Format, row []byte, g int) ruleGroup {
	per := f.Group / 32
	block, g := row[g/per*f.Bytes:][:f.Bytes], g%per
	half := func(at int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(block[at:])) }
	var out ruleGroup
	each := func(value func(i int) int) {
		for i := range out.q {
			out.q[i] = value(i)
		}
	}
	switch f.DType {
	case tensor.Q8_0:
		each(func(i int) int { return int(int8(block[2+i])) })
	case tensor.Q4_0:
		each(func(i int) int { return int(block[2+i%16]>>(i/16*4)&15) - 8 })
	case tensor.Q4_1:
		each(func(i int) int { return int(block[4+i%16] >> (i / 16 * 4) & 15) })
		out.minimum, out.offset = half(2), true
	case tensor.Q4_K:
		each(func(i int) int { return int(block[16+g/2*32+i] >> (g % 2 * 4) & 15) })
	case tensor.Q5_K:
		each(func(i int) int { return int(block[48+g/2*32+i]>>(g%2*4)&15) + int(block[16+i]>>g&1)*16 })
	case tensor.Q6_K:
		each(func(i int) int {
			low := block[g/4*64+(g%2*32+i)] >> (g / 2 % 2 * 4) & 15
			return int(low) + int(block[128+g/4*32+i]>>(g%4*2)&3)*16 - 32
		})
	case tensor.Q5_0:
		each(func(i int) int { return int(block[6+i%16]>>(i/16*4)&15) + int(block[2+i/8]>>(i%8)&1)*16 - 16 })
	}
	switch f.DType {
	case tensor.Q4_K, tensor.Q5_K:
		sc, m := sixBits(block[4:16], g)
		out.scales = []float32{float32(half(0) * float32(sc))}
		out.minimum, out.offset = -float32(half(2)*float32(m)), true
	case tensor.Q6_K:
		for _, sc := range block[192+2*g:][:2] {
			out.scales = append(out.scales, float32(half(208)*float32(int8(sc))))
		}
	default:
		out.scales = []float32{half(0)}
	}
	return out
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
