package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lessThan8 has all ones where a < b, which is false for a NaN.
func lessThan8(a reg.VecVirtual, b Op) reg.VecVirtual {
	m := YMM()
	VCMPPS(lessThan, b, a, m)
	return m
}

// horner8 is the polynomial in x, constant first.
func horner8(x reg.VecVirtual, c []float32) reg.VecVirtual {
	p := YMM()
	VMOVUPS(number(c[len(c)-1]), p)
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(number(c[i]), x, p)
	}
	return p
}

// exp8 replaces x by e^x, as exp32 does.
func exp8(x reg.VecVirtual) {
	// Both are made for a NaN: the clamp gives x, its second source, and x is not less.
	limit, n, normal := YMM(), YMM(), YMM()
	VCMPPS(U8(notLessThan), number(expMin), x, normal)
	VMOVUPS(number(expMax), limit)
	VMINPS(x, limit, x)
	VMULPS(number(log2e), x, n)
	VADDPS(number(rounder), n, n)
	VSUBPS(number(rounder), n, n)
	VFMADD231PS(number(-ln2Hi), n, x)
	VFMADD231PS(number(-ln2Lo), n, x)
	p, r2 := horner8(x, expP), YMM()
	VMULPS(x, x, r2)
	VFMADD213PS(x, r2, p) // p*r² + r
	VADDPS(number(1), p, p)
	// 2^n in two halves.
	k := YMM()
	VCVTTPS2DQ(n, n)
	VPSRAD(U8(1), n, k)
	VPSUBD(k, n, n)
	for _, k := range []reg.VecVirtual{k, n} {
		VPADDD(constant(127), k, k)
		VPSLLD(U8(23), k, k)
	}
	VMULPS(k, p, p)
	VMULPS(n, p, x)
	VANDPS(normal, x, x)
}

func avx2SoftmaxKernel() {
	kernel("avx2Softmax", NOSPLIT, "func(s *float32, n int, scale float32) (m, l float32)")
	Doc("avx2Softmax turns n scores into weights and gives their maximum and sum.")
	Pragma("noescape")
	s, n := param("s"), paramMem("n")
	scale, least, top := YMM(), YMM(), newPair()
	VBROADCASTSS(paramMem("scale"), scale)
	VMOVUPS(number(float32Inf(-1)), least)
	VMOVUPS(least, top[0])
	VMOVUPS(least, top[1])
	walk8("max", n, func(h int, e eight) {
		v := e.load(s)
		VMULPS(scale, v, v)
		e.store(v, s)
		if e.mask != nil {
			VBLENDVPS(e.mask, v, least, v)
		}
		VMAXPS(top[h], v, top[h]) // a NaN does not become the maximum
	})
	most := fold8(top, func(a, b, c Op) { VMAXPS(a, b, c) }).AsX()
	Store(most, Return("m"))
	m, acc := YMM(), zeroPair()
	VBROADCASTSS(most, m)
	walk8("exp", n, func(h int, e eight) {
		v := e.load(s)
		VSUBPS(m, v, v)
		exp8(v)
		e.store(v, s)
		e.drop(v)
		VADDPS(v, acc[h], acc[h])
	})
	Store(fold8(acc, add8).AsX(), Return("l"))
	VZEROUPPER()
	RET()
}

func avx2ActivationKernels() {
	inPlace := func(name string, f func(x reg.VecVirtual)) {
		narrow.inPlace(name, func() func(x reg.VecVirtual) reg.VecVirtual {
			return func(x reg.VecVirtual) reg.VecVirtual {
				f(x)
				return x
			}
		})
	}
	inPlace("SiLU", func(x reg.VecVirtual) {
		w := YMM()
		VPXOR(signs(), x, w)
		exp8(w)
		VADDPS(number(1), w, w)
		VDIVPS(w, x, x)
	})
	inPlace("GELUTanh", func(x reg.VecVirtual) {
		k, w := YMM(), YMM()
		VMULPS(x, x, w)
		VMOVUPS(number(geluK1), k)
		VFMADD213PS(number(geluK0), k, w)
		VMULPS(x, w, w)
		exp8(w)
		VADDPS(number(1), w, w)
		VDIVPS(w, x, x)
	})
	inPlace("GELU", gelu8)
}

func gelu8(x reg.VecVirtual) {
	h := erf8(x)
	VMULPS(number(0.5), x, x)
	VMULPS(h, x, x)
}

// erf8 follows erf1 of math.go: both sides of its branch are computed, and a mask picks.
func erf8(x reg.VecVirtual) reg.VecVirtual {
	negative, sign, z := lessThan8(x, zero8()), YMM(), YMM()
	VPAND(signs(), negative, sign)
	VMULPS(number(sqrtHalf), x, z)
	VPXOR(sign, z, z)
	small := lessThan8(z, number(1))

	// Small: h = 1 ± (z + z*S(z²)).
	zz := YMM()
	VMULPS(z, z, zz)
	h := horner8(zz, erfSmall)
	VFMADD213PS(z, z, h) // h*z + z
	VPXOR(sign, h, h)
	VADDPS(number(1), h, h)

	// Large: t = exp(L(z) - z²), h = t or 2-t.
	limit, other := YMM(), YMM()
	VMOVUPS(number(erfMax), limit)
	VMINPS(z, limit, z)
	t := horner8(z, erfLarge)
	VFNMADD231PS(z, z, t) // t - z*z
	exp8(t)
	VMOVUPS(number(2), other)
	VSUBPS(t, other, other)
	VBLENDVPS(negative, t, other, t)

	VBLENDVPS(small, h, t, t)
	return t
}

// avx2SoftcapKernel follows softcap32 as gelu8 does gelu32.
func avx2SoftcapKernel() {
	kernel("avx2Softcap", NOSPLIT, "func(x *float32, n int, limit float32)")
	Doc("avx2Softcap is x = limit*tanh(x/limit) for n elements.")
	Pragma("noescape")
	x, limit := param("x"), YMM()
	VBROADCASTSS(paramMem("limit"), limit)
	walk8("loop", paramMem("n"), func(_ int, e eight) {
		z := e.load(x)
		VDIVPS(limit, z, z)
		sign := lessThan8(z, zero8())
		VPAND(signs(), sign, sign)
		VPXOR(sign, z, z)
		small := lessThan8(z, number(tanhMid))

		// Small: z + z*z²*P(z²).
		s := YMM()
		VMULPS(z, z, s)
		near := horner8(s, tanhSmall)
		VMULPS(s, z, s)
		VFMADD213PS(z, s, near) // near*s + z

		// Large: 1 - 2/(e^2z + 1).
		t, k := YMM(), YMM()
		VADDPS(z, z, t)
		exp8(t)
		VADDPS(number(1), t, t)
		VMOVUPS(number(2), k)
		VDIVPS(t, k, t)
		VMOVUPS(number(1), k)
		VSUBPS(t, k, t)

		VBLENDVPS(small, near, t, t)
		VPXOR(sign, t, t)
		VMULPS(limit, t, t)
		e.store(t, x)
	})
	VZEROUPPER()
	RET()
}

// avx2WidenKernel turns 16-bit floats of any layout into float32.
func avx2WidenKernel(f floatFormat) {
	name := "avx2Widen" + f.name
	kernel(name, NOSPLIT, "func(dst *float32, src "+f.typ+", n int)")
	Doc(name + " widens n times 16 values.")
	Pragma("noescape")
	dst, src, n := param("dst"), param("src"), param("n")
	Label("values")
	PREFETCHT0(Mem{Base: src, Disp: floatAhead})
	for h := range 2 {
		y := YMM()
		f.load(Mem{Base: src, Disp: f.bytes / 2 * h}, y)
		VMOVUPS(y, Mem{Base: dst, Disp: 32 * h})
	}
	ADDQ(I32(f.bytes), src)
	ADDQ(I32(64), dst)
	DECQ(n)
	JNE(LabelRef("values"))
	VZEROUPPER()
	RET()
}
