package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2NF4Rows is the greatest number of rows of a kernel: with one block 8 of the 16
// registers are accumulators, and decoding takes 8.
const avx2NF4Rows = 4

// nf4Table are the 16 levels, which two registers hold.
type nf4Table [2]reg.VecVirtual

func newNF4Table() nf4Table {
	levels, t := param("levels"), nf4Table{YMM(), YMM()}
	for i, y := range t {
		VMOVUPS(Mem{Base: levels, Disp: 32 * i}, y)
	}
	return t
}

// value looks the codes of column i of a line up and scales the levels. The low 3 bits of a
// code are the place in either half of the table, and the fourth says which half.
func (t nf4Table) value(line reg.VecVirtual, scale Op, i int) reg.VecVirtual {
	at, which, v := line, YMM(), YMM()
	if i > 0 {
		at = YMM()
		VPSRLD(U8(4*i), line, at)
	}
	VPSLLD(U8(28-4*i), line, which) // its sign is the fourth bit
	VPERMPS(t[0], at, v)
	w := YMM()
	VPERMPS(t[1], at, w)
	VBLENDVPS(which, w, v, v)
	VMULPS(scale, v, v)
	return v
}

// avx2NF4Kernel continues products of a number of rows with n blocks.
func avx2NF4Kernel(rows int) {
	name := fmt.Sprintf("avx2NF4x%d", rows)
	TEXT(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n blocks; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	table, n, tile := newNF4Table(), paramMem("n"), newPairs(rows, 1)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	movePairs(acc, paramMem("accStride"), tile, true)
	groups := GP64()
	MOVQ(paramMem("groups"), groups)
	Label("groups")
	PREFETCHT0(Mem{Base: scale, Disp: floatAhead / 8})
	lines := GP64()
	MOVQ(U32(nf4Lines), lines)
	Label("lines")
	PREFETCHT0(Mem{Base: data, Disp: floatAhead})
	for h := range 2 {
		line := YMM()
		VMOVDQU(Mem{Base: data, Disp: 32 * h}, line)
		for i := range 8 {
			w := table.value(line, Mem{Base: scale, Disp: 32 * h}, i)
			for r := range rows {
				v := YMM()
				VBROADCASTSS(x.at(r, 4*i), v)
				VFMADD231PS(v, w, tile[r][0][h])
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
	movePairs(acc, paramMem("accStride"), tile, false)
	ADDQ(I32(64), acc)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// avx2UnpackNF4Kernel dequantises lines of one block that share scales.
func avx2UnpackNF4Kernel() {
	const name = "avx2UnpackNF4"
	TEXT(name, NOSPLIT, "func(dst *float32, data *byte, scale *float32, lines int, levels *float32)")
	Doc(name + " dequantises lines of 8 columns of one block that share scales.")
	Pragma("noescape")
	dst, data, scale, lines := param("dst"), param("data"), param("scale"), param("lines")
	table := newNF4Table()
	Label("lines")
	for h := range 2 {
		line := YMM()
		VMOVDQU(Mem{Base: data, Disp: 32 * h}, line)
		for i := range 8 {
			VMOVUPS(table.value(line, Mem{Base: scale, Disp: 32 * h}, i), Mem{Base: dst, Disp: 64*i + 32*h})
		}
	}
	ADDQ(I32(512), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}
