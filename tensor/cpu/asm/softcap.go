package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The constants of tanh32.
var tanhSmall = []float32{-0.3333328, 0.13331442, -0.053739715, 0.020639086, -0.005704987}

const tanhMid = 0.625

// softcapKernel follows softcap32: both sides of tanh's branch are computed, and a mask
// picks.
func softcapKernel() {
	kernel("avx512Softcap", NOSPLIT, "func(x *float32, n int, limit float32)")
	Doc("avx512Softcap is x = limit*tanh(x/limit) for n elements.")
	Pragma("noescape")
	x, limit := param("x"), ZMM()
	VBROADCASTSS(paramMem("limit"), limit)
	e := newExp()
	sign, mid, two := broadcast(1<<31), float(tanhMid), float(2)
	walk("loop", paramMem("n"), func(c chunk) {
		z, none, negative, small := c.load(x), zero(), K(), K()
		VDIVPS(limit, z, z)
		VCMPPS(U8(0x11), none, z, negative) // z < 0, quiet
		VPXORD(sign, z, negative, z)
		VCMPPS(U8(0x11), mid, z, small)

		// Small: z + z*z²*P(z²).
		s, near := ZMM(), ZMM()
		VMULPS(z, z, s)
		hornerMem(near, s, tanhSmall)
		VMULPS(s, z, s)
		VFMADD213PS(z, s, near) // near*s + z

		// Large: 1 - 2/(e^2z + 1).
		t := ZMM()
		VADDPS(z, z, t)
		e.exp(t)
		VADDPS(e.one, t, t)
		VDIVPS(t, two, t)
		VSUBPS(t, e.one, t)

		VMOVAPS(near, small, t)
		VPXORD(sign, t, negative, t)
		VMULPS(limit, t, t)
		c.store(t, x)
	})
	VZEROUPPER()
	RET()
}
