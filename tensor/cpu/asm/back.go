package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the ops that go backward, for both tiers where they are alike.

const (
	slopeMax   = 100
	invSqrt2Pi = 0.3989422804014327
)

// turnKernel transposes 16 x 16 numbers in four rounds: pairs of numbers, pairs of pairs, and
// twice quarters of registers.
func turnKernel() {
	kernel("avx512Turn", NOSPLIT, "func(dst *float32, dstStride uintptr, src *float32, srcStride uintptr)")
	Doc("avx512Turn transposes 16 rows of 16 numbers; rows are strides of bytes apart.")
	Pragma("noescape")
	src, stride := param("src"), param("srcStride")
	a := make([]reg.VecVirtual, 16)
	for i := range a {
		a[i] = ZMM()
		VMOVUPS(Mem{Base: src}, a[i])
		if i < 15 {
			ADDQ(stride, src)
		}
	}
	b := make([]reg.VecVirtual, 16)
	for i := 0; i < 16; i += 2 { // b[i], b[i+1]: columns 0, 1 and 2, 3 of each quarter, of rows i and i+1
		b[i], b[i+1] = ZMM(), ZMM()
		VUNPCKLPS(a[i+1], a[i], b[i])
		VUNPCKHPS(a[i+1], a[i], b[i+1])
	}
	c := make([]reg.VecVirtual, 16)
	for i := 0; i < 16; i += 4 { // c[i+k]: column k of each quarter, of rows i to i+3
		for h := range 2 {
			c[i+2*h], c[i+2*h+1] = ZMM(), ZMM()
			VUNPCKLPD(b[i+2+h], b[i+h], c[i+2*h])
			VUNPCKHPD(b[i+2+h], b[i+h], c[i+2*h+1])
		}
	}
	dst, to := param("dst"), param("dstStride")
	out := make([]reg.VecVirtual, 16)
	for k := range 4 { // columns k, k+4, k+8, k+12
		lo, hi, lo2, hi2 := ZMM(), ZMM(), ZMM(), ZMM()
		VSHUFF32X4(U8(0x88), c[4+k], c[k], lo)     // quarters 0 and 2 of rows 0-3, 4-7
		VSHUFF32X4(U8(0xdd), c[4+k], c[k], hi)     // quarters 1 and 3
		VSHUFF32X4(U8(0x88), c[12+k], c[8+k], lo2) // of rows 8-11, 12-15
		VSHUFF32X4(U8(0xdd), c[12+k], c[8+k], hi2)
		out[k], out[4+k], out[8+k], out[12+k] = ZMM(), ZMM(), ZMM(), ZMM()
		VSHUFF32X4(U8(0x88), lo2, lo, out[k])
		VSHUFF32X4(U8(0x88), hi2, hi, out[4+k])
		VSHUFF32X4(U8(0xdd), lo2, lo, out[8+k])
		VSHUFF32X4(U8(0xdd), hi2, hi, out[12+k])
	}
	for i, z := range out {
		VMOVUPS(z, Mem{Base: dst})
		if i < 15 {
			ADDQ(to, dst)
		}
	}
	VZEROUPPER()
	RET()
}

// weighKernel is the twin of genericWeigh.
func weighKernel(capped bool) {
	name, args := "avx512Weigh", "m, inv, d, scale float32"
	if capped {
		name, args = "avx512WeighCapped", "m, inv, d, scale, limit float32"
	}
	kernel(name, NOSPLIT, "func(x, dp *float32, n int, "+args+")")
	Doc(name + " turns n scores into weights, and gradients by weights into those by products.")
	Pragma("noescape")
	x, dp := param("x"), param("dp")
	all := func(name string) reg.VecVirtual {
		z := ZMM()
		VBROADCASTSS(paramMem(name), z)
		return z
	}
	m, inv, d, scale := all("m"), all("inv"), all("d"), all("scale")
	var limit reg.VecVirtual
	if capped {
		limit = all("limit")
	}
	e := newExp()
	walk("loop", paramMem("n"), func(c chunk) {
		v, g, r := c.load(x), c.load(dp), ZMM()
		if capped {
			VDIVPS(limit, v, r)
		}
		VSUBPS(m, v, v)
		e.exp(v)
		VMULPS(inv, v, v)
		c.store(v, x)
		VSUBPS(d, g, g)
		VMULPS(g, v, g)
		if capped {
			VFNMADD213PS(e.one, r, r) // 1 - r*r
			VMULPS(r, g, g)
		}
		VMULPS(scale, g, g)
		c.store(g, dp)
	})
	VZEROUPPER()
	RET()
}

// slopeKernels are the derivatives of activations, in place.
func slopeKernels() {
	clamped := func(f func(x reg.VecVirtual) reg.VecVirtual) func(x reg.VecVirtual) reg.VecVirtual {
		most, least := float(slopeMax), float(-slopeMax)
		return func(x reg.VecVirtual) reg.VecVirtual {
			VMINPS(x, most, x) // a NaN, the second source, stays
			VMAXPS(x, least, x)
			return f(x)
		}
	}
	wide.inPlace("SiLUSlope", func() func(x reg.VecVirtual) reg.VecVirtual {
		e, sign := newExp(), broadcast(1<<31)
		return clamped(func(x reg.VecVirtual) reg.VecVirtual {
			s := ZMM()
			VPXORD(sign, x, s)
			e.exp(s)
			VADDPS(e.one, s, s)
			VDIVPS(s, e.one, s)
			t := ZMM()
			VMULPS(s, x, x)
			VSUBPS(s, e.one, t)
			VFMADD213PS(s, t, x) // x*s * (1-s) + s
			return x
		})
	})
	wide.inPlace("GELUTanhSlope", func() func(x reg.VecVirtual) reg.VecVirtual {
		e, k0, k1, k3, sign := newExp(), float(geluK0), float(geluK1), float(3*geluK1), broadcast(1<<31)
		return clamped(func(x reg.VecVirtual) reg.VecVirtual {
			q, w, s := ZMM(), ZMM(), ZMM()
			VMULPS(x, x, q)
			VMOVAPS(q, s)
			VFMADD213PS(k0, k1, s)
			VMULPS(x, s, s)
			e.exp(s)
			VADDPS(e.one, s, s)
			VDIVPS(s, e.one, s)
			VFMADD213PS(k0, k3, q)
			VPXORD(sign, q, q)
			VMULPS(s, x, x)
			VSUBPS(s, e.one, w)
			VMULPS(w, x, x)
			VFMADD213PS(s, q, x) // (x*s)*(1-s) * q + s
			return x
		})
	})
	wide.inPlace("GELUSlope", func() func(x reg.VecVirtual) reg.VecVirtual {
		e := newExp()
		erf := erf1(e)
		half, minus, density := float(0.5), float(-0.5), float(invSqrt2Pi)
		return clamped(func(x reg.VecVirtual) reg.VecVirtual {
			h, t := erf(x), ZMM()
			VMULPS(half, h, h)
			VMULPS(x, x, t)
			VMULPS(minus, t, t)
			e.exp(t)
			VMULPS(density, t, t)
			VFMADD213PS(h, t, x)
			return x
		})
	})
}

// innerKernel is the twin of genericDot.
func innerKernel() {
	kernel("avx512Inner", NOSPLIT, "func(a, b *float32, n int) (sum float32)")
	Doc("avx512Inner adds the products of n elements in lanes.")
	Pragma("noescape")
	a, b, acc := param("a"), param("b"), zero()
	walk("sum", paramMem("n"), func(c chunk) { c.product(c.load(a), c.load(b), acc) })
	Store(tree(acc).AsX(), Return("sum"))
	VZEROUPPER()
	RET()
}

// rmsNormBackKernel is the twin of genericRMSNormBack.
func rmsNormBackKernel() {
	kernel("avx512RMSNormBack", NOSPLIT, "func(dst, src, dy, gain *float32, n int, eps float32)")
	Doc("avx512RMSNormBack goes back through a norm of n elements.")
	Pragma("noescape")
	dst, src, dy, gain := param("dst"), param("src"), param("dy"), param("gain")
	n := paramMem("n")
	acc := zero()
	walk("sum", n, func(c chunk) { c.accumulate(c.load(src), acc, true) })
	num := count(n)
	inv := inverseRoot(tree(acc), num)
	along := zero()
	scaled := func(c chunk) (h, t reg.VecVirtual) {
		h, t = c.load(src), c.load(dy)
		VMULPS(inv, h, h)
		VMULPS(c.load(gain), t, t)
		return h, t
	}
	walk("along", n, func(c chunk) {
		h, t := scaled(c)
		c.product(h, t, along)
	})
	m := mean(along, num)
	walk("scale", n, func(c chunk) {
		h, t := scaled(c)
		VFNMADD231PS(m, h, t) // t - h*m
		VMULPS(inv, t, t)
		c.store(t, dst)
	})
	VZEROUPPER()
	RET()
}

// layerNormBackKernel is the twin of genericLayerNormBack.
func layerNormBackKernel() {
	kernel("avx512LayerNormBack", NOSPLIT, "func(dst, src, dy, gain *float32, n int, eps float32)")
	Doc("avx512LayerNormBack goes back through a norm of n elements.")
	Pragma("noescape")
	dst, src, dy, gain := param("dst"), param("src"), param("dy"), param("gain")
	n := paramMem("n")
	acc := zero()
	walk("mean", n, func(c chunk) { c.accumulate(c.load(src), acc, false) })
	num := count(n)
	middle := mean(acc, num)
	squares := zero()
	walk("sum", n, func(c chunk) {
		v := c.load(src)
		VSUBPS(middle, v, v)
		c.accumulate(v, squares, true)
	})
	inv := inverseRoot(tree(squares), num)
	along, sum := zero(), zero()
	scaled := func(c chunk) (h, t reg.VecVirtual) {
		h, t = c.load(src), c.load(dy)
		VSUBPS(middle, h, h)
		VMULPS(inv, h, h)
		VMULPS(c.load(gain), t, t)
		return h, t
	}
	walk("along", n, func(c chunk) {
		h, t := scaled(c)
		c.product(h, t, along)
		c.accumulate(t, sum, false)
	})
	m, a := mean(along, num), mean(sum, num)
	walk("scale", n, func(c chunk) {
		h, t := scaled(c)
		VSUBPS(a, t, t)
		VFNMADD231PS(m, h, t) // t - a - h*m
		VMULPS(inv, t, t)
		c.store(t, dst)
	})
	VZEROUPPER()
	RET()
}

// product adds a*b by fma to acc, only in the chunk's lanes.
func (c chunk) product(a, b, acc reg.VecVirtual) {
	if c.tail != nil {
		VFMADD231PS(a, b, c.tail, acc)
	} else {
		VFMADD231PS(a, b, acc)
	}
}

// mean is the sum of 16 lanes by n, in all lanes.
func mean(acc, n reg.VecVirtual) reg.VecVirtual {
	s, all := tree(acc).AsX(), ZMM()
	VDIVSS(n, s, s)
	VBROADCASTSS(s, all)
	return all
}
