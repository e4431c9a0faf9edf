package cpu

import (
	"unsafe"

	"whorl/tensor"
)

// The formats of this file cut columns in super-blocks of 8 groups. Their scales lie in
// one run of bytes for each super-block of a block (package doc): float16 numbers of the
// 16 lanes, then bytes of the 16 lanes for each group.

// superGroups is the number of groups of a super-block.
const superGroups = 8

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

// bytes are the n-th bytes of the lanes for group g; head is the number of float16 numbers
// of a lane and each that of bytes of a lane and a group.
func (s super) bytes(head, each, g, n int) *[lanes]byte {
	return (*[lanes]byte)(s[lanes*(2*head+each*g+n):])
}

// minima gives the scales and the negated minima of group g of a format with 6-bit ones:
// both products are exact.
func (s super) minima(dw, mw *[lanes]float32, g int) {
	s.halves(dw, 0)
	s.halves(mw, 1)
	sc, m := s.bytes(2, 2, g, 0), s.bytes(2, 2, g, 1)
	for j := range lanes {
		dw[j] *= float32(sc[j])
		mw[j] *= -float32(m[j])
	}
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
				var s [lanes]int32
				dot(&s, a.data[at*l.lineBytes:], &x.q)
				acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
				scaleAcc(acc, &s, &dw, x.d)
				fmaLanes(acc, &mw, x.dsum)
			}
		}
	}
}

func genericQ4_K(a *quantArgs) { genericMinima(a, layoutOf(tensor.Q4_K), dot4) }

// unpackMinima dequantises formats with 6-bit scales and minima; value gives an integer.
func unpackMinima(dst []float32, data []byte, scale []uint16, groups int, l layout, value func(lines []byte, i, j int) byte) {
	var dw, mw [lanes]float32
	for g := range groups {
		superOf(scale, l, g/superGroups).minima(&dw, &mw, g%superGroups)
		lines, out := data[g*l.lineBytes:], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				out[i*lanes+j] = float32(dw[j]*float32(value(lines, i, j))) + mw[j]
			}
		}
	}
}

func genericUnpackQ4_K(dst []float32, data []byte, scale []uint16, groups int) {
	unpackMinima(dst, data, scale, groups, layoutOf(tensor.Q4_K), nibbleAt)
}
