package cpu

import (
	"encoding/binary"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// superGroups is the number of groups of a super-block.
const superGroups = 8

// groupLayout is the layout of a format with a quantised product: lines of the values of
// each group, and scales apart.
type groupLayout struct {
	bits   int // of a value: 4 and what lies above in lines of its own, or 8
	offset int // a value q stands for (q-offset)*scale; not beside minima
	scaling
	// values takes those of group g of a block of a file (package quant says how it lies);
	// bits beyond a value's are ignored.
	values func(v *words, src []byte, g int)
}

// scaling is how the scales of a layout lie.
type scaling struct {
	form   panelForm // what they are
	groups int       // that have them together: 1, or those of a super-block
	words  int       // of 16 bits, for each group
	// move brings the scales of a block of a file to lane j.
	move func(to []uint16, src []byte, j int)
	// read gives, of group g, the scales of all lanes, and their minima or the scales of the
	// second half. All are exact.
	read func(s []uint16, g int) (first, second [lanes]float32)
}

var (
	oneScale = scaling{
		form: plainPanel, groups: 1, words: lanes,
		move: func(to []uint16, src []byte, j int) { to[j] = binary.LittleEndian.Uint16(src) },
		read: func(s []uint16, _ int) (dw, none [lanes]float32) { return halves(s), none },
	}
	scaleAndMinimum = scaling{
		form: minimumPanel, groups: 1, words: 2 * lanes,
		move: func(to []uint16, src []byte, j int) {
			to[j], to[lanes+j] = binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
		},
		read: func(s []uint16, _ int) (dw, mw [lanes]float32) { return halves(s), halves(s[lanes:]) },
	}
	// sixBitScales have 2 float16 numbers a super-block and 2 bytes a group.
	sixBitScales = scaling{
		form: minimumPanel, groups: superGroups, words: lanes + 2*lanes/superGroups,
		move: func(to []uint16, src []byte, j int) {
			to[j], to[lanes+j] = binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
			for g := range superGroups {
				sc, m := pairOf(to, 2, g)
				sc[j], m[j] = quant.KScales(src[4:16], g)
			}
		},
		read: func(s []uint16, g int) (dw, mw [lanes]float32) {
			dw, mw = halves(s), halves(s[lanes:])
			sc, m := pairOf(s, 2, g)
			for j := range lanes {
				dw[j] *= float32(sc[j])
				mw[j] *= -float32(m[j])
			}
			return dw, mw
		},
	}
	// halfScales are those of Q6_K: 1 float16 number a super-block, a signed byte for each
	// half of a group.
	halfScales = scaling{
		form: halfPanel, groups: superGroups, words: lanes + lanes/superGroups,
		move: func(to []uint16, src []byte, j int) {
			to[j] = binary.LittleEndian.Uint16(src[208:])
			for g := range superGroups {
				first, second := pairOf(to, 1, g)
				first[j], second[j] = src[192+2*g], src[193+2*g]
			}
		},
		read: func(s []uint16, g int) (lo, hi [lanes]float32) {
			first, second := pairOf(s, 1, g)
			for j, d := range halves(s) {
				lo[j], hi[j] = d*float32(int8(first[j])), d*float32(int8(second[j]))
			}
			return lo, hi
		},
	}
)

// pairOf are the two bytes of each lane for group g, behind head float16 numbers.
func pairOf(s []uint16, head, g int) (first, second *[lanes]byte) {
	p := (*[2][lanes]byte)(unsafe.Pointer(&s[lanes*(head+g)]))
	return &p[0], &p[1]
}

// of are the scales in which those of a group lie, all groups counted, and its place there.
func (s *scaling) of(scale []uint16, group int) (run []uint16, g int) {
	at := group / s.groups * s.groups
	return scale[at*s.words:][:s.groups*s.words], group - at
}

// lineBytes are those of a group.
func (l *groupLayout) lineBytes() int { return l.bits * group * lanes / 8 }

func (l *groupLayout) size(cols int) (values, scales int) {
	groups := cols / group
	return groups * l.lineBytes(), groups * 2 * l.words
}

// groupsOf are the lines and scales of a block from group g on.
func (l *groupLayout) groupsOf(w *weight, b, g int) (data []byte, scale []uint16) {
	at := b*w.cols/group + g
	return w.data[at*l.lineBytes():], w.scale[at*l.words:]
}

func (l *groupLayout) repack(w *weight, row []byte, b, j int) {
	f, _ := quant.Of(w.dtype)
	first, size := b*w.cols/group, l.lineBytes()
	var v words
	for g := 0; g < w.cols/group; g += l.groups {
		src := row[g/l.groups*f.Bytes:][:f.Bytes]
		to, _ := l.of(w.scale, first+g)
		l.move(to, src, j)
		for i := range l.groups {
			l.values(&v, src, i)
			v.write(w.data[(first+g+i)*size:][:size], l.bits, j)
		}
	}
}

func (l *groupLayout) dequantise(w *weight, dst []float32, b, j int) {
	for g := range w.cols / group {
		at := b*w.cols/group + g
		run, i := l.of(w.scale, at)
		first, second := l.read(run, i)
		lines, out := w.data[at*l.lineBytes():], dst[g*group:][:group]
		for i := range out {
			out[i] = l.form.value(int(l.at(lines, i, j))-l.offset, i, first[j], second[j])
		}
	}
}

// value is what column i of a group stands for.
func (f panelForm) value(q, i int, first, second float32) float32 {
	switch {
	case f == minimumPanel:
		return float32(first*float32(q)) + second
	case f == halfPanel && i >= group/2:
		return second * float32(q)
	}
	return first * float32(q)
}

// at is the value of column i, lane j in the lines of a group.
func (l *groupLayout) at(lines []byte, i, j int) byte {
	if l.bits == 8 {
		return lines[i/4*4*lanes+4*j+i%4]
	}
	q := lines[i%16/4*4*lanes+4*j+i%4] >> (i / 16 * 4) & 15
	if high := l.bits - 4; high > 0 {
		at := high * (i%16/4*2 + i/16)
		q |= lines[(4+at/8)*4*lanes+4*j+i%4] >> (at % 8) & (1<<high - 1) << 4
	}
	return q
}

// words are the 32 values of a group of a row, 4 to a word: bytes, or nibbles and the bits
// above.
type words struct{ low, high [group / 4]uint32 }

// word is the k-th from a byte of a block on.
func word(src []byte, at, k int) uint32 { return binary.LittleEndian.Uint32(src[at+4*k:]) }

// nibbles takes 16 bytes, whose high halves are columns from 16 on.
func (v *words) nibbles(src []byte, at int) {
	for k := range 4 {
		v.low[k] = word(src, at, k)
		v.low[k+4] = v.low[k] >> 4
	}
}

// write puts the values in lane j's place of the lines. Above lines of nibbles stand lines
// of further bits, packed: the values of line c have the bits h*(2c) and up in its low half
// of columns, and h*(2c+1) and up in the high half, if a value has h such bits.
func (v *words) write(lines []byte, bits, j int) {
	if bits == 8 {
		for c, low := range v.low {
			binary.LittleEndian.PutUint32(lines[c*4*lanes+4*j:], low)
		}
		return
	}
	const nibbles = 0x0f0f0f0f
	for c := range 4 {
		binary.LittleEndian.PutUint32(lines[c*4*lanes+4*j:], v.low[c]&nibbles|v.low[c+4]&nibbles<<4)
	}
	high := bits - 4
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

func (l *groupLayout) multiply(op *productOp, s *scratch, acc []float32, w *weight, p piece) {
	switch {
	case op.a.mode == tensor.ActF32:
		op.multiplyFloats(&s.panels, acc, w, p)
	case op.panelled(w, p.rows):
		l.multiplyPanels(op, &s.panels, acc, w, p)
	default:
		l.multiplyEight(op, &s.quant, acc, w, p)
	}
}

func (l *groupLayout) columns(k *kernels, w *weight, dst []float32, b, c, n int) {
	data, scale := l.groupsOf(w, b, c/group)
	k.groups[w.dtype].unpack(dst, data, scale, n/group)
}

// multiplyEight continues quantised products on weights as they lie.
func (l *groupLayout) multiplyEight(op *productOp, q *quantArgs, acc []float32, w *weight, p piece) {
	k, groups := &op.d.k.groups[w.dtype], w.cols/group
	for b, n := 0, together(p.rows, op.d.k.eightRows, p.nb); b < p.nb; b += n {
		data, scale := l.groupsOf(w, p.b0+b, 0)
		*q = quantArgs{
			acc: acc[b*lanes:], accStride: p.nb * lanes, data: data, scale: scale, blocks: min(n, p.nb-b),
			x: op.a.eight[p.r0*groups:], rows: p.rows, groups: groups,
		}
		k.product(q)
	}
}

// multiplyPanels continues quantised products by way of panels of bytes. The sums stay in
// acc unless they go to a buffer.
func (l *groupLayout) multiplyPanels(op *productOp, ps *panels, acc []float32, w *weight, p piece) {
	k, groups, stride := op.d.k, w.cols/group, p.nb*lanes
	step := equalParts(groups/l.groups, byteGroups/l.groups) * l.groups // no super-block is cut
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		panel := ps.bytes[:2*n]
		for b := 0; b < p.nb; b += 2 {
			for i := range 2 {
				data, scale := l.groupsOf(w, p.b0+b+i, g)
				k.groups[w.dtype].expand(panel[i:], data, scale, n)
			}
			ps.args = panelArgs{
				acc: acc[b*lanes:], accStride: stride, panel: panel, form: l.form,
				x: op.a.eight[p.r0*groups+g:], xStride: groups, rows: p.rows,
				out: acc[b*lanes:], outStride: stride,
			}
			if to := p.to; g+n == groups && to.dst != nil {
				ps.args.out, ps.args.outStride, ps.args.add = to.dst.data[p.r0*to.dst.cols+(p.b0+b)*lanes:], to.dst.cols, to.add
			}
			k.bytePanel(&ps.args)
		}
	}
}

// halves widens the float16 numbers of the lanes.
func halves(src []uint16) (out [lanes]float32) {
	for j := range out {
		out[j] = quant.F16ToF32(src[j])
	}
	return out
}
