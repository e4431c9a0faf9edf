package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eight are 8 elements of a walk: whole, or those in the mask.
type eight struct {
	at   reg.GPVirtual // byte offset
	disp int
	mask reg.VecVirtual
}

func (e eight) mem(p reg.GPVirtual) Mem {
	return Mem{Base: p, Index: e.at, Scale: 1, Disp: e.disp}
}

// load reads elements of p; those past the end are zero.
func (e eight) load(p reg.GPVirtual) reg.VecVirtual {
	y := YMM()
	if e.mask != nil {
		VMASKMOVPS(e.mem(p), e.mask, y)
	} else {
		VMOVUPS(e.mem(p), y)
	}
	return y
}

func (e eight) store(y reg.VecVirtual, p reg.GPVirtual) {
	if e.mask != nil {
		VMASKMOVPS(y, e.mask, e.mem(p))
	} else {
		VMOVUPS(y, e.mem(p))
	}
}

// drop makes the elements past the end zero. Sums that began with zero are never -0, so that
// adding zero leaves them as they are.
func (e eight) drop(y reg.VecVirtual) {
	if e.mask != nil {
		VPAND(e.mask, y, y)
	}
}

// walk8 runs body over n elements, lanes 0 to 7 and 8 to 15 in turn, and at last over the 1
// to 15 that are left. n is a parameter's place, so that a kernel may walk several times.
func walk8(label string, n Mem, body func(h int, e eight)) {
	at, left := GP64(), GP64()
	XORQ(at, at)
	MOVQ(n, left)
	SUBQ(Imm(16), left)
	JLT(LabelRef(label + "Tail"))
	Label(label)
	for h := range 2 {
		body(h, eight{at: at, disp: 32 * h})
	}
	ADDQ(Imm(64), at)
	SUBQ(Imm(16), left)
	JGE(LabelRef(label))
	Label(label + "Tail")
	ADDQ(Imm(16), left)
	JE(LabelRef(label + "Done"))
	masks := GP64()
	LEAQ(tailMasks(), masks)
	NEGQ(left)
	LEAQ(Mem{Base: masks, Index: left, Scale: 4, Disp: 64}, masks)
	for h := range 2 {
		mask := YMM()
		VMOVDQU(Mem{Base: masks, Disp: 32 * h}, mask)
		body(h, eight{at, 32 * h, mask})
	}
	Label(label + "Done")
}

// tailMasks are 16 lanes of ones, then 16 of zeros: n lanes before the middle begins the mask
// of n elements.
func tailMasks() Mem {
	if tailMask == nil {
		m := GLOBL("avx2_tail", RODATA|NOPTR)
		for i := range 32 {
			bits := ^uint32(0)
			if i >= 16 {
				bits = 0
			}
			DATA(4*i, U32(bits))
		}
		tailMask = &m
	}
	return *tailMask
}

var tailMask *Mem

// fold8 folds 16 lanes into the lowest, j with j+8, +4, +2, +1.
func fold8(p pair16, op func(a, b, c Op)) reg.VecVirtual {
	op(p[1], p[0], p[0])
	s, x := p[0].AsX(), XMM()
	VEXTRACTI128(U8(1), p[0], x)
	op(x, s, s)
	VPSHUFD(U8(0x4e), s, x)
	op(x, s, s)
	VPSHUFD(U8(0xb1), s, x)
	op(x, s, s)
	return p[0]
}

func add8(a, b, c Op) { VADDPS(a, b, c) }

// inverseRoot8 is 1/sqrt(sum/n + eps) in all lanes, sum in the lowest.
func inverseRoot8(sum, n reg.VecVirtual) reg.VecVirtual {
	s := sum.AsX()
	VDIVSS(n, s, s)
	VADDSS(paramMem("eps"), s, s)
	VSQRTSS(s, s, s)
	one, inv := XMM(), YMM()
	VMOVSS(number(1), one)
	VDIVSS(s, one, one)
	VBROADCASTSS(one, inv)
	return inv
}

func zeroPair() pair16 { return pair16{zero8(), zero8()} }

func avx2RMSNormKernel() {
	kernel("avx2RMSNorm", NOSPLIT, "func(dst, src, gain *float32, n int, eps float32)")
	Doc("avx2RMSNorm normalises n elements.")
	Pragma("noescape")
	dst, src, gain, n := param("dst"), param("src"), param("gain"), paramMem("n")
	acc := zeroPair()
	walk8("sum", n, func(h int, e eight) {
		v := e.load(src)
		VFMADD231PS(v, v, acc[h])
	})
	inv := inverseRoot8(fold8(acc, add8), count(n))
	walk8("scale", n, func(_ int, e eight) {
		v := e.load(src)
		VMULPS(inv, v, v)
		VMULPS(e.load(gain), v, v)
		e.store(v, dst)
	})
	VZEROUPPER()
	RET()
}

func avx2LayerNormKernel() {
	kernel("avx2LayerNorm", NOSPLIT, "func(dst, src, gain, bias *float32, n int, eps float32)")
	Doc("avx2LayerNorm normalises n elements; bias may be nil.")
	Pragma("noescape")
	dst, src, gain, bias, n := param("dst"), param("src"), param("gain"), param("bias"), paramMem("n")
	acc := zeroPair()
	walk8("mean", n, func(h int, e eight) { VADDPS(e.load(src), acc[h], acc[h]) })
	num, mean := count(n), YMM()
	s := fold8(acc, add8).AsX()
	VDIVSS(num, s, s)
	VBROADCASTSS(s, mean)
	squares := zeroPair()
	walk8("sum", n, func(h int, e eight) {
		v := e.load(src)
		VSUBPS(mean, v, v)
		e.drop(v)
		VFMADD231PS(v, v, squares[h])
	})
	inv := inverseRoot8(fold8(squares, add8), num)
	scale := func(e eight, biased bool) {
		v := e.load(src)
		VSUBPS(mean, v, v)
		VMULPS(inv, v, v)
		VMULPS(e.load(gain), v, v)
		if biased {
			VADDPS(e.load(bias), v, v)
		}
		e.store(v, dst)
	}
	TESTQ(bias, bias)
	JE(LabelRef("plain"))
	walk8("biased", n, func(_ int, e eight) { scale(e, true) })
	JMP(LabelRef("end"))
	Label("plain")
	walk8("scale", n, func(_ int, e eight) { scale(e, false) })
	Label("end")
	VZEROUPPER()
	RET()
}

// avx2QuantiseKernel is the twin of genericQuantise.
func avx2QuantiseKernel() {
	kernel("avx2Quantise", NOSPLIT, "func(dst *byte, x *float32, groups int)")
	Doc("avx2Quantise fills groups from 32 elements each.")
	Pragma("noescape")
	dst, x, groups := param("dst"), param("x"), param("groups")
	const tiny, inf = uint32(7 << 23), uint32(0x7f800000) // 2^-120
	magnitude, order := constant(signBit-1), packOrder()
	Label("groups")
	var v [4]reg.VecVirtual
	most := newPair()
	for i := range v {
		v[i] = YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
		if i < 2 {
			VPAND(magnitude, v[i], most[i])
			continue
		}
		t := YMM()
		VPAND(magnitude, v[i], t)
		VPMAXUD(t, most[i-2], most[i-2])
	}
	top := fold8(most, func(a, b, c Op) { VPMAXUD(a, b, c) }).AsX()
	bits, t, d := GP32(), GP32(), XMM()
	VMOVD(top, bits)
	VDIVSS(number(127), top, d)
	LEAL(Mem{Base: bits, Disp: -int(tiny)}, t)
	CMPL(t, U32(inf-tiny))
	JAE(LabelRef("special"))
	id, unit := XMM(), YMM()
	VMOVSS(number(127), id)
	VDIVSS(top, id, id)
	VBROADCASTSS(id, unit)
	for _, y := range v {
		VMULPS(unit, y, y)
		VCVTPS2DQ(y, y)
	}
	a, b := YMM(), YMM()
	VPACKSSDW(v[1], v[0], a)
	VPACKSSDW(v[3], v[2], b)
	VPACKSSWB(b, a, a)
	VMOVDQU(order, b)
	VPERMD(a, b, a)
	VMOVDQU(a, Mem{Base: dst})
	VPADDD(v[1], v[0], v[0])
	VPADDD(v[3], v[2], v[2])
	quads := XMM()
	VPHADDD(v[2], v[0], v[0])
	VPHADDD(v[0], v[0], v[0])
	VEXTRACTI128(U8(1), v[0], quads)
	VPADDD(v[0].AsX(), quads, quads)
	lo, hi, sum := GP32(), GP32(), GP32() // of the halves of the group, and of it all
	VMOVD(quads, lo)
	VPEXTRD(U8(1), quads, hi)
	endGroups(quantising{dst, x, groups, bits, lo, hi, sum, d, tiny})
}

// packOrder puts what two rounds of packing in 128-bit lanes made in order.
func packOrder() Mem {
	m := GLOBL("avx2_order", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	return m
}
