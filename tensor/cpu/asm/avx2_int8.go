package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2INT8Rows is the greatest number of rows of a kernel: each has a pair of sums, and a
// single row two.
const avx2INT8Rows = 6

// avx2INT8Kernel sets the products of a number of rows with n blocks.
func avx2INT8Kernel(rows int) {
	name := fmt.Sprintf("avx2INT8x%d", rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, q *int8, qStride uintptr, rows *byte, turns int)")
	Doc(fmt.Sprintf("%s sets the products of %d rows with n blocks of turns*4 lines; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, qStride := param("acc"), param("data"), param("scale"), param("qStride")
	n := paramMem("n")
	ones := constant(0x00010001)

	Label("blocks")
	x := newRowPtrs(paramMem("q"), qStride, rows)
	sums := newPairs(rows, 1)
	zeroPairs(sums)
	turns := GP64()
	MOVQ(paramMem("turns"), turns)
	Label("turns")
	for c := range int8Lines {
		line := Mem{Base: data, Disp: 64 * c}
		far := line
		far.Disp += floatAhead
		PREFETCHT0(far)
		for h := range 2 {
			v := YMM()
			part := line
			part.Disp += 32 * h
			VMOVDQU(part, v)
			w := newByteWeights(v)
			for r := range rows {
				v := YMM()
				VPBROADCASTD(x.at(r, 4*c), v)
				w.dot(v, ones, sums[r][0][h], false)
			}
		}
	}
	x.advance(4 * int8Lines)
	ADDQ(I32(64*int8Lines), data)
	DECQ(turns)
	JNE(LabelRef("turns"))

	row, to := GP64(), GP64()
	MOVQ(paramMem("rows"), row)
	MOVQ(acc, to)
	for r := range rows {
		if r > 0 {
			ADDQ(paramMem("accStride"), to)
		}
		amax := YMM()
		VBROADCASTSS(Mem{Base: row, Disp: rowBytes*r + rowAmax}, amax)
		for h, s := range sums[r][0] {
			both := YMM()
			VCVTDQ2PS(s, s)
			VMULPS(Mem{Base: scale, Disp: 32 * h}, amax, both)
			VMULPS(both, s, s)
			VMULPS(number(float32(1.0/(127*127))), s, s)
			VMOVUPS(s, Mem{Base: to, Disp: 32 * h})
		}
	}
	ADDQ(I32(64), scale)
	ADDQ(I32(64), acc)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// int8Value8 is int8Value for 8 lanes.
func int8Value8(v reg.VecVirtual, scale Mem) {
	VPXOR(signs(), v, v) // +128 to signed
	VPSRAD(U8(24), v, v)
	VCVTDQ2PS(v, v)
	VMULPS(scale, v, v)
	VMULPS(number(float32(1.0/127)), v, v)
}

// avx2INT8OutliersKernel continues the sums of one row and block over n outlier columns.
func avx2INT8OutliersKernel() {
	const name = "avx2INT8Outliers"
	kernel(name, NOSPLIT, "func(acc *float32, data *byte, scale *float32, x *float32, cols *int32, n int)")
	Doc(name + " continues the sums of one row and block over n outlier columns.")
	Pragma("noescape")
	acc, data, x, cols, n := param("acc"), param("data"), param("x"), param("cols"), param("n")
	scale, sum := param("scale"), newPair()
	for h, y := range sum {
		VMOVUPS(Mem{Base: acc, Disp: 32 * h}, y)
	}
	Label("columns")
	c, shift, line := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: cols}, c)
	MOVQ(c, shift)
	NOTQ(shift)
	ANDQ(Imm(3), shift)
	SHLQ(U8(3), shift) // 24 for the first of 4 columns, 0 for the last
	count, one := XMM(), YMM()
	VMOVQ(shift, count)
	MOVQ(c, line)
	SHRQ(U8(2), line)
	SHLQ(U8(6), line)
	VBROADCASTSS(Mem{Base: x, Index: c, Scale: 4}, one)
	for h, y := range sum {
		v := YMM()
		VMOVDQU(Mem{Base: data, Index: line, Scale: 1, Disp: 32 * h}, v)
		VPSLLD(count, v, v)
		int8Value8(v, Mem{Base: scale, Disp: 32 * h})
		VFMADD231PS(one, v, y)
	}
	ADDQ(Imm(4), cols)
	DECQ(n)
	JNE(LabelRef("columns"))
	for h, y := range sum {
		VMOVUPS(y, Mem{Base: acc, Disp: 32 * h})
	}
	VZEROUPPER()
	RET()
}

// avx2UnpackINT8Kernel dequantises lines of one block into the float layout.
func avx2UnpackINT8Kernel() {
	const name = "avx2UnpackINT8"
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, scale *float32, lines int)")
	Doc(name + " dequantises lines of 4 columns of one block.")
	Pragma("noescape")
	dst, data, scale, lines := param("dst"), param("data"), param("scale"), param("lines")
	Label("lines")
	for h := range 2 {
		line := YMM()
		VMOVDQU(Mem{Base: data, Disp: 32 * h}, line)
		for i := range 4 {
			v := YMM()
			VPSLLD(U8(24-8*i), line, v)
			int8Value8(v, Mem{Base: scale, Disp: 32 * h})
			VMOVUPS(v, Mem{Base: dst, Disp: 64*i + 32*h})
		}
	}
	ADDQ(I32(256), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}

// avx2QuantiseRowKernel rounds a row to bytes, outliers apart; q is padded to 16 bytes.
func avx2QuantiseRowKernel() {
	const name = "avx2QuantiseRow"
	kernel(name, NOSPLIT, "func(row *byte, q *int8, outlier *int32, x *float32, n int)")
	Doc(name + " rounds a row of n elements to bytes, its outliers apart.")
	Pragma("noescape")
	row, q, outlier, x, n := param("row"), param("q"), param("outlier"), param("x"), paramMem("n")
	const tiny, inf = uint32(7 << 23), uint32(0x7f800000) // 2^-120
	magnitude := inRegister(constant(signBit - 1))
	// outside has all ones in the lanes of outliers, of which a NaN is none.
	outside := func(u reg.VecVirtual) reg.VecVirtual {
		m := YMM()
		VCMPPS(greaterEqual, number(6), u, m)
		return m
	}

	most, outliers, column := zeroPair(), GP64(), GP64()
	XORQ(outliers, outliers)
	XORQ(column, column)
	blocks := 0
	walk8("magnitude", n, func(h int, e eight) {
		u, bits := e.load(x), GP32()
		VPAND(magnitude, u, u)
		out := outside(u)
		VMOVMSKPS(out, bits)
		VPANDN(u, out, u)
		VPMAXUD(u, most[h], most[h])
		none, next := fmt.Sprintf("none%d", blocks), fmt.Sprintf("outlier%d", blocks)
		blocks++
		TESTL(bits, bits)
		JE(LabelRef(none))
		Label(next)
		lane, rest := GP32(), GP32()
		BSFL(bits, lane)
		ADDL(column.As32(), lane)
		MOVL(lane, Mem{Base: outlier, Index: outliers, Scale: 4})
		INCQ(outliers)
		LEAL(Mem{Base: bits, Disp: -1}, rest)
		ANDL(rest, bits) // without its lowest bit
		JNE(LabelRef(next))
		Label(none)
		ADDQ(Imm(8), column)
	})
	MOVL(outliers.As32(), Mem{Base: row, Disp: rowOutliers})
	topLane := fold8(most, func(a, b, c Op) { VPMAXUD(a, b, c) }).AsX()
	top, t, id, unit := GP32(), GP32(), XMM(), YMM()
	VMOVD(topLane, top)
	LEAL(Mem{Base: top, Disp: -int(tiny)}, t)
	CMPL(t, U32(inf-tiny))
	JB(LabelRef("finite"))
	// All zero, or with a NaN, which is the magnitude: no bytes.
	CMPL(top, U32(tiny))
	JAE(LabelRef("nan"))
	XORL(top, top)
	Label("nan")
	VPXOR(unit, unit, unit)
	JMP(LabelRef("round"))
	Label("finite")
	VMOVSS(number(127), id)
	VDIVSS(topLane, id, id)
	VBROADCASTSS(id, unit)
	Label("round")
	MOVL(top, Mem{Base: row, Disp: rowAmax})
	sums, low := zeroPair(), YMM()
	walk8("bytes", n, func(h int, e eight) {
		v, u := e.load(x), YMM()
		VPAND(magnitude, v, u)
		inside := lessThan8(u, number(6)) // a NaN gives no byte
		VMULPS(unit, v, v)
		VCVTPS2DQ(v, v)
		VPAND(inside, v, v)
		VPADDD(v, sums[h], sums[h])
		if h == 0 {
			VMOVDQA(v, low)
			return
		}
		VPACKSSDW(v, low, v)
		VPERMQ(U8(0xd8), v, v)
		bytes := XMM()
		VEXTRACTI128(U8(1), v, bytes)
		VPACKSSWB(bytes, v.AsX(), bytes)
		VMOVDQU(bytes, Mem{Base: q})
		ADDQ(Imm(16), q)
	})
	VMOVD(fold8(sums, func(a, b, c Op) { VPADDD(a, b, c) }).AsX(), t)
	NEGL(t)
	SHLL(U8(7), t)
	MOVL(t, Mem{Base: row, Disp: rowOff})
	VZEROUPPER()
	RET()
}
