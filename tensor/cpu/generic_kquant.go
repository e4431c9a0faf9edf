package cpu

import (
	"unsafe"

	"whorl/tensor"
)

// Most formats of this file cut columns in super-blocks of 8 groups. Their scales lie in
// one run of bytes for each super-block of a block (package doc): float16 numbers of the
// 16 lanes, then bytes of the 16 lanes for each group. Above the lines of nibbles stand
// lines of further bits, packed: the values of line c have the bits h*(2c) and up in its
// low half of columns, and h*(2c+1) and up in the high half, if a value has h such bits.

// superGroups is the number of groups of a super-block.
const superGroups = 8

// highBits is the number of bits of a value above its nibble.
func (l layout) highBits() int { return l.lineBytes/(4*lanes) - 4 }

// super is a view of the scales of one super-block.
type super []byte

func superOf(scale []uint16, l layout, i int) super {
	s := scale[i*superGroups*l.scales:][:superGroups*l.scales]
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 2*len(s))
}

// halves widens the n-th float16 numbers of the lanes.
func (s super) halves(dst *[lanes]float32, n int) {
	halves(dst, unsafe.Slice((*uint16)(unsafe.Pointer(&s[2*lanes*n])), lanes))
}

// pair are the two bytes of each lane for group g, behind head float16 numbers.
func (s super) pair(head, g int) (first, second *[lanes]byte) {
	at := 2 * lanes * (head + g)
	return (*[lanes]byte)(s[at:]), (*[lanes]byte)(s[at+lanes:])
}

// minima gives the scales and the negated minima of group g of a format with 6-bit ones:
// both products are exact.
func (s super) minima(dw, mw *[lanes]float32, g int) {
	s.halves(dw, 0)
	s.halves(mw, 1)
	sc, m := s.pair(2, g)
	for j := range lanes {
		dw[j] *= float32(sc[j])
		mw[j] *= -float32(m[j])
	}
}

// sixteens gives the scales of the two runs of 16 columns of group g of Q6_K, exactly.
func (s super) sixteens(lo, hi *[lanes]float32, g int) {
	s.halves(lo, 0)
	first, second := s.pair(1, g)
	for j, d := range lo {
		lo[j], hi[j] = d*float32(int8(first[j])), d*float32(int8(second[j]))
	}
}

// highAt is the value of column i, lane j in the lines of a group: nibble and bits above.
func highAt(lines []byte, high, i, j int) byte {
	at := high * (i%16/4*2 + i/16)
	above := lines[(4+at/8)*4*lanes+4*j+i%4] >> (at % 8) & (1<<high - 1)
	return nibbleAt(lines, i, j) | above<<4
}

// dotHigh adds the products of columns [16*half, 16*half+16) of a group.
func dotHigh(s *[lanes]int32, lines []byte, high, half int, x *[group]int8) {
	for i := 16 * half; i < 16*half+16; i++ {
		for j := range s {
			s[j] += int32(highAt(lines, high, i, j)) * int32(x[i])
		}
	}
}

func dot5(s *[lanes]int32, lines []byte, x *[group]int8) {
	dotHigh(s, lines, 1, 0, x)
	dotHigh(s, lines, 1, 1, x)
}

// genericMinima is the product of formats with 6-bit scales and minima.
func genericMinima(a *quantArgs, l layout, dot func(*[lanes]int32, []byte, *[group]int8)) {
	var dw, mw [lanes]float32
	for b := range a.blocks {
		for g := range a.groups {
			at := b*a.groups + g
			superOf(a.scale, l, at/superGroups).minima(&dw, &mw, g%superGroups)
			for r := range a.rows {
				x := &a.x[r*a.groups+g]
				s := splat(biased)
				dot(&s, a.data[at*l.lineBytes:], &x.q)
				acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
				scaleAcc(acc, &s, &dw, x.d)
				fmaLanes(acc, &mw, x.dsum)
			}
		}
	}
}

func genericQ4_K(a *quantArgs) { genericMinima(a, layoutOf(tensor.Q4_K), dot4) }
func genericQ5_K(a *quantArgs) { genericMinima(a, layoutOf(tensor.Q5_K), dot5) }

func genericQ5_0(a *quantArgs) {
	genericOffset(a, 320, dot5, func(x *quantGroup) int32 { return 2*x.off4 - biased })
}

func genericQ6_K(a *quantArgs) {
	var dw [2][lanes]float32
	l := layoutOf(tensor.Q6_K)
	for b := range a.blocks {
		for g := range a.groups {
			at := b*a.groups + g
			superOf(a.scale, l, at/superGroups).sixteens(&dw[0], &dw[1], g%superGroups)
			for r := range a.rows {
				x := &a.x[r*a.groups+g]
				acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
				var s [2][lanes]int32
				for half := range s {
					s[half] = splat(x.off32[half])
					dotHigh(&s[half], a.data[at*l.lineBytes:], 2, half, &x.q)
				}
				scaleHalves(acc, &s, &dw[0], &dw[1], x.d)
			}
		}
	}
}

// scaleHalves is scaleAcc for the sums of two halves of a group, of which the first is
// biased. Their products are added by fma before the row's scale.
func scaleHalves(acc *[lanes]float32, s *[2][lanes]int32, lo, hi *[lanes]float32, d float32) {
	p := products(&s[0], lo)
	for j, v := range s[1] {
		p[j] = fma32(float32(v), hi[j], p[j])
	}
	fmaLanes(acc, &p, d)
}

func splat(v int32) (s [lanes]int32) {
	for j := range s {
		s[j] = v
	}
	return s
}

// unpackLanes writes groups in the float layout; value is called for all 16 lanes of a
// column in turn, with the lines of the group.
func unpackLanes(dst []float32, data []byte, groups, lineBytes int, scales func(g int), value func(lines []byte, i, j int) float32) {
	for g := range groups {
		scales(g)
		lines, out := data[g*lineBytes:], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				out[i*lanes+j] = value(lines, i, j)
			}
		}
	}
}

func unpackMinima(dst []float32, data []byte, scale []uint16, groups int, l layout, value func(lines []byte, i, j int) byte) {
	var dw, mw [lanes]float32
	unpackLanes(dst, data, groups, l.lineBytes, func(g int) {
		superOf(scale, l, g/superGroups).minima(&dw, &mw, g%superGroups)
	}, func(lines []byte, i, j int) float32 {
		return float32(dw[j]*float32(value(lines, i, j))) + mw[j]
	})
}

// fiveAt is highAt for values of 5 bits.
func fiveAt(lines []byte, i, j int) byte { return highAt(lines, 1, i, j) }

func genericUnpackQ4_K(dst []float32, data []byte, scale []uint16, groups int) {
	unpackMinima(dst, data, scale, groups, layoutOf(tensor.Q4_K), nibbleAt)
}

func genericUnpackQ5_K(dst []float32, data []byte, scale []uint16, groups int) {
	unpackMinima(dst, data, scale, groups, layoutOf(tensor.Q5_K), fiveAt)
}

func genericUnpackQ5_0(dst []float32, data []byte, scale []uint16, groups int) {
	var dw [lanes]float32
	unpackLanes(dst, data, groups, 320, func(g int) { halves(&dw, scale[g*lanes:]) },
		func(lines []byte, i, j int) float32 { return dw[j] * float32(int(fiveAt(lines, i, j))-16) })
}

func genericUnpackQ6_K(dst []float32, data []byte, scale []uint16, groups int) {
	var dw [2][lanes]float32
	l := layoutOf(tensor.Q6_K)
	unpackLanes(dst, data, groups, l.lineBytes, func(g int) {
		superOf(scale, l, g/superGroups).sixteens(&dw[0], &dw[1], g%superGroups)
	}, func(lines []byte, i, j int) float32 { return dw[i/16][j] * float32(int(highAt(lines, 2, i, j))-32) })
}
