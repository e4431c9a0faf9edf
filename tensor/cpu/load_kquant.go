package cpu

import (
	"encoding/binary"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// words are the 32 values of a group of a row, 4 to a word: nibbles, and the bits above.
type words struct{ low, high [group / 4]uint32 }

// repackSuper moves a row of a format with super-blocks.
func (w *weight) repackSuper(row []byte, b, j int) {
	f, _ := quant.Of(w.dtype)
	l, groups := w.layout, w.cols/group
	var v words
	for s := range groups / superGroups {
		src := row[s*f.Bytes:][:f.Bytes]
		at := b*groups + s*superGroups
		l.repackScales(superOf(w.scale, l, at/superGroups), src, j)
		for g := range superGroups {
			v.read(l.kind, src, g)
			v.write(w.data[(at+g)*l.lineBytes:][:l.lineBytes], l.highBits(), j)
		}
	}
}

// repackScales moves the scales of a super-block to lane j.
func (l layout) repackScales(to super, src []byte, j int) {
	if l.kind == tensor.Q6_K {
		copy(to[2*j:], src[208:210])
		for g := range superGroups {
			first, second := to.pair(1, g)
			first[j], second[j] = src[192+2*g], src[193+2*g]
		}
		return
	}
	copy(to[2*j:], src[:2])
	copy(to[2*(lanes+j):], src[2:4])
	for g := range superGroups {
		sc, m := to.pair(2, g)
		sc[j], m[j] = quant.KScales(src[4:16], g)
	}
}

// repackQ5_0 moves a row of Q5_0.
func (w *weight) repackQ5_0(row []byte, b, j int) {
	groups := w.cols / group
	var v words
	for g := range groups {
		at, src := b*groups+g, row[g*22:][:22]
		w.scale[at*lanes+j] = binary.LittleEndian.Uint16(src)
		v.read(tensor.Q5_0, src, 0)
		v.write(w.data[at*320:][:320], 1, j)
	}
}

// read takes group g of a block of a file (package quant says how it lies).
func (v *words) read(t tensor.DType, src []byte, g int) {
	word := func(at, k int) uint32 { return binary.LittleEndian.Uint32(src[at+4*k:]) }
	for k := range v.low {
		switch t {
		case tensor.Q4_K:
			v.low[k] = word(16+g/2*32, k) >> (g % 2 * 4)
		case tensor.Q5_K:
			v.low[k], v.high[k] = word(48+g/2*32, k)>>(g%2*4), word(16, k)>>g
		case tensor.Q6_K:
			v.low[k] = word(g/4*64+g%2*32, k) >> (g % 4 / 2 * 4)
			v.high[k] = word(128+g/4*32, k) >> (g % 4 * 2)
		case tensor.Q5_0:
			v.low[k] = word(6, k%4) >> (k / 4 * 4)
			bits := word(2, 0) >> (4 * k) & 15
			v.high[k] = bits * 0x00204081 // bit i to bit 8*i
		}
	}
}

// write puts the values in lane j's place of the lines.
func (v *words) write(lines []byte, high, j int) {
	const nibbles = 0x0f0f0f0f
	for c := range 4 {
		binary.LittleEndian.PutUint32(lines[c*4*lanes+4*j:], v.low[c]&nibbles|v.low[c+4]&nibbles<<4)
	}
	mask := uint32(1<<high-1) * 0x01010101
	for line := range high {
		out := uint32(0)
		for at := 0; at < 8; at += high {
			n := (8*line + at) / high // the half n%2 of line n/2
			out |= v.high[n%2*4+n/2] & mask << at
		}
		binary.LittleEndian.PutUint32(lines[(4+line)*4*lanes+4*j:], out)
	}
}

// dequantiseSuper writes row r of a format with super-blocks.
func (w *weight) dequantiseSuper(dst []float32, r int) {
	b, j := r/lanes, r%lanes
	l, groups := w.layout, w.cols/group
	var dw, second [lanes]float32
	for g := range groups {
		at := b*groups + g
		lines, out := w.data[at*l.lineBytes:], dst[g*group:][:group]
		s := superOf(w.scale, l, at/superGroups)
		if l.kind == tensor.Q6_K {
			s.sixteens(&dw, &second, g%superGroups)
			scales := [2]float32{dw[j], second[j]}
			for i := range out {
				out[i] = scales[i/16] * float32(int(highAt(lines, 2, i, j))-32)
			}
			continue
		}
		s.minima(&dw, &second, g%superGroups)
		for i := range out {
			q := nibbleAt(lines, i, j)
			if l.kind == tensor.Q5_K {
				q = fiveAt(lines, i, j)
			}
			out[i] = float32(dw[j]*float32(q)) + second[j]
		}
	}
}
