package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/mmcloughlin/avo/ir"
)

// ceilingLines is how many cache lines a turn of the reading loop takes.
const ceilingLines = 16

// ceilingChains is how many sums a turn of a dot loop continues: more than latency times
// units of any processor so far, and fewer than the registers.
const ceilingChains = 24

// ceilingKernels are loops that only meet one limit of the machine. They have no generic
// twin: they compute nothing that anybody uses.
func ceilingKernels() {
	readKernel()
	dotKernel("F32", func(a, b, z reg.VecVirtual) { VFMADD231PS(a, b, z) })
	dotKernel("Int8", func(a, b, z reg.VecVirtual) {
		Instruction(&ir.Instruction{
			Opcode: "VPDPBUSD", Operands: []Op{a, b, z}, Inputs: []Op{a, b, z}, Outputs: []Op{z},
			ISA: []string{"AVX512F", "AVX512_VNNI"},
		})
	})
}

// readKernel asks for nothing ahead: a line costs one instruction, so that the reorder
// window spans enough of them, and prefetching was 5 % slower where this was measured.
func readKernel() {
	kernel("avx512Read", NOSPLIT, "func(p *byte, turns int)")
	Doc("avx512Read loads turns*1024 bytes and drops them.")
	Pragma("noescape")
	p, turns := param("p"), param("turns")
	var sums [4]reg.VecVirtual
	for i := range sums {
		sums[i] = zero()
	}
	Label("turn")
	for i := range ceilingLines {
		VPORD(Mem{Base: p, Disp: 64 * i}, sums[i%len(sums)], sums[i%len(sums)])
	}
	ADDQ(I32(64*ceilingLines), p)
	DECQ(turns)
	JNE(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

// dotKernel repeats one instruction on registers.
func dotKernel(name string, dot func(a, b, z reg.VecVirtual)) {
	kernel("avx512Dot"+name, NOSPLIT, "func(turns int)")
	Doc("avx512Dot" + name + " does turns*24 multiply-and-add instructions on registers.")
	turns := param("turns")
	a, b := float(0.5), float(0.5)
	var sums [ceilingChains]reg.VecVirtual
	for i := range sums {
		sums[i] = zero()
	}
	Label("turn")
	for _, z := range sums {
		dot(a, b, z)
	}
	DECQ(turns)
	JNE(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
