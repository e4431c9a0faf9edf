package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2Chains is how many sums a turn of a dot loop continues: more than latency times units
// of any processor so far, and fewer than the registers.
const avx2Chains = 12

// avx2CeilingKernels are those of ceilingKernels for processors without AVX-512.
func avx2CeilingKernels() {
	kernel("avx2Read", NOSPLIT, "func(p *byte, turns int)")
	Doc("avx2Read loads turns*1024 bytes and drops them.")
	Pragma("noescape")
	p, turns := param("p"), param("turns")
	var sums [4]reg.VecVirtual
	for i := range sums {
		sums[i] = zero8()
	}
	Label("turn")
	for i := range 2 * ceilingLines {
		VPOR(Mem{Base: p, Disp: 32 * i}, sums[i%len(sums)], sums[i%len(sums)])
	}
	ADDQ(I32(64*ceilingLines), p)
	DECQ(turns)
	JNE(LabelRef("turn"))
	VZEROUPPER()
	RET()

	avx2DotKernel("F32", 0.5, func(a, b, t, y reg.VecVirtual) { VFMADD231PS(a, b, y) })
	avx2DotKernel("Int8", 0, func(a, b, t, y reg.VecVirtual) {
		VPMADDUBSW(a, b, t)
		VPADDW(t, y, y) // as often as sums fit 16 bits, which is most of the time for nibbles
	})
}

// avx2DotKernel repeats a dot product on registers.
func avx2DotKernel(name string, value float32, dot func(a, b, t, y reg.VecVirtual)) {
	kernel("avx2Dot"+name, NOSPLIT, "func(turns int)")
	Doc("avx2Dot" + name + " does turns*12 dot products on registers.")
	turns, a, b, t := param("turns"), YMM(), YMM(), YMM()
	VMOVUPS(number(value), a)
	VMOVUPS(a, b)
	var sums [avx2Chains]reg.VecVirtual
	for i := range sums {
		sums[i] = zero8()
	}
	Label("turn")
	for _, y := range sums {
		dot(a, b, t, y)
	}
	DECQ(turns)
	JNE(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
