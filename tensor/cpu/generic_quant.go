package cpu

import (
	"encoding/binary"
	"math"
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

// genericGroups makes the kernels of all formats with a quantised product of what their
// layouts say: groups are brought in the form of a panel first.
func genericGroups() []groupKernels {
	all := make([]groupKernels, len(layouts))
	for t := range layouts {
		if l, ok := layouts[t].(*groupLayout); ok {
			all[t] = groupKernels{l.genericProduct, l.genericUnpack, l.genericExpand}
		}
	}
	return all
}

func (l *groupLayout) genericExpand(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		l.expandGroup(&dst[2*g], data, scale, g)
	}
}

func (l *groupLayout) expandGroup(p *panelGroup, data []byte, scale []uint16, g int) {
	run, at := l.of(scale, g)
	p.scale, p.minimum = l.read(run, at)
	shift := byte(0)
	if l.form == plainPanel {
		shift = byte(128 - l.offset)
	}
	l.expandLines(&p.lines, data[g*l.lineBytes():][:l.lineBytes()], shift)
}

// expandLines makes a byte of each value, plus shift, 8 at a time: none overflows its byte.
func (l *groupLayout) expandLines(to *[group * lanes]uint8, lines []byte, shift byte) {
	if l.bits == 8 {
		copy(to[:], lines)
		return
	}
	const each, line = 0x0101010101010101, 4 * lanes
	high, plus := l.bits-4, uint64(shift)*each
	mask := uint64(1<<high-1) * each
	for c := range 4 {
		for half := range 2 {
			at := high * (2*c + half)
			low, above, out := lines[c*line:][:line], lines[(4+at/8)*line*min(high, 1):][:line], to[(4*half+c)*line:][:line]
			for i := 0; i < line; i += 8 {
				q := binary.LittleEndian.Uint64(low[i:]) >> (4 * half) & (15 * each)
				q |= binary.LittleEndian.Uint64(above[i:]) >> (at % 8) & mask << 4
				binary.LittleEndian.PutUint64(out[i:], q+plus)
			}
		}
	}
}

func (l *groupLayout) genericProduct(a *quantArgs) {
	var p panelGroup
	for i := range a.blocks * a.groups {
		b, g := i/a.groups, i%a.groups
		l.expandGroup(&p, a.data, a.scale, i)
		for r := range a.rows {
			l.form.addGroup((*[lanes]float32)(a.acc[r*a.accStride+b*lanes:]), &p, &a.x[r*a.groups+g])
		}
	}
}

// genericUnpack gives the bits of package quant in the float layout.
func (l *groupLayout) genericUnpack(dst []float32, data []byte, scale []uint16, groups int) {
	for g := range groups {
		run, at := l.of(scale, g)
		first, second := l.read(run, at)
		lines, out := data[g*l.lineBytes():], dst[g*group*lanes:]
		for i := range group {
			for j := range lanes {
				out[i*lanes+j] = l.form.value(int(l.at(lines, i, j))-l.offset, i, first[j], second[j])
			}
		}
	}
}
