package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// width is what loops over elements need to know of a tier.
type width struct {
	tier   string
	vector func() reg.VecVirtual
	walk   func(label string, n Mem, body func(e elements))
}

// elements are those of a step of a walk; where they end within it, what lies past the end
// is zero and stays.
type elements interface {
	load(p reg.GPVirtual) reg.VecVirtual
	store(v reg.VecVirtual, p reg.GPVirtual)
}

var (
	wide = width{"avx512", ZMM, func(label string, n Mem, body func(e elements)) {
		walk(label, n, func(c chunk) { body(c) })
	}}
	narrow = width{"avx2", YMM, func(label string, n Mem, body func(e elements)) {
		walk8(label, n, func(_ int, e eight) { body(e) })
	}}
)

// elementwise writes the kernels that are alike for all widths.
func (w width) elementwise() {
	w.binary("Add", "dst = a+b", func(a, b, c Op) { VADDPS(a, b, c) })
	w.binary("Mul", "dst = a*b", func(a, b, c Op) { VMULPS(a, b, c) })

	name := w.tier + "Scale"
	kernel(name, NOSPLIT, "func(dst, src *float32, n int, f float32)")
	Doc(name + " is dst = src*f for n elements.")
	Pragma("noescape")
	dst, src, f := param("dst"), param("src"), w.vector()
	VBROADCASTSS(paramMem("f"), f)
	w.loop(func(e elements) {
		v := e.load(src)
		VMULPS(f, v, v)
		e.store(v, dst)
	})

	w.roundKernel()

	name = w.tier + "Blend"
	kernel(name, NOSPLIT, "func(o, p *float32, n int, a, b float32)")
	Doc(name + " is o = fma(o, a, p*b) for n elements.")
	Pragma("noescape")
	o, p, a, b := param("o"), param("p"), w.vector(), w.vector()
	VBROADCASTSS(paramMem("a"), a)
	VBROADCASTSS(paramMem("b"), b)
	w.loop(func(e elements) {
		v, u := e.load(o), e.load(p)
		VMULPS(b, u, u)
		VFMADD213PS(u, a, v)
		e.store(v, o)
	})
}

// bits is a vector of the same 32 bits in each lane.
func (w width) bits(v uint32) reg.VecVirtual {
	g, x, all := GP32(), XMM(), w.vector()
	MOVL(U32(v), g)
	VMOVD(g, x)
	VPBROADCASTD(x, all)
	return all
}

// roundKernel rounds to bfloat16, to nearest, ties to even, and keeps the float32: half of what is
// cut off is added, one less where the last bit that stays is even. A carry reaches infinity where it
// must. It must not reach the bits of a NaN, which becomes quiet instead.
func (w width) roundKernel() {
	w.inPlace("Round", func() func(x reg.VecVirtual) reg.VecVirtual {
		magnitude, infinity, half, one := w.bits(0x7fffffff), w.bits(0x7f800000), w.bits(0x7fff), w.bits(1)
		quiet, kept := w.bits(0x00400000), w.bits(0xffff0000)
		return func(x reg.VecVirtual) reg.VecVirtual {
			nan, odd := w.vector(), w.vector()
			VANDPS(magnitude, x, nan)
			VPSUBD(nan, infinity, nan)
			VPSRAD(U8(31), nan, nan) // all ones where the magnitude is beyond infinity
			VPSRLD(U8(16), x, odd)
			VANDPS(one, odd, odd)
			VPADDD(half, odd, odd)
			VANDNPS(odd, nan, odd) // nothing is added to a NaN
			VANDPS(quiet, nan, nan)
			VPADDD(odd, x, x)
			VORPS(nan, x, x)
			VANDPS(kept, x, x)
			return x
		}
	})
}

func (w width) binary(name, doc string, op func(a, b, c Op)) {
	name = w.tier + name
	kernel(name, NOSPLIT, "func(dst, a, b *float32, n int)")
	Doc(name + " is " + doc + " for n elements; dst may be a or b.")
	Pragma("noescape")
	dst, a, b := param("dst"), param("a"), param("b")
	w.loop(func(e elements) {
		v := e.load(a)
		op(e.load(b), v, v)
		e.store(v, dst)
	})
}

// inPlace writes a kernel that works in place; body makes constants, then what is done to
// elements.
func (w width) inPlace(name string, body func() func(x reg.VecVirtual) reg.VecVirtual) {
	name = w.tier + name
	kernel(name, NOSPLIT, "func(x *float32, n int)")
	Doc(name + " works on n elements in place.")
	Pragma("noescape")
	x := param("x")
	f := body()
	w.loop(func(e elements) { e.store(f(e.load(x)), x) })
}

// loop ends a kernel with a walk over n elements.
func (w width) loop(body func(e elements)) {
	w.walk("loop", paramMem("n"), body)
	VZEROUPPER()
	RET()
}
