package cpu

import (
	"math"

	"whorl/tensor/quant"
)

// tinyGroup is the magnitude below which a group of activations counts as zero: 127/amax
// would overflow soon below.
const tinyGroup = 1.0 / (1 << 120)

// genericQuantise cuts x in groups and rounds each to signed bytes. A group that holds an
// infinity or a NaN gets a scale that is one too, so that it shows in every result.
func genericQuantise(q []quantGroup, x []float32) {
	for g := range q {
		v, out := x[g*group:(g+1)*group], &q[g]
		most := uint32(0) // of the bits without sign: orders all floats, NaN last
		for _, e := range v {
			most = max(most, math.Float32bits(e)&^(1<<31))
		}
		amax := math.Float32frombits(most)
		d, id := amax/127, float32(0)
		switch {
		case amax < tinyGroup:
			d = 0
		case most < 0x7f800000:
			id = 127 / amax
		}
		var sums [2]int32
		for i, e := range v {
			n := int8(0)
			if id != 0 {
				n = int8(float32(float32(e*id)+rounder) - rounder)
			}
			out.q[i] = n
			sums[i/16] += int32(n)
		}
		sum := sums[0] + sums[1]
		out.d, out.dsum = d, d*float32(sum)
		out.off8, out.off4 = biased-128*sum, biased-8*sum
		out.off32 = [2]int32{biased - 32*sums[0], -32 * sums[1]}
	}
}

// scaleAcc ends a group: biased integer sums times the scales of weights, then times that
// of the row by fma.
func scaleAcc(acc *[lanes]float32, s *[lanes]int32, dw *[lanes]float32, d float32) {
	p := products(s, dw)
	fmaLanes(acc, &p, d)
}

// products are biased integer sums times the scales of weights; no zero is negative.
func products(s *[lanes]int32, dw *[lanes]float32) (p [lanes]float32) {
	for j, v := range s {
		if v != biased {
			p[j] = float32(v-biased) * dw[j]
		}
	}
	return p
}

func halves(dst *[lanes]float32, src []uint16) {
	for j := range dst {
		dst[j] = quant.F16ToF32(src[j])
	}
}

// dot8 adds the products of 8 lines of unsigned bytes with a group of a row.
func dot8(s *[lanes]int32, lines []byte, x *[group]int8) {
	for c := range 8 {
		line := (*[4 * lanes]byte)(lines[c*4*lanes:])
		x0, x1, x2, x3 := int32(x[4*c]), int32(x[4*c+1]), int32(x[4*c+2]), int32(x[4*c+3])
		for j := range s {
			s[j] += int32(line[4*j])*x0 + int32(line[4*j+1])*x1 + int32(line[4*j+2])*x2 + int32(line[4*j+3])*x3
		}
	}
}

// dot4 is dot8 for 4 lines of nibbles.
func dot4(s *[lanes]int32, lines []byte, x *[group]int8) {
	for c := range 4 {
		line := (*[4 * lanes]byte)(lines[c*4*lanes:])
		for i := range 4 {
			lo, hi := int32(x[4*c+i]), int32(x[16+4*c+i])
			for j := range s {
				v := line[4*j+i]
				s[j] += int32(v&15)*lo + int32(v>>4)*hi
			}
		}
	}
}

// genericOffset is the product of formats with a scale and an unsigned offset.
func genericOffset(a *quantArgs, lineBytes int, dot func(*[lanes]int32, []byte, *[group]int8), off func(*quantGroup) int32) {
	var dw [lanes]float32
	for b := range a.blocks {
		for g := range a.groups {
			halves(&dw, a.scale[(b*a.groups+g)*lanes:])
			lines := a.data[(b*a.groups+g)*lineBytes:]
			for r := range a.rows {
				x := &a.x[r*a.groups+g]
				s := splat(off(x))
				dot(&s, lines, &x.q)
				scaleAcc((*[lanes]float32)(a.acc[r*a.accStride+b*lanes:]), &s, &dw, x.d)
			}
		}
	}
}

func genericQ8_0(a *quantArgs) {
	genericOffset(a, 512, dot8, func(x *quantGroup) int32 { return x.off8 })
}

func genericQ4_0(a *quantArgs) {
	genericOffset(a, 256, dot4, func(x *quantGroup) int32 { return x.off4 })
}

func genericQ4_1(a *quantArgs) {
	var dw, mw [lanes]float32
	for b := range a.blocks {
		for g := range a.groups {
			scale := a.scale[(b*a.groups+g)*2*lanes:]
			halves(&dw, scale)
			halves(&mw, scale[lanes:])
			lines := a.data[(b*a.groups+g)*256:]
			for r := range a.rows {
				x := &a.x[r*a.groups+g]
				s := splat(biased)
				dot4(&s, lines, &x.q)
				acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
				scaleAcc(acc, &s, &dw, x.d)
				fmaLanes(acc, &mw, x.dsum)
			}
		}
	}
}

// The unpackers give the bits of package quant in the float layout.

func genericUnpackQ8_0(dst []float32, data []byte, scale []uint16, groups int) {
	var dw [lanes]float32
	for g := range groups {
		halves(&dw, scale[g*lanes:])
		lines, out := data[g*512:], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				q := lines[i/4*64+4*j+i%4]
				out[i*lanes+j] = float32(int(q)-128) * dw[j]
			}
		}
	}
}

// nibbleAt is the value of column i, lane j in the 4 lines of a group.
func nibbleAt(lines []byte, i, j int) byte {
	return lines[i%16/4*64+4*j+i%4] >> (i / 16 * 4) & 15
}

func genericUnpackQ4_0(dst []float32, data []byte, scale []uint16, groups int) {
	var dw [lanes]float32
	for g := range groups {
		halves(&dw, scale[g*lanes:])
		lines, out := data[g*256:], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				out[i*lanes+j] = dw[j] * float32(int(nibbleAt(lines, i, j))-8)
			}
		}
	}
}

func genericUnpackQ4_1(dst []float32, data []byte, scale []uint16, groups int) {
	var dw, mw [lanes]float32
	for g := range groups {
		halves(&dw, scale[g*2*lanes:])
		halves(&mw, scale[g*2*lanes+lanes:])
		lines, out := data[g*256:], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				out[i*lanes+j] = float32(dw[j]*float32(nibbleAt(lines, i, j))) + mw[j]
			}
		}
	}
}
