package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A group of activations (cpu.quantGroup): 32 signed bytes, then these.
const (
	groupScale = 32
	groupSum   = 36
	groupOff8  = 40
	groupOff4  = 44
	groupOff32 = 48 // two: of the halves
	groupBytes = 56
)

// sumBias is the float32 whose bits sums of integers start with (cpu.biased): read as
// floats, they are sumBias greater than what they stand for.
const (
	sumBias = 3 << 22
	biased  = 0x4b400000 // its bits
)

// scaleBytes are those of a group of a format without super-blocks.
func (f format) scaleBytes() int {
	if f.minimum {
		return 64
	}
	return 32
}

// vpdpbusd adds to z, per 32-bit lane, four products of unsigned bytes of w with the
// signed bytes at m, the same for all lanes. The generator's library lacks AVX512-VNNI.
func vpdpbusd(m Mem, w, z reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode:   "VPDPBUSD",
		Suffixes: []string{"BCST"},
		Operands: []Op{m, w, z},
		Inputs:   []Op{m, w, z},
		Outputs:  []Op{z},
		ISA:      []string{"AVX512F", "AVX512_VNNI"},
	})
}

// vpdpbusdReg is vpdpbusd with the signed bytes in a register.
func vpdpbusdReg(x, w, z reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode:   "VPDPBUSD",
		Operands: []Op{x, w, z},
		Inputs:   []Op{x, w, z},
		Outputs:  []Op{z},
		ISA:      []string{"AVX512F", "AVX512_VNNI"},
	})
}

// A line is asked for twice: far ahead of its use into the second-level cache, where more
// lines can be under way from memory than in the first, and again shortly before its use
// into the first. A line of nibbles, or one that meets several rows, takes so many
// instructions that the reorder window alone spans too few lines to hide either latency.
const (
	outerAhead    = 8192 // bytes of lines; covers latency times bandwidth several times
	innerAhead    = 2048
	prefetchAhead = 4096 // where lines are asked for once, into the first-level cache
)

// quantKernel continues quantised products of a number of rows with blocks of weights. It
// asks for the values that lie ahead bytes further on, and for scales scaleAhead bytes on.
func quantKernel(f format, rows int) {
	name := fmt.Sprintf("avx512%sx%d", f.name, rows)
	kernel(name, textFlags(rows, maxRows), "func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int, ahead, scaleAhead uintptr)")
	Doc(fmt.Sprintf("%s continues the products of %d rows with blocks that follow each other; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, data, scale, xStride := param("acc"), param("data"), param("scale"), param("xStride")
	ahead, scaleAhead, blocks := param("ahead"), param("scaleAhead"), paramMem("blocks")
	t := newTotals(rows, maxRows, 0)
	var mask reg.VecVirtual
	if f.bits == 4 {
		mask = nibbleMask()
	}

	Label("blocks")
	x := newRowPtrs(paramMem("x"), xStride, rows)
	t.move(acc, paramMem("accStride"), true)
	g := GP64()
	MOVQ(paramMem("groups"), g)
	Label("groups")
	sums := make([]reg.VecVirtual, rows)
	for r := range sums {
		sums[r] = ZMM()
		x.start(r, f.undo(), sums[r])
	}
	cols := group{x: x}
	for c := range f.lines() {
		v := ZMM()
		PREFETCHT1(Mem{Base: data, Index: ahead, Scale: 1, Disp: 64 * c})
		PREFETCHT0(Mem{Base: data, Disp: 64*c + innerAhead})
		VMOVDQU64(Mem{Base: data, Disp: 64 * c}, v)
		if f.bits != 4 {
			cols.dot(v, 4*c, sums)
			continue
		}
		lo, hi := ZMM(), ZMM()
		VPANDD(mask, v, lo)
		cols.dot(lo, 4*c, sums)
		VPSRLW(U8(4), v, hi)
		VPANDD(mask, hi, hi)
		cols.dot(hi, 16+4*c, sums)
	}
	dw := ZMM()
	PREFETCHT1(Mem{Base: scale, Index: scaleAhead, Scale: 1})
	VCVTPH2PS(Mem{Base: scale}, dw)
	var mw reg.VecVirtual
	if f.minimum {
		mw = ZMM()
		VCVTPH2PS(Mem{Base: scale, Disp: 32}, mw)
	}
	t.end(cols, sums, times(dw), mw)
	x.advance(groupBytes)
	ADDQ(I32(64*f.lines()), data)
	ADDQ(I32(f.scaleBytes()), scale)
	DECQ(g)
	JNE(LabelRef("groups"))
	t.move(acc, paramMem("accStride"), false)
	ADDQ(I32(64), acc)
	DECQ(blocks)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// start sets a sum of row r to what undoes an offset, kept at off, or 0 if there is none.
func (p rowPtrs) start(r, off int, sum reg.VecVirtual) {
	if off == 0 {
		VBROADCASTSS(number(sumBias), sum)
		return
	}
	VPBROADCASTD(p.at(r, off), sum)
}

// times turns sums of integers into floats, times the scales of weights: as the bias times
// a scale is exact, one fma takes the bias off and rounds the product.
func times(dw reg.VecVirtual) func(r int, sum reg.VecVirtual) reg.VecVirtual {
	c := ZMM()
	VMULPS_BCST(number(-sumBias), dw, c)
	return func(_ int, sum reg.VecVirtual) reg.VecVirtual {
		VFMADD213PS(c, dw, sum) // dw*sum + c
		return sum
	}
}

// nibbleMask has 15 in every byte.
func nibbleMask() reg.VecVirtual { return broadcast(0x0f0f0f0f) }

// broadcast puts 32 bits in every lane.
func broadcast(bits uint32) reg.VecVirtual {
	t, z := GP32(), ZMM()
	MOVL(U32(bits), t)
	VPBROADCASTD(t, z)
	return z
}

// unpackKernel dequantises groups of one block into the float layout.
func unpackKernel(f format) {
	name := "avx512Unpack" + f.name
	kernel(name, NOSPLIT, "func(dst *float32, data *byte, scale *uint16, groups int)")
	Doc(name + " dequantises groups of one block.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	low := uint32(0xff)
	if f.bits == 4 {
		low = 0x0f
	}
	mask := broadcast(low)
	var offset reg.VecVirtual
	switch f.undo() {
	case groupOff8:
		offset = broadcast(128)
	case groupOff4:
		offset = broadcast(8)
	}
	Label("groups")
	dw, mw := ZMM(), ZMM()
	VCVTPH2PS(Mem{Base: scale}, dw)
	if f.minimum {
		VCVTPH2PS(Mem{Base: scale, Disp: 32}, mw)
	}
	for c := range f.lines() {
		v := ZMM()
		VMOVDQU64(Mem{Base: data, Disp: 64 * c}, v)
		column := func(i, shift int) {
			q := ZMM()
			VPSRLD(U8(shift), v, q)
			VPANDD(mask, q, q)
			if f.undo() != 0 {
				VPSUBD(offset, q, q)
			}
			VCVTDQ2PS(q, q)
			VMULPS(dw, q, q)
			if f.minimum {
				VADDPS(mw, q, q)
			}
			VMOVUPS(q, Mem{Base: dst, Disp: 64 * i})
		}
		for i := range 4 {
			column(4*c+i, 8*i)
			if f.bits == 4 {
				column(16+4*c+i, 8*i+4)
			}
		}
	}
	ADDQ(I32(64*32), dst)
	ADDQ(I32(64*f.lines()), data)
	ADDQ(I32(f.scaleBytes()), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
}
