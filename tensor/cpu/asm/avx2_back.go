package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2TurnKernel transposes 16 x 16 numbers, 8 x 8 at a time. Rows i and i+4 share a register,
// so that nothing crosses its halves afterwards.
func avx2TurnKernel() {
	kernel("avx2Turn", NOSPLIT, "func(dst *float32, dstStride uintptr, src *float32, srcStride uintptr)")
	Doc("avx2Turn transposes 16 rows of 16 numbers; rows are strides of bytes apart.")
	Pragma("noescape")
	dst, to, src, stride := param("dst"), param("dstStride"), param("src"), param("srcStride")
	to3, stride3, far := GP64(), GP64(), GP64() // three rows on; rows 4 to 7 of the source
	LEAQ(Mem{Base: to, Index: to, Scale: 2}, to3)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	row := func(base reg.GPVirtual, i int, one, three reg.GPVirtual, disp int) Mem {
		m := Mem{Base: base, Disp: disp}
		switch i {
		case 1, 2:
			m.Index, m.Scale = one, uint8(i)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	for r := range 2 { // rows 8r to 8r+7 of the source
		LEAQ(Mem{Base: src, Index: stride, Scale: 4}, far)
		for c := range 4 { // columns 4c to 4c+3
			var a, b [4]reg.VecVirtual
			for i := range a {
				a[i] = YMM()
				VBROADCASTF128(row(src, i, stride, stride3, 16*c), a[i])
				VINSERTF128(U8(1), row(far, i, stride, stride3, 16*c), a[i], a[i])
			}
			for i := range b {
				b[i] = YMM()
			}
			VUNPCKLPS(a[1], a[0], b[0])
			VUNPCKHPS(a[1], a[0], b[1])
			VUNPCKLPS(a[3], a[2], b[2])
			VUNPCKHPS(a[3], a[2], b[3])
			VUNPCKLPD(b[2], b[0], a[0])
			VUNPCKHPD(b[2], b[0], a[1])
			VUNPCKLPD(b[3], b[1], a[2])
			VUNPCKHPD(b[3], b[1], a[3])
			for i, y := range a {
				VMOVUPS(y, row(dst, i, to, to3, 32*r))
			}
			if c < 3 {
				LEAQ(Mem{Base: dst, Index: to, Scale: 4}, dst)
			}
		}
		if r == 0 {
			LEAQ(Mem{Base: far, Index: stride, Scale: 4}, src)
			NEGQ(to)
			for range 3 {
				LEAQ(Mem{Base: dst, Index: to, Scale: 4}, dst)
			}
			NEGQ(to)
		}
	}
	VZEROUPPER()
	RET()
}

// avx2WeighKernel is the twin of genericWeigh.
func avx2WeighKernel(capped bool) {
	name, args := "avx2Weigh", "m, inv, d, scale float32"
	if capped {
		name, args = "avx2WeighCapped", "m, inv, d, scale, limit float32"
	}
	kernel(name, NOSPLIT, "func(x, dp *float32, n int, "+args+")")
	Doc(name + " turns n scores into weights, and gradients by weights into those by products.")
	Pragma("noescape")
	x, dp := param("x"), param("dp")
	times := func(name string, y reg.VecVirtual) {
		all := YMM()
		VBROADCASTSS(paramMem(name), all)
		VMULPS(all, y, y)
	}
	m, d := YMM(), YMM()
	VBROADCASTSS(paramMem("m"), m)
	VBROADCASTSS(paramMem("d"), d)
	walk8("loop", paramMem("n"), func(_ int, e eight) {
		v, r := e.load(x), YMM()
		if capped {
			limit := YMM()
			VBROADCASTSS(paramMem("limit"), limit)
			VDIVPS(limit, v, r)
		}
		VSUBPS(m, v, v)
		exp8(v)
		times("inv", v)
		e.store(v, x)
		g := e.load(dp)
		VSUBPS(d, g, g)
		VMULPS(g, v, g)
		if capped {
			VFNMADD213PS(number(1), r, r) // 1 - r*r
			VMULPS(r, g, g)
		}
		times("scale", g)
		e.store(g, dp)
	})
	VZEROUPPER()
	RET()
}

// avx2SlopeKernels are the derivatives of activations, in place.
func avx2SlopeKernels() {
	inPlace := func(name string, f func(x reg.VecVirtual)) {
		narrow.inPlace(name, func() func(x reg.VecVirtual) reg.VecVirtual {
			return func(x reg.VecVirtual) reg.VecVirtual {
				limit := YMM()
				VMOVUPS(number(slopeMax), limit)
				VMINPS(x, limit, x) // a NaN, the second source, stays
				VMOVUPS(number(-slopeMax), limit)
				VMAXPS(x, limit, x)
				f(x)
				return x
			}
		})
	}
	// sigmoid makes s = 1/(1+e^s), and then x*s*(1-s) of x, whose product with 1-s is rounded by
	// itself where that is asked for, and the constant part of the slope is s.
	sigmoid := func(s reg.VecVirtual) {
		one := YMM()
		exp8(s)
		VADDPS(number(1), s, s)
		VMOVUPS(number(1), one)
		VDIVPS(s, one, s)
	}
	rest := func(s reg.VecVirtual) reg.VecVirtual { // 1-s
		t := YMM()
		VMOVUPS(number(1), t)
		VSUBPS(s, t, t)
		return t
	}
	inPlace("SiLUSlope", func(x reg.VecVirtual) {
		s := YMM()
		VPXOR(signs(), x, s)
		sigmoid(s)
		VMULPS(s, x, x)
		VFMADD213PS(s, rest(s), x) // x*s * (1-s) + s
	})
	inPlace("GELUTanhSlope", func(x reg.VecVirtual) {
		q, s, k := YMM(), YMM(), YMM()
		VMULPS(x, x, q)
		VMOVUPS(number(geluK1), k)
		VMOVAPS(q, s)
		VFMADD213PS(number(geluK0), k, s)
		VMULPS(x, s, s)
		sigmoid(s)
		VMOVUPS(number(3*geluK1), k)
		VFMADD213PS(number(geluK0), k, q)
		VPXOR(signs(), q, q)
		VMULPS(s, x, x)
		VMULPS(rest(s), x, x)
		VFMADD213PS(s, q, x) // (x*s)*(1-s) * q + s
	})
	inPlace("GELUSlope", func(x reg.VecVirtual) {
		h, t := erf8(x), YMM()
		VMULPS(number(0.5), h, h)
		VMULPS(x, x, t)
		VMULPS(number(-0.5), t, t)
		exp8(t)
		VMULPS(number(invSqrt2Pi), t, t)
		VFMADD213PS(h, t, x)
	})
}

// mean8 is the sum of 16 lanes by n, in all lanes.
func mean8(acc pair16, n reg.VecVirtual) reg.VecVirtual {
	s, all := fold8(acc, add8).AsX(), YMM()
	VDIVSS(n, s, s)
	VBROADCASTSS(s, all)
	return all
}

// avx2InnerKernel is the twin of genericDot.
func avx2InnerKernel() {
	kernel("avx2Inner", NOSPLIT, "func(a, b *float32, n int) (sum float32)")
	Doc("avx2Inner adds the products of n elements in lanes.")
	Pragma("noescape")
	a, b, acc := param("a"), param("b"), zeroPair()
	walk8("sum", paramMem("n"), func(h int, e eight) { VFMADD231PS(e.load(a), e.load(b), acc[h]) })
	Store(fold8(acc, add8).AsX(), Return("sum"))
	VZEROUPPER()
	RET()
}

// avx2RMSNormBackKernel is the twin of genericRMSNormBack.
func avx2RMSNormBackKernel() {
	kernel("avx2RMSNormBack", NOSPLIT, "func(dst, src, dy, gain *float32, n int, eps float32)")
	Doc("avx2RMSNormBack goes back through a norm of n elements.")
	Pragma("noescape")
	dst, src, dy, gain := param("dst"), param("src"), param("dy"), param("gain")
	n := paramMem("n")
	acc := zeroPair()
	walk8("sum", n, func(h int, e eight) {
		v := e.load(src)
		VFMADD231PS(v, v, acc[h])
	})
	num := count(n)
	inv := inverseRoot8(fold8(acc, add8), num)
	scaled := func(e eight) (h, t reg.VecVirtual) {
		h, t = e.load(src), e.load(dy)
		VMULPS(inv, h, h)
		VMULPS(e.load(gain), t, t)
		return h, t
	}
	along := zeroPair()
	walk8("along", n, func(half int, e eight) {
		h, t := scaled(e)
		VFMADD231PS(h, t, along[half])
	})
	m := mean8(along, num)
	walk8("scale", n, func(_ int, e eight) {
		h, t := scaled(e)
		VFNMADD231PS(m, h, t) // t - h*m
		VMULPS(inv, t, t)
		e.store(t, dst)
	})
	VZEROUPPER()
	RET()
}

// avx2LayerNormBackKernel is the twin of genericLayerNormBack.
func avx2LayerNormBackKernel() {
	kernel("avx2LayerNormBack", NOSPLIT, "func(dst, src, dy, gain *float32, n int, eps float32)")
	Doc("avx2LayerNormBack goes back through a norm of n elements.")
	Pragma("noescape")
	dst, src, dy, gain := param("dst"), param("src"), param("dy"), param("gain")
	n := paramMem("n")
	acc := zeroPair()
	walk8("mean", n, func(h int, e eight) { VADDPS(e.load(src), acc[h], acc[h]) })
	num := count(n)
	middle := mean8(acc, num)
	squares := zeroPair()
	walk8("sum", n, func(h int, e eight) {
		v := e.load(src)
		VSUBPS(middle, v, v)
		e.drop(v)
		VFMADD231PS(v, v, squares[h])
	})
	inv := inverseRoot8(fold8(squares, add8), num)
	scaled := func(e eight) (h, t reg.VecVirtual) {
		h, t = e.load(src), e.load(dy)
		VSUBPS(middle, h, h)
		VMULPS(inv, h, h)
		VMULPS(e.load(gain), t, t)
		return h, t
	}
	along, sum := zeroPair(), zeroPair()
	walk8("along", n, func(half int, e eight) {
		h, t := scaled(e)
		VFMADD231PS(h, t, along[half])
		VADDPS(t, sum[half], sum[half])
	})
	m, a := mean8(along, num), mean8(sum, num)
	walk8("scale", n, func(_ int, e eight) {
		h, t := scaled(e)
		VSUBPS(a, t, t)
		VFNMADD231PS(m, h, t) // t - a - h*m
		VMULPS(inv, t, t)
		e.store(t, dst)
	})
	VZEROUPPER()
	RET()
}
