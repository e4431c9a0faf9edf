package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of math.go, which explains them.
const (
	log2e   = 1.44269504088896341
	ln2Hi   = 0.693145751953125
	ln2Lo   = 1.42860682030941723e-6
	expMax  = 89
	expMin  = -87.3
	rounder = 3 << 22

	notLessThan = 5 // a comparison, true for a NaN

	geluK0   = -2 * 0.7978845608028654
	geluK1   = geluK0 * 0.044715
	sqrtHalf = 0.70710678118654752
	erfMax   = 10.125
)

var (
	expP     = []float32{0.49999994, 0.16666521, 0.04166839, 0.008368717, 0.0013814595}
	erfSmall = []float32{0.12837917, -0.37612626, 0.112835854, -0.026853813, 0.0051883277, -0.00080101937, 7.853862e-05}
	erfLarge = []float32{-0.0021444696, -1.1206557, 0.3528336, -0.09692915, 0.019844461, -0.0027922732, 0.0002500031, -1.2677868e-05, 2.7532758e-07}
)

// expConsts are the constants of exp in registers.
type expConsts struct {
	max, min, log2e, rounder, ln2Hi, ln2Lo, one reg.VecVirtual
	p                                           []reg.VecVirtual
}

func newExp() expConsts {
	c := expConsts{
		max: float(expMax), min: float(expMin), log2e: float(log2e), rounder: float(rounder),
		ln2Hi: float(-ln2Hi), ln2Lo: float(-ln2Lo), one: float(1),
	}
	for _, v := range expP {
		c.p = append(c.p, float(v))
	}
	return c
}

// exp replaces x by e^x.
func (c expConsts) exp(x reg.VecVirtual) {
	// Both are made for a NaN: the clamp gives x, its second source, and x is not less.
	n, p, r2, normal := ZMM(), ZMM(), ZMM(), K()
	VCMPPS(U8(notLessThan), c.min, x, normal)
	VMINPS(x, c.max, x)
	VMULPS(c.log2e, x, n)
	VADDPS(c.rounder, n, n)
	VSUBPS(c.rounder, n, n)
	VFMADD231PS(c.ln2Hi, n, x)
	VFMADD231PS(c.ln2Lo, n, x)
	horner(p, x, c.p)
	VMULPS(x, x, r2)
	VFMADD213PS(x, r2, p) // p*r² + r
	VADDPS(c.one, p, p)
	VSCALEFPS_Z(n, p, normal, x) // p*2^n, rounded once: the same as two halves
}

// horner sets p to the polynomial in x, constant first.
func horner(p, x reg.VecVirtual, c []reg.VecVirtual) {
	VMOVAPS(c[len(c)-1], p)
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(c[i], x, p)
	}
}

func softmaxKernel() {
	kernel("avx512Softmax", NOSPLIT, "func(s *float32, n int, scale float32) (m, l float32)")
	Doc("avx512Softmax turns n scores into weights and gives their maximum and sum.")
	Pragma("noescape")
	s, n := param("s"), paramMem("n")
	scale := ZMM()
	VBROADCASTSS(paramMem("scale"), scale)
	top := float(float32Inf(-1))
	walk("max", n, func(c chunk) {
		v := c.load(s)
		VMULPS(scale, v, v)
		c.store(v, s)
		if c.tail != nil {
			VMAXPS(v, top, c.tail, top)
		} else {
			VMAXPS(v, top, top)
		}
	})
	reduce(top, func(a, b, c Op) { VMAXPS(a, b, c) })
	Store(top.AsX(), Return("m"))
	m, acc := ZMM(), zero()
	VBROADCASTSS(top.AsX(), m)
	e := newExp()
	walk("exp", n, func(c chunk) {
		v := c.load(s)
		VSUBPS(m, v, v)
		e.exp(v)
		c.store(v, s)
		c.accumulate(v, acc, false)
	})
	Store(tree(acc).AsX(), Return("l"))
	VZEROUPPER()
	RET()
}

func activationKernels() {
	wide.inPlace("SiLU", func() func(x reg.VecVirtual) reg.VecVirtual {
		e, sign := newExp(), broadcast(1<<31)
		return func(x reg.VecVirtual) reg.VecVirtual {
			w := ZMM()
			VPXORD(sign, x, w)
			e.exp(w)
			VADDPS(e.one, w, w)
			VDIVPS(w, x, x)
			return x
		}
	})
	wide.inPlace("GELUTanh", func() func(x reg.VecVirtual) reg.VecVirtual {
		e, k0, k1 := newExp(), float(geluK0), float(geluK1)
		return func(x reg.VecVirtual) reg.VecVirtual {
			w := ZMM()
			VMULPS(x, x, w)
			VFMADD213PS(k0, k1, w)
			VMULPS(x, w, w)
			e.exp(w)
			VADDPS(e.one, w, w)
			VDIVPS(w, x, x)
			return x
		}
	})
	wide.inPlace("GELU", gelu)
}

func gelu() func(x reg.VecVirtual) reg.VecVirtual {
	half := float(0.5)
	h := erf1(newExp())
	return func(x reg.VecVirtual) reg.VecVirtual {
		l := h(x)
		VMULPS(half, x, x)
		VMULPS(l, x, x)
		return x
	}
}

// erf1 follows erf1 of math.go: both sides of its branch are computed, and the mask picks.
func erf1(e expConsts) func(x reg.VecVirtual) reg.VecVirtual {
	sign, two := broadcast(1<<31), float(2)
	root, limit := float(sqrtHalf), float(erfMax)
	return func(x reg.VecVirtual) reg.VecVirtual {
		none, negative, small := ZMM(), K(), K()
		VPXORD(none, none, none)
		VCMPPS(U8(0x11), none, x, negative) // x < 0, quiet
		z := ZMM()
		VMULPS(root, x, z)
		VPXORD(sign, z, negative, z)
		VCMPPS(U8(0x11), e.one, z, small) // z < 1

		// Small: h = 1 ± (z + z*S(z²)).
		zz, h, p := ZMM(), ZMM(), ZMM()
		VMULPS(z, z, zz)
		hornerMem(p, zz, erfSmall)
		VFMADD213PS(z, z, p) // p*z + z
		VADDPS(p, e.one, h)
		VSUBPS(p, e.one, negative, h)

		// Large: t = exp(L(z) - z²), h = t or 2-t.
		VMINPS(z, limit, z)
		t := ZMM()
		hornerMem(t, z, erfLarge)
		VFNMADD231PS(z, z, t) // t - z*z
		e.exp(t)
		l := ZMM()
		VSUBPS(t, two, l)
		VMOVAPS(t, negative, l)

		VMOVAPS(h, small, l)
		return l
	}
}

// hornerMem is horner with constants made on the way: there are too many for registers.
func hornerMem(p, x reg.VecVirtual, c []float32) {
	t := GP32()
	MOVL(U32(bits(c[len(c)-1])), t)
	VPBROADCASTD(t, p)
	for i := len(c) - 2; i >= 0; i-- {
		k := ZMM()
		MOVL(U32(bits(c[i])), t)
		VPBROADCASTD(t, k)
		VFMADD213PS(k, x, p)
	}
}
