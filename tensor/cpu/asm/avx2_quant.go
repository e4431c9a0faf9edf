package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2QuantRows is the greatest number of rows of a kernel of quantised products: for each
// row there are a pair of sums of floats and one of integers, in 12 of the 16 registers.
const avx2QuantRows = 4

// Without a dot product of bytes, the products of two columns are added in 16 bits, which
// hold 8 such sums of nibbles, 2 of values of 6 bits, and none of bytes but with magnitudes
// up to 128.

// groupScaleBytes are the bytes of scales of each group, apart from a super-block's head.
func (f format) groupScaleBytes() int {
	if f.minimum {
		return 64
	}
	return 32
}

// lowered tells whether something is added to the values of a group in the end.
func (f format) lowered() bool { return f.minimum || f.scales == minima }

// avx2Group walks groups of a weight: data, scale and head are of the present one.
type avx2Group struct {
	format
	data, scale, head reg.GPVirtual
	mask, ones        Op  // 15 in each byte; 1 in each 16 bits
	waiting           Mem // 8 lanes a row: products of one part while the next is made
}

// each runs body for groups, whose number is at n, and leaves the pointers behind them.
func (g avx2Group) each(n Mem, body func()) {
	left, inner := GP64(), GP64()
	MOVQ(n, left)
	if g.scales == plain {
		inner = left
	} else {
		Label("supers")
		MOVQ(g.scale, g.head)
		ADDQ(I32(g.headBytes()), g.scale)
		MOVQ(U32(superGroups), inner)
	}
	Label("groups")
	body()
	ADDQ(I32(64*g.lines()), g.data)
	ADDQ(I32(g.groupScaleBytes()), g.scale)
	DECQ(inner)
	JNE(LabelRef("groups"))
	if g.scales != plain {
		SUBQ(I32(superGroups), left)
		JNE(LabelRef("supers"))
	}
}

// quad is 4 columns of a group.
type quad struct {
	line int
	half int // of the columns, and of a byte
}

// column is the first of them.
func (q quad) column() int { return 4*q.line + 16*q.half }

// parts are the runs of columns with a scale.
func (f format) parts() [][]quad {
	var all [2][]quad
	for c := range 4 {
		for half := range all {
			q := quad{c, half}
			if f.bits == 8 {
				q = quad{c + 4*half, 0}
			}
			all[half] = append(all[half], q)
		}
	}
	if f.scales == halves {
		return all[:]
	}
	return [][]quad{append(all[0], all[1]...)}
}

// value gives 4 columns of 8 lanes, as unsigned bytes.
func (g avx2Group) value(q quad, h int) reg.VecVirtual {
	v := YMM()
	VMOVDQU(Mem{Base: g.data, Disp: 64*q.line + 32*h}, v)
	if g.bits == 8 {
		return v
	}
	if q.half == 1 {
		VPSRLW(U8(4), v, v)
	}
	VPAND(g.mask, v, v)
	high := g.bits - 4
	if high == 0 {
		return v
	}
	at, above := high*(2*q.line+q.half), YMM()
	VMOVDQU(Mem{Base: g.data, Disp: 64*(4+at/8) + 32*h}, above)
	switch at %= 8; {
	case at < 4:
		VPSLLW(U8(4-at), above, above)
	case at > 4:
		VPSRLW(U8(at-4), above, above)
	}
	VPAND(constant(map[int]uint32{1: 0x10101010, 2: 0x30303030}[high]), above, above)
	VPOR(above, v, v)
	return v
}

// scaleOf gives the scales of a group for 8 lanes; second those of the second half of its
// columns, or the minima, without their sign in super-blocks.
func (g avx2Group) scaleOf(h int, second bool) reg.VecVirtual {
	y := YMM()
	if g.scales == plain {
		m := Mem{Base: g.scale, Disp: 16 * h}
		if second {
			m.Disp += 32
		}
		VCVTPH2PS(m, y)
		return y
	}
	small, super := Mem{Base: g.scale, Disp: 8 * h}, Mem{Base: g.head, Disp: 16 * h}
	if second {
		small.Disp += 16
	}
	if g.scales == halves {
		VPMOVSXBD(small, y)
	} else {
		VPMOVZXBD(small, y)
		if second {
			super.Disp += 32
		}
	}
	d := YMM()
	VCVTDQ2PS(y, y)
	VCVTPH2PS(super, d)
	VMULPS(d, y, y)
	return y
}

// dot sets sums to the products of rows with columns of 8 lanes.
func (g avx2Group) dot(sums []reg.VecVirtual, x rowPtrs, columns []quad, h int) {
	activations := func(r int, q quad) reg.VecVirtual {
		v := YMM()
		VPBROADCASTD(x.at(r, q.column()), v)
		return v
	}
	switch g.bits {
	case 8:
		for i, q := range columns {
			w := newByteWeights(g.value(q, h))
			for r, sum := range sums {
				w.dot(activations(r, q), g.ones, sum, i == 0)
			}
		}
	case 4:
		for i, q := range columns {
			w := g.value(q, h)
			for r, sum := range sums {
				v := activations(r, q)
				if i == 0 {
					VPMADDUBSW(v, w, sum)
					continue
				}
				VPMADDUBSW(v, w, v)
				VPADDW(v, sum, sum)
			}
		}
		for _, sum := range sums {
			VPMADDWD(g.ones, sum, sum)
		}
	default:
		for i := 0; i < len(columns); i += 2 {
			a, b := g.value(columns[i], h), g.value(columns[i+1], h)
			for r, sum := range sums {
				u, v := activations(r, columns[i]), activations(r, columns[i+1])
				VPMADDUBSW(u, a, u)
				VPMADDUBSW(v, b, v)
				VPADDW(v, u, u)
				if i == 0 {
					VPMADDWD(g.ones, u, sum)
					continue
				}
				VPMADDWD(g.ones, u, u)
				VPADDD(u, sum, sum)
			}
		}
	}
}

// byteWeights are values of 8 bits, with their magnitudes. These are multiplied with
// activations of which some changed sign: sums of two products are 2*128*127 at most.
type byteWeights struct{ signed, magnitude reg.VecVirtual }

// newByteWeights takes unsigned values, 128 too great.
func newByteWeights(v reg.VecVirtual) byteWeights {
	w := byteWeights{v, YMM()}
	VPXOR(constant(0x80808080), v, v)
	VPABSB(v, w.magnitude)
	return w
}

// dot adds the products with v, which is lost, to sum, or sets it to them.
func (w byteWeights) dot(v reg.VecVirtual, ones Op, sum reg.VecVirtual, set bool) {
	VPSIGNB(w.signed, v, v)
	VPMADDUBSW(v, w.magnitude, v)
	if set {
		VPMADDWD(ones, v, sum)
		return
	}
	VPMADDWD(ones, v, v)
	VPADDD(v, sum, sum)
}

// end continues the sums of rows with those of integers over a part of the columns.
func (g avx2Group) end(sums []reg.VecVirtual, x rowPtrs, tile [][]pair16, part, h int) {
	dw := g.scaleOf(h, part == 1)
	c := YMM()
	if part == 0 {
		VMULPS(number(-sumBias), dw, c)
	}
	for r, sum := range sums {
		v := YMM()
		if off := g.off(part); off != 0 {
			VPBROADCASTD(x.at(r, off), v)
			if g.bits == 5 { // 16 is twice 8
				VPADDD(v, v, v)
				VPSUBD(number(sumBias), v, v)
			}
			VPADDD(v, sum, sum)
		} else {
			VPADDD(number(sumBias), sum, sum)
		}
		waits := g.waiting.Offset(32 * r)
		if part == 0 {
			VFMADD213PS(c, dw, sum) // dw*sum + c
		} else {
			VCVTDQ2PS(sum, sum)
			VFMADD213PS(waits, dw, sum)
		}
		if part < len(g.parts())-1 {
			VMOVUPS(sum, waits)
			continue
		}
		VBROADCASTSS(x.at(r, groupScale), v)
		VFMADD231PS(v, sum, tile[r][0][h])
	}
}

// off is where a group of activations keeps the sum that undoes the offset, if any.
func (f format) off(part int) int {
	switch f.offset {
	case 8, 16:
		return groupOff4
	case 32:
		return groupOff32 + 4*part
	}
	return 0 // none, or undone by newByteWeights
}

// lower continues the sums with the minima.
func (g avx2Group) lower(x rowPtrs, tile [][]pair16, h int) {
	mw := g.scaleOf(h, true)
	for r := range tile {
		v := YMM()
		VBROADCASTSS(x.at(r, groupSum), v)
		if g.minimum {
			VFMADD231PS(v, mw, tile[r][0][h])
		} else {
			VFNMADD231PS(v, mw, tile[r][0][h])
		}
	}
}

// avx2QuantKernel continues quantised products of a number of rows with blocks of weights.
func avx2QuantKernel(f format, rows int) {
	name := fmt.Sprintf("avx2%sx%d", f.name, rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with blocks that follow each other; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, xStride, blocks := param("acc"), param("xStride"), paramMem("blocks")
	g := avx2Group{f, param("data"), param("scale"), GP64(), constant(0x0f0f0f0f), constant(0x00010001), Mem{}}
	if f.scales == halves {
		g.waiting = AllocLocal(32 * rows)
	}
	if rows <= 2 {
		g.mask, g.ones = inRegister(g.mask), inRegister(g.ones)
	}
	tile := newPairs(rows, 1)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	movePairs(acc, paramMem("accStride"), tile, true)
	g.each(paramMem("groups"), func() {
		for c := range f.lines() {
			PREFETCHT0(Mem{Base: g.data, Disp: 64*c + prefetchAhead})
		}
		PREFETCHT0(Mem{Base: g.scale, Disp: prefetchAhead / 4})
		for h := range 2 {
			for i, part := range f.parts() {
				sums := make([]reg.VecVirtual, rows)
				for r := range sums {
					sums[r] = YMM()
				}
				g.dot(sums, x, part, h)
				g.end(sums, x, tile, i, h)
			}
			if f.lowered() {
				g.lower(x, tile, h)
			}
		}
		x.advance(groupBytes)
	})
	movePairs(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64), acc)
	DECQ(blocks)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// avx2UnpackKernel dequantises groups of one block into the float layout.
func avx2UnpackKernel(f format) {
	name := "avx2Unpack" + f.name
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, scale *uint16, groups int)")
	Doc(name + " dequantises groups of one block, super-blocks whole.")
	Pragma("noescape")
	dst := param("dst")
	g := avx2Group{f, param("data"), param("scale"), GP64(), constant(0x0f0f0f0f), nil, Mem{}}
	low := inRegister(constant(0xff))
	g.each(paramMem("groups"), func() {
		for h := range 2 {
			for i, part := range f.parts() {
				dw := g.scaleOf(h, i == 1)
				var mw reg.VecVirtual
				if f.lowered() {
					mw = g.scaleOf(h, true)
				}
				for _, q := range part {
					v := g.value(q, h)
					for i := range 4 {
						w := YMM()
						VPSRLD(U8(8*i), v, w)
						VPAND(low, w, w)
						if f.offset != 0 {
							VPSUBD(constant(uint32(f.offset)), w, w)
						}
						VCVTDQ2PS(w, w)
						VMULPS(dw, w, w)
						switch {
						case f.minimum:
							VADDPS(mw, w, w)
						case f.lowered():
							VSUBPS(mw, w, w)
						}
						VMOVUPS(w, Mem{Base: dst, Disp: 64*(q.column()+i) + 32*h})
					}
				}
			}
		}
		ADDQ(I32(64*32), dst)
	})
	VZEROUPPER()
	RET()
}
