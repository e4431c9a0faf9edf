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

// nf4Value looks the codes of column i of a line up and scales the levels. Only the low 4
// bits of an index count, so nothing need be masked.
func nf4Value(line, levels, scale reg.VecVirtual, i int) reg.VecVirtual {
	at, w := line, ZMM()
	if i > 0 {
		at = ZMM()
		VPSRLD(U8(4*i), line, at)
	}
	VPERMPS(levels, at, w)
	VMULPS(scale, w, w)
	return w
}

func nf4Levels() reg.VecVirtual {
	z := ZMM()
	VMOVUPS(Mem{Base: param("levels")}, z)
	return z
}

// nf4Kernel continues products of a number of rows with n runs of blocks.
func nf4Kernel(rows, blocks int) {
	name := fmt.Sprintf("avx512NF4x%dx%d", rows, blocks)
	TEXT(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n runs of %d blocks; strides are in bytes.", name, rows, blocks))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	levels := nf4Levels()
	// A block has 512 bytes of lines and 64 of scales for each group.
	block, scales := GP64(), GP64()
	MOVQ(paramMem("groups"), scales)
	SHLQ(U8(6), scales)
	MOVQ(scales, block)
	SHLQ(U8(3), block)
	var block3, scales3 reg.GPVirtual
	if blocks == 4 {
		block3, scales3 = GP64(), GP64()
		LEAQ(Mem{Base: block, Index: block, Scale: 2}, block3)
		LEAQ(Mem{Base: scales, Index: scales, Scale: 2}, scales3)
	}
	at := func(p, stride, stride3 reg.GPVirtual, b, disp int) Mem {
		m := Mem{Base: p, Disp: disp}
		switch b {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(b)
		case 3:
			m.Index, m.Scale = stride3, 1
		}
		return m
	}
	n := paramMem("n")
	tile := newTile(rows, blocks)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	moveTile(acc, paramMem("accStride"), tile, true)
	groups := GP64()
	MOVQ(paramMem("groups"), groups)
	Label("groups")
	var s []reg.VecVirtual
	for b := range blocks {
		z := ZMM()
		PREFETCHT0(at(scale, scales, scales3, b, floatAhead/8))
		VMOVUPS(at(scale, scales, scales3, b, 0), z)
		s = append(s, z)
	}
	lines := GP64()
	MOVQ(U32(nf4Lines), lines)
	Label("lines")
	var line []reg.VecVirtual
	for b := range blocks {
		z := ZMM()
		PREFETCHT0(at(data, block, block3, b, floatAhead))
		VMOVDQU64(at(data, block, block3, b, 0), z)
		line = append(line, z)
	}
	for i := range 8 {
		var w []reg.VecVirtual
		for b := range blocks {
			w = append(w, nf4Value(line[b], levels, s[b], i))
		}
		for r := range rows {
			v := ZMM()
			VBROADCASTSS(x.at(r, 4*i), v)
			for b := range blocks {
				VFMADD231PS(v, w[b], tile[r][b])
			}
		}
	}
	x.advance(4 * 8)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	ADDQ(I32(64), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	moveTile(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64*blocks), acc)
	// One block is behind the pointers already.
	switch blocks {
	case 4:
		ADDQ(block3, data)
		ADDQ(scales3, scale)
	default:
		ADDQ(block, data)
		ADDQ(scales, scale)
	}
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// unpackNF4Kernel dequantises lines of one block that share scales.
func unpackNF4Kernel() {
	const name = "avx512UnpackNF4"
	TEXT(name, NOSPLIT, "func(dst *float32, data *byte, scale *float32, lines int, levels *float32)")
	Doc(name + " dequantises lines of 8 columns of one block that share scales.")
	Pragma("noescape")
	dst, data, lines := param("dst"), param("data"), param("lines")
	scale, levels := ZMM(), nf4Levels()
	VMOVUPS(Mem{Base: param("scale")}, scale)
	Label("lines")
	line := ZMM()
	VMOVDQU64(Mem{Base: data}, line)
	for i := range 8 {
		VMOVUPS(nf4Value(line, levels, scale, i), Mem{Base: dst, Disp: 64 * i})
	}
	ADDQ(I32(512), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}
