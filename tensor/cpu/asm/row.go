package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// float broadcasts a constant.
func float(v float32) reg.VecVirtual { return broadcast(bits(v)) }

// chunk is up to 16 elements of a walk: whole, or the masked tail.
type chunk struct {
	at   reg.GPVirtual // byte offset
	tail reg.OpmaskVirtual
}

// load reads elements of p; those past the tail are zero.
func (c chunk) load(p reg.GPVirtual) reg.VecVirtual {
	z, m := ZMM(), Mem{Base: p, Index: c.at, Scale: 1}
	if c.tail != nil {
		VMOVUPS_Z(m, c.tail, z)
	} else {
		VMOVUPS(m, z)
	}
	return z
}

func (c chunk) store(z reg.VecVirtual, p reg.GPVirtual) {
	m := Mem{Base: p, Index: c.at, Scale: 1}
	if c.tail != nil {
		VMOVUPS(z, c.tail, m)
	} else {
		VMOVUPS(z, m)
	}
}

// walk runs body over n elements, 16 at a time, then once masked if some are left. n is a
// parameter's place, so that a kernel may walk several times.
func walk(label string, n Mem, body func(c chunk)) {
	at, left := GP64(), GP64()
	XORQ(at, at)
	MOVQ(n, left)
	SUBQ(Imm(16), left)
	JLT(LabelRef(label + "Tail"))
	Label(label)
	body(chunk{at: at})
	ADDQ(Imm(64), at)
	SUBQ(Imm(16), left)
	JGE(LabelRef(label))
	Label(label + "Tail")
	ADDQ(Imm(16), left)
	JE(LabelRef(label + "Done"))
	one, k := GP64(), K()
	MOVQ(U32(1), one)
	SHLXQ(left, one, one)
	DECQ(one)
	KMOVW(one.As32(), k)
	body(chunk{at: at, tail: k})
	Label(label + "Done")
}

// tree adds the 16 lanes pairwise, j with j+8, +4, +2, +1, into the lowest lane.
func tree(z reg.VecVirtual) reg.VecVirtual {
	hi := YMM()
	VEXTRACTF64X4(U8(1), z, hi)
	VADDPS(hi, z.AsY(), z.AsY())
	x := XMM()
	VEXTRACTF128(U8(1), z.AsY(), x)
	VADDPS(x, z.AsX(), z.AsX())
	VMOVHLPS(z.AsX(), z.AsX(), x)
	VADDPS(x, z.AsX(), z.AsX())
	VMOVSHDUP(z.AsX(), x)
	VADDSS(x, z.AsX(), z.AsX())
	return z
}

// accumulate adds (with fma: v*v) to acc only in the chunk's lanes: adding zero would turn
// a -0 into +0.
func (c chunk) accumulate(v, acc reg.VecVirtual, square bool) {
	switch {
	case square && c.tail != nil:
		VFMADD231PS(v, v, c.tail, acc)
	case square:
		VFMADD231PS(v, v, acc)
	case c.tail != nil:
		VADDPS(v, acc, c.tail, acc)
	default:
		VADDPS(v, acc, acc)
	}
}

// count is float32(n) in the lowest lane.
func count(n Mem) reg.VecVirtual {
	x := XMM()
	VXORPS(x, x, x)
	VCVTSI2SSQ(n, x, x)
	return x
}

// inverseRoot is 1/sqrt(sum/n + eps) in all lanes, sum in the lowest.
func inverseRoot(sum, n reg.VecVirtual) reg.VecVirtual {
	s := sum.AsX()
	VDIVSS(n, s, s)
	VADDSS(paramMem("eps"), s, s)
	VSQRTSS(s, s, s)
	one, inv := XMM(), ZMM()
	t := GP32()
	MOVL(U32(bits(1)), t)
	VMOVD(t, one)
	VDIVSS(s, one, one)
	VBROADCASTSS(one, inv)
	return inv
}

func rmsNormKernel() {
	kernel("avx512RMSNorm", NOSPLIT, "func(dst, src, gain *float32, n int, eps float32)")
	Doc("avx512RMSNorm normalises n elements.")
	Pragma("noescape")
	dst, src, gain := param("dst"), param("src"), param("gain")
	n := paramMem("n")
	acc := zero()
	walk("sum", n, func(c chunk) { c.accumulate(c.load(src), acc, true) })
	inv := inverseRoot(tree(acc), count(n))
	walk("scale", n, func(c chunk) {
		v := c.load(src)
		VMULPS(inv, v, v)
		VMULPS(c.load(gain), v, v)
		c.store(v, dst)
	})
	VZEROUPPER()
	RET()
}

func layerNormKernel() {
	kernel("avx512LayerNorm", NOSPLIT, "func(dst, src, gain, bias *float32, n int, eps float32)")
	Doc("avx512LayerNorm normalises n elements; bias may be nil.")
	Pragma("noescape")
	dst, src, gain, bias := param("dst"), param("src"), param("gain"), param("bias")
	n := paramMem("n")
	acc := zero()
	walk("mean", n, func(c chunk) { c.accumulate(c.load(src), acc, false) })
	num, mean := count(n), ZMM()
	s := tree(acc).AsX()
	VDIVSS(num, s, s)
	VBROADCASTSS(s, mean)
	squares := zero()
	walk("sum", n, func(c chunk) {
		v := c.load(src)
		VSUBPS(mean, v, v)
		c.accumulate(v, squares, true)
	})
	inv := inverseRoot(tree(squares), num)
	scale := func(c chunk, biased bool) {
		v := c.load(src)
		VSUBPS(mean, v, v)
		VMULPS(inv, v, v)
		VMULPS(c.load(gain), v, v)
		if biased {
			VADDPS(c.load(bias), v, v)
		}
		c.store(v, dst)
	}
	TESTQ(bias, bias)
	JE(LabelRef("plain"))
	walk("biased", n, func(c chunk) { scale(c, true) })
	JMP(LabelRef("end"))
	Label("plain")
	walk("scale", n, func(c chunk) { scale(c, false) })
	Label("end")
	VZEROUPPER()
	RET()
}

func zero() reg.VecVirtual {
	z := ZMM()
	VPXORD(z, z, z)
	return z
}

// quantiseKernel is the twin of genericQuantise.
func quantiseKernel() {
	kernel("avx512Quantise", NOSPLIT, "func(dst *byte, x *float32, groups int)")
	Doc("avx512Quantise fills groups from 32 elements each.")
	Pragma("noescape")
	dst, x, groups := param("dst"), param("x"), param("groups")
	const tiny, inf = uint32(7 << 23), uint32(0x7f800000) // 2^-120
	sign := broadcast(1<<31 - 1)
	most := XMM()
	t := GP32()
	MOVL(U32(bits(127)), t)
	VMOVD(t, most)
	Label("groups")
	a, b, m, m2 := ZMM(), ZMM(), ZMM(), ZMM()
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Disp: 64}, b)
	VPANDD(sign, a, m)
	VPANDD(sign, b, m2)
	VPMAXUD(m2, m, m)
	reduce(m, func(a, b, c Op) { VPMAXUD(a, b, c) })
	bits, d := GP32(), XMM()
	VMOVD(m.AsX(), bits)
	VDIVSS(most, m.AsX(), d)
	LEAL(Mem{Base: bits, Disp: -int(tiny)}, t)
	CMPL(t, U32(inf-tiny))
	JAE(LabelRef("special"))
	id, idz := XMM(), ZMM()
	VDIVSS(m.AsX(), most, id)
	VBROADCASTSS(id, idz)
	VMULPS(idz, a, a)
	VMULPS(idz, b, b)
	VCVTPS2DQ(a, a)
	VCVTPS2DQ(b, b)
	VPMOVDB(a, Mem{Base: dst})
	VPMOVDB(b, Mem{Base: dst, Disp: 16})
	for _, z := range []reg.VecVirtual{a, b} {
		y := YMM()
		VEXTRACTI64X4(U8(1), z, y)
		VPADDD(y, z.AsY(), z.AsY())
	}
	pairs, quads := YMM(), XMM()
	VPHADDD(b.AsY(), a.AsY(), pairs)
	VPHADDD(pairs, pairs, pairs)
	VEXTRACTI128(U8(1), pairs, quads)
	VPADDD(pairs.AsX(), quads, quads)
	lo, hi, sum := GP32(), GP32(), GP32() // of the halves of the group, and of it all
	VMOVD(quads, lo)
	VPEXTRD(U8(1), quads, hi)
	endGroups(quantising{dst, x, groups, bits, lo, hi, sum, d, tiny})
}

// reduce folds 16 lanes into the lowest with an operation whose order is free.
func reduce(z reg.VecVirtual, op func(a, b, c Op)) {
	y, x := YMM(), XMM()
	VEXTRACTI64X4(U8(1), z, y)
	op(y, z.AsY(), z.AsY())
	VEXTRACTI128(U8(1), z.AsY(), x)
	op(x, z.AsX(), z.AsX())
	VPSHUFD(U8(0x4e), z.AsX(), x)
	op(x, z.AsX(), z.AsX())
	VPSHUFD(U8(0xb1), z.AsX(), x)
	op(x, z.AsX(), z.AsX())
}

func bits(v float32) uint32 { return math.Float32bits(v) }

func float32Inf(sign int) float32 { return float32(math.Inf(sign)) }

// quantising is the state of a kernel that rounds groups, at the end of one: what it has
// walked to, the bits of the greatest magnitude, and of the bytes the sums and the scale.
type quantising struct {
	dst, x, groups reg.GPVirtual
	bits           reg.GPVirtual
	lo, hi, sum    reg.GPVirtual // of the halves of the group; sum is free
	d              reg.VecVirtual
	tiny           uint32 // bits below which a group is zero
}

// endGroups stores what follows the bytes of a group and ends the loop "groups" and the
// kernel. A group that cannot be scaled jumps to "special" instead of coming here.
func endGroups(q quantising) {
	Label("store")
	LEAL(Mem{Base: q.lo, Index: q.hi, Scale: 1}, q.sum)
	NEGL(q.lo)
	SHLL(U8(5), q.lo)
	ADDL(U32(biased), q.lo)
	MOVL(q.lo, Mem{Base: q.dst, Disp: groupOff32})
	NEGL(q.hi)
	SHLL(U8(5), q.hi)
	MOVL(q.hi, Mem{Base: q.dst, Disp: groupOff32 + 4})
	VMOVSS(q.d, Mem{Base: q.dst, Disp: groupScale})
	f := XMM()
	VXORPS(f, f, f)
	VCVTSI2SSL(q.sum, f, f)
	VMULSS(f, q.d, f)
	VMOVSS(f, Mem{Base: q.dst, Disp: groupSum})
	NEGL(q.sum)
	for _, off := range []struct{ at, shift int }{{groupOff4, 3}, {groupOff8, 4}} {
		o := GP32()
		SHLL(U8(off.shift), q.sum)
		LEAL(Mem{Base: q.sum, Disp: biased}, o)
		MOVL(o, Mem{Base: q.dst, Disp: off.at})
	}
	ADDQ(I32(groupBytes), q.dst)
	ADDQ(I32(128), q.x)
	DECQ(q.groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
	// All zero, or with an infinity or NaN: no bytes, and a scale of zero or not finite.
	Label("special")
	zeros := zero8()
	VMOVDQU(zeros, Mem{Base: q.dst})
	XORL(q.lo, q.lo)
	XORL(q.hi, q.hi)
	CMPL(q.bits, U32(q.tiny))
	JAE(LabelRef("store"))
	VXORPS(q.d, q.d, q.d)
	JMP(LabelRef("store"))
}
