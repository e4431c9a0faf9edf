package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of formats with super-blocks, or with bits above nibbles: a group has 4 lines
// of nibbles, then lines of the bits above them.

// head widens the float16 numbers of a super-block; that of the minima is negated.
func (f format) head(scale reg.GPVirtual) (d, m reg.VecVirtual) {
	d = ZMM()
	VCVTPH2PS(Mem{Base: scale}, d)
	if f.scales == minima {
		m = ZMM()
		VCVTPH2PS(Mem{Base: scale, Disp: 32}, m)
		VPXORD(broadcast(1<<31), m, m)
	}
	return d, m
}

// each walks groups, whose number is at n, with the float16 numbers of their super-block.
func (f format) each(n Op, data, scale reg.GPVirtual, body func(d, m reg.VecVirtual)) {
	g, left := GP64(), GP64()
	var d, m reg.VecVirtual
	if f.scales == plain {
		MOVQ(n, g)
	} else {
		MOVQ(n, left)
		Label("supers")
		d, m = f.head(scale)
		ADDQ(I32(f.headBytes()), scale)
		MOVQ(U32(superGroups), g)
	}
	Label("groups")
	body(d, m)
	ADDQ(I32(64*(4+f.high())), data)
	ADDQ(I32(groupScales), scale)
	DECQ(g)
	JNE(LabelRef("groups"))
	if f.scales != plain {
		SUBQ(I32(superGroups), left)
		JNE(LabelRef("supers"))
	}
}

// scale gives the scales of a group; second those of its second half.
func (f format) scale(scale reg.GPVirtual, d reg.VecVirtual, second bool) reg.VecVirtual {
	z := ZMM()
	m := Mem{Base: scale}
	if second {
		m.Disp = 16
	}
	switch f.scales {
	case plain:
		VCVTPH2PS(m, z)
		return z
	case minima:
		VPMOVZXBD(m, z)
	case halves:
		VPMOVSXBD(m, z)
	}
	VCVTDQ2PS(z, z)
	VMULPS(d, z, z)
	return z
}

// highKernel continues quantised products of a number of rows with blocks of weights.
func highKernel(f format, rows int) {
	name, inRegs, spare := fmt.Sprintf("avx512%sx%d", f.name, rows), maxRows, 0
	if f.scales == halves {
		inRegs = halvesRows
		if rows > maxRows {
			spare = 1
		}
	}
	kernel(name, textFlags(rows, inRegs), "func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with blocks that follow each other; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	blocks := paramMem("blocks")
	t := newTotals(rows, inRegs, spare)
	u := newUnpacker(f.high(), data)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	t.move(acc, paramMem("accStride"), true)
	f.each(paramMem("groups"), data, scale, func(d, m reg.VecVirtual) {
		PREFETCHT1(Mem{Base: scale, Disp: outerAhead / 8})
		if f.scales == halves {
			f.addHalves(u, x, t, scale, d)
		} else {
			f.add(u, x, t, scale, d, m)
		}
		x.advance(groupBytes)
	})
	t.move(acc, paramMem("accStride"), false)
	ADDQ(I32(64), acc)
	DECQ(blocks)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// add adds the products of a group with one scale to the totals.
func (f format) add(u unpacker, x rowPtrs, t totals, scale reg.GPVirtual, d, m reg.VecVirtual) {
	sums := make([]reg.VecVirtual, t.rows)
	for r := range sums {
		sums[r] = ZMM()
		if f.scales == minima {
			x.start(r, 0, sums[r])
		} else { // 16 is twice 8
			x.start(r, groupOff4, sums[r])
			VPADDD(sums[r], sums[r], sums[r])
			VPSUBD_BCST(number(sumBias), sums[r], sums[r])
		}
	}
	cols := group{x: x}
	for c := range 4 {
		v := u.load(c, true)
		cols.dot(u.value(v, c, 0), 4*c, sums)
		cols.dot(u.value(v, c, 1), 16+4*c, sums)
	}
	var mw reg.VecVirtual
	dw := f.scale(scale, d, false)
	if f.scales == minima {
		mw = f.scale(scale, m, true)
	}
	t.end(cols, sums, times(dw), mw)
}

// halvesRows is the greatest number of rows for which totals and the sums of both halves of
// a group have registers.
const halvesRows = 8

// addHalves adds the products of a group with two scales to the totals: both sums together
// where there are registers for them, otherwise one after the other. Where even the products
// of the first half take too many, they wait in the frame for those of the second.
func (f format) addHalves(u unpacker, x rowPtrs, t totals, scale reg.GPVirtual, d reg.VecVirtual) {
	sums := [2][]reg.VecVirtual{make([]reg.VecVirtual, t.rows), make([]reg.VecVirtual, t.rows)}
	start := func(half int) {
		for r := range t.rows {
			sums[half][r] = ZMM()
			x.start(r, groupOff32+4*half, sums[half][r])
		}
	}
	cols := group{x: x}
	dot := func(v reg.VecVirtual, c, half int) {
		cols.dot(u.value(v, c, half), 16*half+4*c, sums[half])
	}
	together := t.rows <= halvesRows
	start(0)
	if together {
		start(1)
	}
	for c := range 4 {
		v := u.load(c, true)
		dot(v, c, 0)
		if together {
			dot(v, c, 1)
		}
	}
	products, wait := sums[0], t.rows > maxRows
	scaled := times(f.scale(scale, d, false))
	for r, s := range products {
		scaled(r, s)
		if wait {
			VMOVUPS(s, t.at(t.rows+r))
		}
	}
	if !together {
		start(1)
		for c := range 4 {
			dot(u.load(c, false), c, 1)
		}
	}
	dw := f.scale(scale, d, true)
	t.end(cols, sums[1], func(r int, sum reg.VecVirtual) reg.VecVirtual {
		VCVTDQ2PS(sum, sum)
		if wait {
			VFMADD213PS(t.at(t.rows+r), dw, sum) // dw*sum + product
			return sum
		}
		VFMADD231PS(dw, sum, products[r])
		return products[r]
	}, nil)
}

// dot adds the products of columns of weights with those of all rows.
func (p rowPtrs) dot(c columns, sums []reg.VecVirtual) {
	for r, s := range sums {
		vpdpbusd(p.at(r, c.at), c.w, s)
	}
}

// unpacker makes bytes of the values of a group: nibbles, and bits above them.
type unpacker struct {
	high         int
	data         reg.GPVirtual
	nibble, bits reg.VecVirtual
}

func newUnpacker(high int, data reg.GPVirtual) unpacker {
	u := unpacker{high: high, data: data, nibble: nibbleMask()}
	switch high {
	case 1:
		u.bits = broadcast(0x10101010)
	case 2:
		u.bits = broadcast(0x30303030)
	}
	return u
}

// load reads line c of nibbles and may ask for lines that come later.
func (u unpacker) load(c int, prefetch bool) reg.VecVirtual {
	v := ZMM()
	if prefetch {
		PREFETCHT1(Mem{Base: u.data, Disp: 64*c + outerAhead})
		PREFETCHT0(Mem{Base: u.data, Disp: 64*c + innerAhead})
		if c < u.high {
			PREFETCHT1(Mem{Base: u.data, Disp: 64*(4+c) + outerAhead})
			PREFETCHT0(Mem{Base: u.data, Disp: 64*(4+c) + innerAhead})
		}
	}
	VMOVDQU64(Mem{Base: u.data, Disp: 64 * c}, v)
	return v
}

// value is columns 4c..4c+3 of half 0 or 1 of the group; v is line c.
func (u unpacker) value(v reg.VecVirtual, c, half int) reg.VecVirtual {
	q := ZMM()
	if half == 0 {
		VPANDD(u.nibble, v, q)
	} else {
		VPSRLW(U8(4), v, q)
		VPANDD(u.nibble, q, q)
	}
	if u.high == 0 {
		return q
	}
	at := u.high * (2*c + half)
	line, t := Mem{Base: u.data, Disp: 64 * (4 + at/8)}, ZMM()
	switch at %= 8; {
	case at < 4:
		VPSLLW(U8(4-at), line, t)
	case at > 4:
		VPSRLW(U8(at-4), line, t)
	default:
		VMOVDQU64(line, t)
	}
	VPTERNLOGD(U8(0xf8), u.bits, t, q) // q | t&bits
	return q
}

// unpackHighKernel dequantises groups of one block into the float layout.
func unpackHighKernel(f format) {
	name := "avx512Unpack" + f.name
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, scale *uint16, groups int)")
	Doc(name + " dequantises groups of one block, super-blocks whole.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	u, low := newUnpacker(f.high(), data), broadcast(0xff)
	var offset reg.VecVirtual
	if f.scales != minima {
		offset = broadcast(map[scaleKind]uint32{plain: 16, halves: 32}[f.scales])
	}
	f.each(groups, data, scale, func(d, m reg.VecVirtual) {
		dw := [2]reg.VecVirtual{f.scale(scale, d, false)}
		dw[1] = dw[0]
		var mw reg.VecVirtual
		switch f.scales {
		case minima:
			mw = f.scale(scale, m, true)
		case halves:
			dw[1] = f.scale(scale, d, true)
		}
		for c := range 4 {
			v := u.load(c, true)
			for half := range 2 {
				w := u.value(v, c, half)
				for i := range 4 {
					q := ZMM()
					VPSRLD(U8(8*i), w, q)
					VPANDD(low, q, q)
					if offset != nil {
						VPSUBD(offset, q, q)
					}
					VCVTDQ2PS(q, q)
					VMULPS(dw[half], q, q)
					if mw != nil {
						VADDPS(mw, q, q)
					}
					VMOVUPS(q, Mem{Base: dst, Disp: 64 * (16*half + 4*c + i)})
				}
			}
		}
		ADDQ(I32(64*32), dst)
	})
	VZEROUPPER()
	RET()
}

// expandHighKernel brings groups of one block in the form of a panel (asm/panel.go).
func expandHighKernel(f format) {
	name := "avx512Expand" + f.name
	kernel(name, NOSPLIT, "func(dst *byte, data *byte, scale *uint16, groups int)")
	Doc(name + " expands groups of one block, super-blocks whole, to a panel.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	u := newUnpacker(f.high(), data)
	var offset reg.VecVirtual
	if f.scales == plain {
		offset = broadcast(0x70707070) // 128, less 16
	}
	f.each(groups, data, scale, func(d, m reg.VecVirtual) {
		VMOVUPS(f.scale(scale, d, false), Mem{Base: dst, Disp: panelScale})
		switch f.scales {
		case minima:
			VMOVUPS(f.scale(scale, m, true), Mem{Base: dst, Disp: panelMinimum})
		case halves:
			VMOVUPS(f.scale(scale, d, true), Mem{Base: dst, Disp: panelMinimum})
		}
		for c := range 4 {
			v := u.load(c, true)
			for half := range 2 {
				w := u.value(v, c, half)
				if offset != nil {
					VPADDB(offset, w, w)
				}
				VMOVDQU64(w, Mem{Base: dst, Disp: 64 * (4*half + c)})
			}
		}
		ADDQ(I32(2*panelGroupBytes), dst)
	})
	VZEROUPPER()
	RET()
}
