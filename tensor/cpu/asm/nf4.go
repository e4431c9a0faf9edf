package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	nf4Lines = 8 // lines of 8 columns that share scales
	// maxNF4Rows is the greatest number of rows of a kernel.
	maxNF4Rows = 8
)

// nf4Value looks the levels of column i of a line up. Only the low 4 bits of an index count,
// so nothing need be masked.
func nf4Value(line, levels reg.VecVirtual, i int) reg.VecVirtual {
	at, w := line, ZMM()
	if i > 0 {
		at = ZMM()
		VPSRLD(U8(4*i), line, at)
	}
	VPERMPS(levels, at, w)
	return w
}

func nf4Levels() reg.VecVirtual {
	z := ZMM()
	VMOVUPS(Mem{Base: param("levels")}, z)
	return z
}

// addScaled ends the sums of a group: times the scales of their blocks they are added to
// accumulators in memory, which are touched once in 64 columns and so take no registers.
func addScaled(acc reg.GPVirtual, stride Mem, sums [][]reg.VecVirtual, scale strided) {
	p := GP64()
	MOVQ(acc, p)
	for r, row := range sums {
		if r > 0 {
			ADDQ(stride, p)
		}
		for b, s := range row {
			z, m := ZMM(), Mem{Base: p, Disp: 64 * b}
			VMOVUPS(m, z)
			VFMADD231PS(scale.at(b, 0), s, z)
			VMOVUPS(z, m)
		}
	}
}

// nf4Kernel continues products of a number of rows with n runs of blocks.
func nf4Kernel(rows, blocks int) {
	name := fmt.Sprintf("avx512NF4x%dx%d", rows, blocks)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n runs of %d blocks; strides are in bytes.", name, rows, blocks))
	Pragma("noescape")
	acc, xStride := param("acc"), param("xStride")
	levels := nf4Levels()
	// A block has 512 bytes of lines and 64 of scales for each group.
	perLines, perScales := GP64(), GP64()
	MOVQ(paramMem("groups"), perScales)
	SHLQ(U8(6), perScales)
	MOVQ(perScales, perLines)
	SHLQ(U8(3), perLines)
	data, scale := newStrided(param("data"), perLines, blocks), newStrided(param("scale"), perScales, blocks)
	sums := newTile(rows, blocks)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	groups := GP64()
	MOVQ(paramMem("groups"), groups)
	Label("groups")
	zeroTile(sums)
	for b := range blocks {
		PREFETCHT0(scale.at(b, floatAhead/8))
	}
	lines := GP64()
	MOVQ(U32(nf4Lines), lines)
	Label("lines")
	var line []reg.VecVirtual
	for b := range blocks {
		z := ZMM()
		PREFETCHT0(data.at(b, floatAhead))
		VMOVDQU64(data.at(b, 0), z)
		line = append(line, z)
	}
	for i := range 8 {
		var w []reg.VecVirtual
		for b := range blocks {
			w = append(w, nf4Value(line[b], levels, i))
		}
		addColumn(x, i, w, sums)
	}
	x.advance(4 * 8)
	ADDQ(I32(64), data.base)
	DECQ(lines)
	JNE(LabelRef("lines"))
	addScaled(acc, paramMem("accStride"), sums, scale)
	ADDQ(I32(64), scale.base)
	DECQ(groups)
	JNE(LabelRef("groups"))
	ADDQ(I32(64*blocks), acc)
	for _, s := range []strided{data, scale} { // one block is behind the pointers already
		if blocks == 4 {
			ADDQ(s.stride3, s.base)
		} else {
			ADDQ(s.stride, s.base)
		}
	}
	DECQ(paramMem("n"))
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// nf4PanelKernel continues products of a number of rows with two blocks of a panel of
// levels.
func nf4PanelKernel(rows int) {
	const blocks, unroll = 2, 4
	name := fmt.Sprintf("avx512NF4Panelx%d", rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, panel *float32, apart uintptr, scale *float32, scaleStride uintptr, x *float32, xStride uintptr, groups int)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with two blocks of a panel; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, xStride, groups := param("acc"), param("xStride"), param("groups")
	panel, scale := newStrided(param("panel"), param("apart"), blocks), newStrided(param("scale"), param("scaleStride"), blocks)
	sums := newTile(rows, blocks)
	x := newRowPtrs(paramMem("x"), xStride, rows)
	Label("groups")
	zeroTile(sums)
	turns := GP64()
	MOVQ(U32(8*nf4Lines/unroll), turns)
	Label("columns")
	for i := range unroll {
		var w []reg.VecVirtual
		for b := range blocks {
			z := ZMM()
			VMOVUPS(panel.at(b, 64*i), z)
			w = append(w, z)
		}
		addColumn(x, i, w, sums)
	}
	x.advance(4 * unroll)
	ADDQ(I32(64*unroll), panel.base)
	DECQ(turns)
	JNE(LabelRef("columns"))
	addScaled(acc, paramMem("accStride"), sums, scale)
	ADDQ(I32(64), scale.base)
	DECQ(groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
}

// unpackNF4Kernel looks up the levels of lines of one block.
func unpackNF4Kernel() {
	const name = "avx512UnpackNF4"
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, lines int, levels *float32)")
	Doc(name + " looks up the levels of lines of 8 columns of one block.")
	Pragma("noescape")
	dst, data, lines := param("dst"), param("data"), param("lines")
	levels := nf4Levels()
	Label("lines")
	line := ZMM()
	PREFETCHT0(Mem{Base: data, Disp: floatAhead})
	VMOVDQU64(Mem{Base: data}, line)
	for i := range 8 {
		VMOVUPS(nf4Value(line, levels, i), Mem{Base: dst, Disp: 64 * i})
	}
	ADDQ(I32(512), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}
