package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatFormat says how 16 weights of a column widen to float32.
type floatFormat struct {
	name  string
	typ   string
	bytes int // of 16 weights
	load  func(m Mem, z reg.VecVirtual)
}

var floatFormats = []floatFormat{
	{"F32", "*float32", 64, func(m Mem, z reg.VecVirtual) { VMOVUPS(m, z) }},
	{"F16", "*uint16", 32, func(m Mem, z reg.VecVirtual) { VCVTPH2PS(m, z) }},
	{"BF16", "*uint16", 32, func(m Mem, z reg.VecVirtual) {
		VPMOVZXWD(m, z)
		VPSLLD(U8(16), z, z)
	}},
}

// floatAhead is how many bytes before their use weights are asked for, in each of the
// streams of blocks; see prefetchAhead. Kernels of float products are told instead, since
// keys and values lie in pieces too short for one distance.
const floatAhead = 2048

// floatKernel continues float products of a number of rows with n runs of blocks. While it
// reads a cache line it asks for the one ahead bytes further on.
func floatKernel(f floatFormat, rows, blocks int) {
	name := fmt.Sprintf("avx512%sx%dx%d", f.name, rows, blocks)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, w "+f.typ+", wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n runs of %d blocks; strides are in bytes.", name, rows, blocks))
	Pragma("noescape")
	acc, w, wStride, xStride := param("acc"), param("w"), param("wStride"), param("xStride")
	run, n := newStrided(GP64(), wStride, blocks), paramMem("n")
	tile := newTile(rows, blocks)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	moveTile(acc, paramMem("accStride"), tile, true)
	far, k := run, GP64()
	far.base = GP64()
	MOVQ(w, run.base)
	MOVQ(w, far.base)
	ADDQ(paramMem("ahead"), far.base)
	column := func(i int, prefetch bool) {
		var ws []reg.VecVirtual
		for b := range blocks {
			if prefetch && i*f.bytes%64 == 0 { // once a cache line
				PREFETCHT0(far.at(b, i*f.bytes))
			}
			z := ZMM()
			f.load(run.at(b, i*f.bytes), z)
			ws = append(ws, z)
		}
		addColumn(x, i, ws, tile)
	}
	const unroll = 4
	MOVQ(paramMem("k"), k)
	SUBQ(Imm(unroll), k)
	JLT(LabelRef("tail"))
	Label("columns")
	for i := range unroll {
		column(i, true)
	}
	x.advance(4 * unroll)
	ADDQ(I32(unroll*f.bytes), run.base)
	ADDQ(I32(unroll*f.bytes), far.base)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("columns"))
	Label("tail")
	ADDQ(Imm(unroll), k)
	JE(LabelRef("done"))
	Label("column")
	column(0, false)
	x.advance(4)
	ADDQ(I32(f.bytes), run.base)
	DECQ(k)
	JNE(LabelRef("column"))
	Label("done")
	moveTile(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64*blocks), acc)
	switch blocks {
	case 4:
		LEAQ(Mem{Base: w, Index: wStride, Scale: 4}, w)
	default:
		LEAQ(Mem{Base: w, Index: wStride, Scale: 2}, w)
	}
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}
