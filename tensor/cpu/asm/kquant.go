package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superFormat is a format whose groups come in super-blocks of 8 (generic_kquant.go): 4
// lines of nibbles a group, then lines of the bits above them; scales apart.
type superFormat struct {
	name    string
	high    int  // bits of a value above its nibble, and lines of them
	minimum bool // 6-bit scales and minima for each group; else signed scales for 16 columns
}

var superFormats = []superFormat{
	{"Q4_K", 0, true},
}

const (
	superGroups = 8
	groupScales = 32 // bytes of the 16 lanes for each group
)

func (f superFormat) lineBytes() int { return 64 * (4 + f.high) }

// headBytes are those of the float16 numbers of a super-block.
func (f superFormat) headBytes() int {
	if f.minimum {
		return 64
	}
	return 32
}

// superKernel continues quantised products of a number of rows with blocks of weights.
func superKernel(f superFormat, rows int) {
	name := fmt.Sprintf("avx512%sx%d", f.name, rows)
	TEXT(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with blocks that follow each other; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	blocks := paramMem("blocks")
	tile := newTile(rows, 1)
	u := newUnpacker(f.high, data)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	moveTile(acc, paramMem("accStride"), tile, true)
	supers := GP64()
	MOVQ(paramMem("groups"), supers)
	Label("supers")
	d, m := f.head(scale)
	ADDQ(I32(f.headBytes()), scale)
	g := GP64()
	MOVQ(U32(superGroups), g)
	Label("groups")
	PREFETCHT0(Mem{Base: scale, Disp: prefetchAhead / 8})
	f.minima(u, x, tile, scale, d, m)
	x.advance(groupBytes)
	ADDQ(I32(f.lineBytes()), data)
	ADDQ(I32(groupScales), scale)
	DECQ(g)
	JNE(LabelRef("groups"))
	SUBQ(I32(superGroups), supers)
	JNE(LabelRef("supers"))
	moveTile(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64), acc)
	DECQ(blocks)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// head widens the float16 numbers of a super-block; that of the minima is negated.
func (f superFormat) head(scale reg.GPVirtual) (d, m reg.VecVirtual) {
	d = ZMM()
	VCVTPH2PS(Mem{Base: scale}, d)
	if f.minimum {
		m = ZMM()
		VCVTPH2PS(Mem{Base: scale, Disp: 32}, m)
		VPXORD(broadcast(1<<31), m, m)
	}
	return d, m
}

// minima adds the products of a group with one scale and one minimum to the tile.
func (f superFormat) minima(u unpacker, x rowPtrs, tile [][]reg.VecVirtual, scale reg.GPVirtual, d, m reg.VecVirtual) {
	sums := make([]reg.VecVirtual, len(tile))
	for r := range sums {
		sums[r] = zero()
	}
	for c := range 4 {
		v := u.load(c)
		x.dot(u.value(v, c, 0), 4*c, sums)
		x.dot(u.value(v, c, 1), 16+4*c, sums)
	}
	x.scaled(byteScale(Mem{Base: scale}, d, false), sums, tile)
	mw := byteScale(Mem{Base: scale, Disp: 16}, m, false)
	for r := range tile {
		VFMADD231PS_BCST(x.at(r, groupSum), mw, tile[r][0])
	}
}

// dot adds the products of four columns of weights with those of all rows.
func (p rowPtrs) dot(w reg.VecVirtual, column int, sums []reg.VecVirtual) {
	for r, s := range sums {
		vpdpbusd(p.at(r, column), w, s)
	}
}

// scaled ends the sums of a group: they are added, times both scales, to the tile.
func (p rowPtrs) scaled(dw reg.VecVirtual, sums []reg.VecVirtual, tile [][]reg.VecVirtual) {
	for r, s := range sums {
		d := ZMM()
		VMULPS_BCST(p.at(r, groupScale), dw, d)
		VCVTDQ2PS(s, s)
		VFMADD231PS(d, s, tile[r][0])
	}
}

// byteScale is d times the bytes of the 16 lanes at m.
func byteScale(m Mem, d reg.VecVirtual, signed bool) reg.VecVirtual {
	z := ZMM()
	if signed {
		VPMOVSXBD(m, z)
	} else {
		VPMOVZXBD(m, z)
	}
	VCVTDQ2PS(z, z)
	VMULPS(d, z, z)
	return z
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

// load reads line c of nibbles and asks for those that come later.
func (u unpacker) load(c int) reg.VecVirtual {
	v := ZMM()
	PREFETCHT0(Mem{Base: u.data, Disp: 64*c + prefetchAhead})
	if c < u.high {
		PREFETCHT0(Mem{Base: u.data, Disp: 64*(4+c) + prefetchAhead})
	}
	VMOVDQU64(Mem{Base: u.data, Disp: 64 * c}, v)
	return v
}

// value is columns 4c..4c+3 of half 0 or 1 of the group; v is line c. The lines of high
// bits hold those of line c in turn: first half, second half, next line.
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

// superUnpackKernel dequantises groups of one block into the float layout.
func superUnpackKernel(f superFormat) {
	name := "avx512Unpack" + f.name
	TEXT(name, NOSPLIT, "func(dst *float32, data *byte, scale *uint16, groups int)")
	Doc(name + " dequantises super-blocks of one block.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	u, low := newUnpacker(f.high, data), broadcast(0xff)
	Label("supers")
	d, m := f.head(scale)
	ADDQ(I32(f.headBytes()), scale)
	g := GP64()
	MOVQ(U32(superGroups), g)
	Label("groups")
	dw, mw := byteScale(Mem{Base: scale}, d, false), byteScale(Mem{Base: scale, Disp: 16}, m, false)
	for c := range 4 {
		v := u.load(c)
		for half := range 2 {
			spread(u.value(v, c, half), low, func(q reg.VecVirtual, i int) {
				VCVTDQ2PS(q, q)
				VMULPS(dw, q, q)
				VADDPS(mw, q, q)
				VMOVUPS(q, Mem{Base: dst, Disp: 64 * (16*half + 4*c + i)})
			})
		}
	}
	ADDQ(I32(64*32), dst)
	ADDQ(I32(f.lineBytes()), data)
	ADDQ(I32(groupScales), scale)
	DECQ(g)
	JNE(LabelRef("groups"))
	SUBQ(I32(superGroups), groups)
	JNE(LabelRef("supers"))
	VZEROUPPER()
	RET()
}

// spread calls f with the four bytes of each lane of v, as 32-bit numbers.
func spread(v, low reg.VecVirtual, f func(q reg.VecVirtual, i int)) {
	for i := range 4 {
		q := ZMM()
		VPSRLD(U8(8*i), v, q)
		VPANDD(low, q, q)
		f(q, i)
	}
}
