package cpu

import (
	"encoding/binary"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// words are the 32 values of a group, 4 to a word, and what stands above their nibbles.
type words struct{ low, high [group / 4]uint32 }

// repackSuper moves a row of a format with super-blocks.
func (w *weight) repackSuper(row []byte, b, j int) {
	f, _ := quant.Of(w.dtype)
	l, groups := w.layout, w.cols/group
	for s := range groups / superGroups {
		src := row[s*f.Bytes:][:f.Bytes]
		w.repackScales(src, superOf(w.scale, l, b*groups/superGroups+s), j)
		for g := range superGroups {
			var v words
			v.readQ4_K(src, g)
			v.write(w.data[(b*groups+s*superGroups+g)*l.lineBytes:][:l.lineBytes], j)
		}
	}
}

// repackScales moves the scales of a block of a file to lane j.
func (w *weight) repackScales(src []byte, to super, j int) {
	copy(to[2*j:], src[:2])
	copy(to[2*(lanes+j):], src[2:4])
	for g := range superGroups {
		to.bytes(2, 2, g, 0)[j], to.bytes(2, 2, g, 1)[j] = quant.KScales(src[4:16], g)
	}
}

func (v *words) readQ4_K(src []byte, g int) {
	run := src[16+g/2*group:]
	for k := range v.low {
		v.low[k] = binary.LittleEndian.Uint32(run[4*k:]) >> (g % 2 * 4) & 0x0f0f0f0f
	}
}

// write puts the values of lane j in its place of the lines.
func (v *words) write(lines []byte, j int) {
	for c := range 4 {
		binary.LittleEndian.PutUint32(lines[c*4*lanes+4*j:], v.low[c]|v.low[c+4]<<4)
	}
}

// dequantiseSuper writes row r of a format with super-blocks.
func (w *weight) dequantiseSuper(dst []float32, r int) {
	b, j := r/lanes, r%lanes
	l, groups := w.layout, w.cols/group
	var dw, mw [lanes]float32
	for g := range groups {
		at := b*groups + g
		lines, out := w.data[at*l.lineBytes:], dst[g*group:][:group]
		s := superOf(w.scale, l, at/superGroups)
		switch l.kind {
		case tensor.Q4_K:
			s.minima(&dw, &mw, g%superGroups)
			for i := range out {
				out[i] = float32(dw[j]*float32(nibbleAt(lines, i, j))) + mw[j]
			}
		}
	}
}
