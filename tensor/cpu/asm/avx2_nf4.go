package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The greatest numbers of rows of a kernel on one block: 8 of the 16 registers are
// accumulators, and decoding takes 8; on a panel 12 are.
const (
	avx2NF4Rows      = 4
	avx2NF4PanelRows = 6
)

// nf4Table are the 16 levels, which two registers hold.
type nf4Table [2]reg.VecVirtual

func newNF4Table() nf4Table {
	levels, t := param("levels"), nf4Table{YMM(), YMM()}
	for i, y := range t {
		VMOVUPS(Mem{Base: levels, Disp: 32 * i}, y)
	}
	return t
}

// value looks the levels of column i of a line up. The low 3 bits of a code are the place in
// either half of the table, and the fourth says which half.
func (t nf4Table) value(line reg.VecVirtual, i int) reg.VecVirtual {
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
	return v
}

// avx2NF4Kernel continues products of a number of rows with n blocks.
func avx2NF4Kernel(rows int) {
	name := fmt.Sprintf("avx2NF4x%d", rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with n blocks; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	table, n, sums := newNF4Table(), paramMem("n"), newPairs(rows, 1)

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	groups := GP64()
	MOVQ(paramMem("groups"), groups)
	Label("groups")
	zeroPairs(sums)
	PREFETCHT0(Mem{Base: scale, Disp: floatAhead / 8})
	lines := GP64()
	MOVQ(U32(nf4Lines), lines)
	Label("lines")
	PREFETCHT0(Mem{Base: data, Disp: floatAhead})
	for h := range 2 {
		line := YMM()
		VMOVDQU(Mem{Base: data, Disp: 32 * h}, line)
		for i := range 8 {
			w := table.value(line, i)
			for r := range rows {
				v := YMM()
				VBROADCASTSS(x.at(r, 4*i), v)
				VFMADD231PS(v, w, sums[r][0][h])
			}
		}
	}
	x.advance(4 * 8)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	addScaledPairs(acc, paramMem("accStride"), sums, scale)
	ADDQ(I32(64), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	ADDQ(I32(64), acc)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// addScaledPairs is addScaled for one block.
func addScaledPairs(acc reg.GPVirtual, stride Mem, sums [][]pair16, scale reg.GPVirtual) {
	p := GP64()
	MOVQ(acc, p)
	for r, row := range sums {
		if r > 0 {
			ADDQ(stride, p)
		}
		for h, s := range row[0] {
			y, m := YMM(), Mem{Base: p, Disp: 32 * h}
			VMOVUPS(m, y)
			VFMADD231PS(Mem{Base: scale, Disp: 32 * h}, s, y)
			VMOVUPS(y, m)
		}
	}
}

// avx2NF4PanelKernel continues products of a number of rows with one block of a panel of
// levels.
func avx2NF4PanelKernel(rows int) {
	const unroll = 4
	name := fmt.Sprintf("avx2NF4Panelx%d", rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, panel, scale, x *float32, xStride uintptr, groups int)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with one block of a panel; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, panel, scale, xStride, groups := param("acc"), param("panel"), param("scale"), param("xStride"), param("groups")
	sums, x := newPairs(rows, 1), newRowPtrs(paramMem("x"), xStride, rows)
	Label("groups")
	zeroPairs(sums)
	turns := GP64()
	MOVQ(U32(8*nf4Lines/unroll), turns)
	Label("columns")
	for i := range unroll {
		var w [2]reg.VecVirtual
		for h := range w {
			w[h] = YMM()
			VMOVUPS(Mem{Base: panel, Disp: 64*i + 32*h}, w[h])
		}
		for r := range rows {
			v := YMM()
			VBROADCASTSS(x.at(r, 4*i), v)
			for h := range w {
				VFMADD231PS(v, w[h], sums[r][0][h])
			}
		}
	}
	x.advance(4 * unroll)
	ADDQ(I32(64*unroll), panel)
	DECQ(turns)
	JNE(LabelRef("columns"))
	addScaledPairs(acc, paramMem("accStride"), sums, scale)
	ADDQ(I32(64), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
}

// avx2UnpackNF4Kernel looks up the levels of lines of one block.
func avx2UnpackNF4Kernel() {
	const name = "avx2UnpackNF4"
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, lines int, levels *float32)")
	Doc(name + " looks up the levels of lines of 8 columns of one block.")
	Pragma("noescape")
	dst, data, lines := param("dst"), param("data"), param("lines")
	table := newNF4Table()
	Label("lines")
	for h := range 2 {
		line := YMM()
		VMOVDQU(Mem{Base: data, Disp: 32 * h}, line)
		for i := range 8 {
			VMOVUPS(table.value(line, i), Mem{Base: dst, Disp: 64*i + 32*h})
		}
	}
	ADDQ(I32(512), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}
