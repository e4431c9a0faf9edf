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
