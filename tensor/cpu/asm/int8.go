package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What belongs to a row in 8 bits (cpu.int8Row).
const (
	rowAmax     = 0
	rowOff      = 4
	rowOutliers = 8
	rowBytes    = 16
)

// int8Lines is how many lines of 4 columns a turn of the loop takes: cpu.int8Pad columns.
const int8Lines = 4

// int8Kernel sets the products of a number of rows with n pairs of blocks. Sums are exact,
// so their order is free: a single row has two for each block, to hide the latency.
func int8Kernel(rows int) {
	name := fmt.Sprintf("avx512INT8x%d", rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, q *int8, qStride uintptr, rows *byte, turns int)")
	Doc(fmt.Sprintf("%s sets the products of %d rows with n pairs of blocks of turns*4 lines; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, qStride := param("acc"), param("data"), param("scale"), param("qStride")
	block, n := GP64(), paramMem("n")
	MOVQ(paramMem("turns"), block)
	SHLQ(U8(8), block) // bytes of a block
	sets := 1
	if rows == 1 {
		sets = 2
	}

	Label("pairs")
	x := newRowPtrs(paramMem("q"), qStride, rows)
	sums := newTile(rows, 2*sets)
	zeroTile(sums)
	turns := GP64()
	MOVQ(paramMem("turns"), turns)
	Label("turns")
	for c := range int8Lines {
		var w [2]reg.VecVirtual
		for b := range w {
			m := Mem{Base: data, Disp: 64 * c}
			if b == 1 {
				m.Index, m.Scale = block, 1
			}
			far := m
			far.Disp += floatAhead
			PREFETCHT0(far)
			w[b] = ZMM()
			VMOVDQU64(m, w[b])
		}
		for r := range rows {
			v := ZMM()
			VPBROADCASTD(x.at(r, 4*c), v)
			for b := range w {
				vpdpbusdReg(v, w[b], sums[r][2*(c%sets)+b])
			}
		}
	}
	x.advance(4 * int8Lines)
	ADDQ(I32(64*int8Lines), data)
	DECQ(turns)
	JNE(LabelRef("turns"))
	if sets == 2 {
		VPADDD(sums[0][2], sums[0][0], sums[0][0])
		VPADDD(sums[0][3], sums[0][1], sums[0][1])
	}

	units := broadcast(math.Float32bits(float32(1.0 / (127 * 127))))
	var a [2]reg.VecVirtual
	for b := range a {
		a[b] = ZMM()
		VMOVUPS(Mem{Base: scale, Disp: 64 * b}, a[b])
	}
	row, to := GP64(), GP64()
	MOVQ(paramMem("rows"), row)
	MOVQ(acc, to)
	for r := range rows {
		if r > 0 {
			ADDQ(paramMem("accStride"), to)
		}
		off, amax := ZMM(), ZMM()
		VPBROADCASTD(Mem{Base: row, Disp: rowBytes*r + rowOff}, off)
		VBROADCASTSS(Mem{Base: row, Disp: rowBytes*r + rowAmax}, amax)
		for b := range a {
			s, both := sums[r][b], ZMM()
			VPADDD(off, s, s)
			VCVTDQ2PS(s, s)
			VMULPS(a[b], amax, both)
			VMULPS(both, s, s)
			VMULPS(units, s, s)
			VMOVUPS(s, Mem{Base: to, Disp: 64 * b})
		}
	}
	ADDQ(block, data)
	ADDQ(I32(128), scale)
	ADDQ(I32(128), acc)
	DECQ(n)
	JNE(LabelRef("pairs"))
	VZEROUPPER()
	RET()
}

// int8Value turns the bytes of column c%4 of a line, already moved to the top of v's
// lanes, into values: v = (q*a)/127.
func int8Value(v, sign, a, unit reg.VecVirtual) {
	VPXORD(sign, v, v) // +128 to signed
	VPSRAD(U8(24), v, v)
	VCVTDQ2PS(v, v)
	VMULPS(a, v, v)
	VMULPS(unit, v, v)
}

// int8OutliersKernel continues the sums of one row and block over n outlier columns.
func int8OutliersKernel() {
	const name = "avx512INT8Outliers"
	kernel(name, NOSPLIT, "func(acc *float32, data *byte, scale *float32, x *float32, cols *int32, n int)")
	Doc(name + " continues the sums of one row and block over n outlier columns.")
	Pragma("noescape")
	acc, data, x, cols, n := param("acc"), param("data"), param("x"), param("cols"), param("n")
	a, sum := ZMM(), ZMM()
	VMOVUPS(Mem{Base: param("scale")}, a)
	VMOVUPS(Mem{Base: acc}, sum)
	sign, unit := broadcast(0x80000000), broadcast(math.Float32bits(float32(1.0/127)))
	Label("columns")
	c, shift := GP64(), GP64()
	MOVLQSX(Mem{Base: cols}, c)
	MOVQ(c, shift)
	NOTQ(shift)
	ANDQ(Imm(3), shift)
	SHLQ(U8(3), shift) // 24 for the first of 4 columns, 0 for the last
	count, v := XMM(), ZMM()
	VMOVQ(shift, count)
	line := GP64()
	MOVQ(c, line)
	SHRQ(U8(2), line)
	SHLQ(U8(6), line)
	VMOVDQU64(Mem{Base: data, Index: line, Scale: 1}, v)
	VPSLLD(count, v, v)
	int8Value(v, sign, a, unit)
	VFMADD231PS_BCST(Mem{Base: x, Index: c, Scale: 4}, v, sum)
	ADDQ(Imm(4), cols)
	DECQ(n)
	JNE(LabelRef("columns"))
	VMOVUPS(sum, Mem{Base: acc})
	VZEROUPPER()
	RET()
}

// unpackINT8Kernel dequantises lines of one block into the float layout.
func unpackINT8Kernel() {
	const name = "avx512UnpackINT8"
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, scale *float32, lines int)")
	Doc(name + " dequantises lines of 4 columns of one block.")
	Pragma("noescape")
	dst, data, lines := param("dst"), param("data"), param("lines")
	a := ZMM()
	VMOVUPS(Mem{Base: param("scale")}, a)
	sign, unit := broadcast(0x80000000), broadcast(math.Float32bits(float32(1.0/127)))
	Label("lines")
	line := ZMM()
	VMOVDQU64(Mem{Base: data}, line)
	for i := range 4 {
		v := ZMM()
		VPSLLD(U8(24-8*i), line, v)
		int8Value(v, sign, a, unit)
		VMOVUPS(v, Mem{Base: dst, Disp: 64 * i})
	}
	ADDQ(I32(256), dst)
	ADDQ(I32(64), data)
	DECQ(lines)
	JNE(LabelRef("lines"))
	VZEROUPPER()
	RET()
}

// Predicates of comparisons; both are false for a NaN.
const (
	lessThan     = U8(0x11)
	greaterEqual = U8(0x1d)
)

// quantiseRowKernel rounds a row to bytes, outliers apart; q is padded to 16 bytes.
func quantiseRowKernel() {
	const name = "avx512QuantiseRow"
	kernel(name, NOSPLIT, "func(row *byte, q *int8, outlier *int32, x *float32, n int)")
	Doc(name + " rounds a row of n elements to bytes, its outliers apart.")
	Pragma("noescape")
	row, q, outlier := param("row"), param("q"), param("outlier")
	magnitude, floor := broadcast(1<<31-1), broadcast(bits(6))
	const tiny, inf = uint32(7 << 23), uint32(0x7f800000) // 2^-120

	// each runs over 16 elements at a time; in is the mask of those that are there.
	each := func(label string, body func(v, u reg.VecVirtual, in reg.OpmaskVirtual)) {
		x, left, all, some, in := param("x"), param("n"), GP32(), GP32(), K()
		MOVL(U32(0xffff), all)
		KMOVW(all, in)
		Label(label)
		CMPQ(left, Imm(16))
		JGE(LabelRef(label + "_full"))
		BZHIL(left.As32(), all, some)
		KMOVW(some, in)
		Label(label + "_full")
		v, u := ZMM(), ZMM()
		VMOVUPS_Z(Mem{Base: x}, in, v)
		VPANDD(magnitude, v, u)
		body(v, u, in)
		ADDQ(I32(64), x)
		SUBQ(Imm(16), left)
		JG(LabelRef(label))
	}

	most, columns, step := ZMM(), ZMM(), broadcast(16)
	VPXORD(most, most, most)
	VMOVDQU32(iota16(), columns)
	outliers := GP64()
	XORQ(outliers, outliers)
	each("magnitude", func(_, u reg.VecVirtual, in reg.OpmaskVirtual) {
		out, inside := K(), K()
		VCMPPS(greaterEqual, floor, u, out)
		KNOTW(out, inside)
		VPMAXUD(u, most, inside, most)
		KORTESTW(out, out)
		JE(LabelRef("none"))
		count := GP32()
		VPCOMPRESSD(columns, out, Mem{Base: outlier, Index: outliers, Scale: 4})
		KMOVW(out, count)
		POPCNTL(count, count)
		ADDQ(count.As64(), outliers)
		Label("none")
		VPADDD(step, columns, columns)
	})
	MOVL(outliers.As32(), Mem{Base: row, Disp: rowOutliers})
	reduce(most, func(a, b, c Op) { VPMAXUD(a, b, c) })
	top, t, id, unit := GP32(), GP32(), XMM(), ZMM()
	VMOVD(most.AsX(), top)
	LEAL(Mem{Base: top, Disp: -int(tiny)}, t)
	CMPL(t, U32(inf-tiny))
	JB(LabelRef("finite"))
	// All zero, or with a NaN, which is the magnitude: no bytes.
	CMPL(top, U32(tiny))
	JAE(LabelRef("nan"))
	XORL(top, top)
	Label("nan")
	VPXORD(unit, unit, unit)
	JMP(LabelRef("round"))
	Label("finite")
	MOVL(U32(bits(127)), t)
	VMOVD(t, id)
	VDIVSS(most.AsX(), id, id)
	VBROADCASTSS(id, unit)
	Label("round")
	MOVL(top, Mem{Base: row, Disp: rowAmax})
	sums := ZMM()
	VPXORD(sums, sums, sums)
	each("bytes", func(v, u reg.VecVirtual, in reg.OpmaskVirtual) {
		inside := K()
		VCMPPS(lessThan, floor, u, inside)
		VMULPS(unit, v, v)
		VCVTPS2DQ_Z(v, inside, v)
		VPADDD(v, sums, sums)
		VPMOVDB(v, Mem{Base: q})
		ADDQ(I32(16), q)
	})
	reduce(sums, func(a, b, c Op) { VPADDD(a, b, c) })
	VMOVD(sums.AsX(), t)
	NEGL(t)
	SHLL(U8(7), t)
	MOVL(t, Mem{Base: row, Disp: rowOff})
	VZEROUPPER()
	RET()
}

// iota16 is 0 to 15 in memory.
func iota16() Mem {
	m := GLOBL("iota16", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(i))
	}
	return m
}
