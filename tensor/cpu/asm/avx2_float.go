package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2FloatRows is the greatest number of rows of a kernel: with one block of weights 12 of
// the 16 registers are accumulators.
const avx2FloatRows = 6

// avx2Floats widen 8 weights each.
var avx2Floats = []floatFormat{
	{"F32", "*float32", 64, func(m Mem, y reg.VecVirtual) { VMOVUPS(m, y) }},
	{"F16", "*uint16", 32, func(m Mem, y reg.VecVirtual) { VCVTPH2PS(m, y) }},
	{"BF16", "*uint16", 32, func(m Mem, y reg.VecVirtual) {
		VPMOVZXWD(m, y)
		VPSLLD(U8(16), y, y)
	}},
}

// avx2FloatBlocks is how many blocks at once fill the registers.
func avx2FloatBlocks(rows int) int {
	if rows <= 3 {
		return 2
	}
	return 1
}

// avx2FloatKernel continues float products of a number of rows with n runs of blocks. Either
// the activations of all rows stay in registers while the weights of the blocks pass, or the
// weights of a block while the rows do.
func avx2FloatKernel(f floatFormat, rows, blocks int) {
	name := fmt.Sprintf("avx2%sx%dx%d", f.name, rows, blocks)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, w "+f.typ+", wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n runs of %d blocks; strides are in bytes.", name, rows, blocks))
	Pragma("noescape")
	acc, w, wStride, xStride := param("acc"), param("w"), param("wStride"), param("xStride")
	var wStride3 reg.GPVirtual
	if blocks == 4 {
		wStride3 = GP64()
		LEAQ(Mem{Base: wStride, Index: wStride, Scale: 2}, wStride3)
	}
	n := paramMem("n")
	tile := newPairs(rows, blocks)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	movePairs(acc, paramMem("accStride"), tile, true)
	p, far, k := GP64(), GP64(), GP64()
	MOVQ(w, p)
	MOVQ(w, far)
	ADDQ(paramMem("ahead"), far)
	weights := func(base reg.GPVirtual, b, disp int) Mem {
		m := Mem{Base: base, Disp: disp}
		switch b {
		case 1, 2:
			m.Index, m.Scale = wStride, uint8(b)
		case 3:
			m.Index, m.Scale = wStride3, 1
		}
		return m
	}
	column := func(i int, prefetch bool) {
		if prefetch && i*f.bytes%64 == 0 { // once a cache line
			for b := range blocks {
				PREFETCHT0(weights(far, b, i*f.bytes))
			}
		}
		broadcast := func(r int) reg.VecVirtual {
			v := YMM()
			VBROADCASTSS(x.at(r, 4*i), v)
			return v
		}
		load := func(b, h int) reg.VecVirtual {
			y := YMM()
			f.load(weights(p, b, i*f.bytes+f.bytes/2*h), y)
			return y
		}
		if blocks == 1 {
			ws := pair16{load(0, 0), load(0, 1)}
			for r := range rows {
				v := broadcast(r)
				for h := range ws {
					VFMADD231PS(v, ws[h], tile[r][0][h])
				}
			}
			return
		}
		var vs []reg.VecVirtual
		for r := range rows {
			vs = append(vs, broadcast(r))
		}
		for b := range blocks {
			for h := range 2 {
				wh := load(b, h)
				for r := range rows {
					VFMADD231PS(vs[r], wh, tile[r][b][h])
				}
			}
		}
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
	ADDQ(I32(unroll*f.bytes), p)
	ADDQ(I32(unroll*f.bytes), far)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("columns"))
	Label("tail")
	ADDQ(Imm(unroll), k)
	JE(LabelRef("done"))
	Label("column")
	column(0, false)
	x.advance(4)
	ADDQ(I32(f.bytes), p)
	DECQ(k)
	JNE(LabelRef("column"))
	Label("done")
	movePairs(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64*blocks), acc)
	if blocks == 1 {
		ADDQ(wStride, w)
	} else {
		LEAQ(Mem{Base: w, Index: wStride, Scale: uint8(blocks)}, w)
	}
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}
