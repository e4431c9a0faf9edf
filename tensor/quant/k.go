package quant

import (
	"encoding/binary"
	"math"
)

// Q4_K and Q5_K cut 256 columns in 8 groups of 32, each with a scale and a minimum of 6
// bits in units of the block's float16 d and dmin; the value is (d*scale)*q - dmin*minimum.

// KScales gives scale and minimum of group g of the 12 bytes that hold those of a block.
// The first four of each fill the low 6 bits of bytes 0-3 and 4-7; the last four have
// their low nibbles in bytes 8-11 and their upper pairs of bits above the first ones.
func KScales(b []byte, g int) (scale, minimum byte) {
	if g < 4 {
		return b[g] & 63, b[g+4] & 63
	}
	return b[g+4]&15 | b[g-4]>>6<<4, b[g+4]>>4 | b[g]>>6<<4
}

// putKScales is the inverse of KScales, on bytes that start as zero.
func putKScales(b []byte, g int, scale, minimum byte) {
	if g < 4 {
		b[g] |= scale
		b[g+4] |= minimum
		return
	}
	b[g+4] = scale&15 | minimum&15<<4
	b[g-4] |= scale >> 4 << 6
	b[g] |= minimum >> 4 << 6
}

// kGroup is how a group is rounded: x is about scale*q - minimum, minimum >= 0.
type kGroup struct{ scale, minimum float32 }

// packK rounds 256 values to q in 0..levels, and writes d, dmin and the 12 bytes of
// scales. First each group gets the real scale and minimum that suit it best; those are
// rounded to 6 bits, and the neighbours of the rounded scale are tried with the minimum
// that goes best with each: one can often make good what rounding did to the other.
// Every product is rounded and every sum in order, so that all machines pack alike.
func packK(head []byte, q *[256]byte, x []float32, levels int32) {
	var fit [8]kGroup
	var most kGroup
	for g := range fit {
		fit[g] = fitK(x[32*g:32*g+32], levels)
		most.scale, most.minimum = max(most.scale, fit[g].scale), max(most.minimum, fit[g].minimum)
	}
	dh, mh := F32ToF16(most.scale/63), F32ToF16(most.minimum/63)
	binary.LittleEndian.PutUint16(head, dh)
	binary.LittleEndian.PutUint16(head[2:], mh)
	clear(head[4:16])
	d, dmin := F16ToF32(dh), F16ToF32(mh)
	id, idmin := inverse(d), inverse(dmin)
	for g, f := range fit {
		group, out := x[32*g:32*g+32], q[32*g:32*g+32]
		s0, m0 := sixBits(float32(f.scale*id)), sixBits(float32(f.minimum*idmin))
		least, best, bestS, bestM := float32(math.Inf(1)), kGroup{}, s0, m0
		for s := max(s0, 1) - 1; s <= min(s0+1, 63); s++ {
			try := kGroup{d * float32(s), dmin * float32(m0)}
			m := sixBits(float32(sumsK(group, try, levels).offset(try.scale) * idmin))
			try.minimum = dmin * float32(m)
			if e := errorK(group, try, levels); e < least {
				least, best, bestS, bestM = e, try, s, m
			}
		}
		putKScales(head[4:16], g, bestS, bestM)
		inv := inverse(best.scale)
		for i, v := range group {
			out[i] = byte(level(v, best.minimum, inv, levels))
		}
	}
}

// level is the nearest q for v. What is far out of range, or no number, gives some level.
func level(v, minimum, inv float32, levels int32) int32 {
	q := int32(math.Float32bits(float32(float32(v+minimum)*inv)+rounder)) - rounderBits
	return max(min(q, levels), 0)
}

// fitK finds scale and minimum of least squared error: for a few spacings around the one
// that just spans the group, it rounds the values and solves for the line through them.
func fitK(x []float32, levels int32) kGroup {
	lo, hi := float32(0), x[0] // the minimum is never above zero
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	best, least := kGroup{(hi - lo) / float32(levels), -lo}, float32(math.Inf(1))
	if !(hi > lo) {
		return kGroup{0, -lo}
	}
	for step := float32(-2); step <= 0.5; step += 0.5 {
		sum := sumsK(x, kGroup{(hi - lo) / (float32(levels) + step), -lo}, levels)
		f := sum.line()
		if e := sum.error(f); f.scale > 0 && e < least {
			best, least = f, e
		}
	}
	return best
}

// errorK is the sum of the squared errors of a group.
func errorK(x []float32, f kGroup, levels int32) float32 {
	inv, sum := inverse(f.scale), float32(0)
	for _, v := range x {
		e := float32(f.scale*float32(level(v, f.minimum, inv, levels))) - float32(v+f.minimum)
		sum += float32(e * e)
	}
	return sum
}

// sums are those of a group's q, q², x and q*x: they settle its line of least squares.
type sums struct{ n, q, qq, x, qx float32 }

func sumsK(x []float32, f kGroup, levels int32) sums {
	inv, sum := inverse(f.scale), sums{n: float32(len(x))}
	var q1, q2 int32
	for _, v := range x {
		q := level(v, f.minimum, inv, levels)
		q1 += q
		q2 += q * q
		sum.x += v
		sum.qx += float32(float32(q) * v)
	}
	sum.q, sum.qq = float32(q1), float32(q2)
	return sum
}

// line is the best scale and minimum for these q; the scale is 0 if there is none.
func (s sums) line() kGroup {
	det := float32(s.n*s.qq) - float32(s.q*s.q)
	if !(det > 0) {
		return kGroup{}
	}
	f := kGroup{
		(float32(s.n*s.qx) - float32(s.q*s.x)) / det,
		(float32(s.q*s.qx) - float32(s.qq*s.x)) / det,
	}
	if f.minimum < 0 { // not to be had: the best line through zero
		f = kGroup{s.qx / s.qq, 0}
	}
	return f
}

// error is the sum of squared errors of these q, less that of x² (the same for all).
func (s sums) error(f kGroup) float32 {
	slope := float32(f.scale * (float32(f.scale*s.qq) - 2*s.qx - float32(2*f.minimum*s.q)))
	return slope + float32(f.minimum*(float32(s.n*f.minimum)+2*s.x))
}

// offset is the best minimum for a given scale.
func (s sums) offset(scale float32) float32 { return (float32(scale*s.q) - s.x) / s.n }

// sixBits is the nearest number of 6 bits; NaN gives 0.
func sixBits(v float32) byte {
	switch v += 0.5; {
	case v >= 63:
		return 63
	case v > 0:
		return byte(v)
	}
	return 0
}
