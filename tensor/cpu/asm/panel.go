package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxPanelRows is the greatest number of activation rows of a panel kernel: for each of
// two blocks a row holds a sum of integers and one of floats, in 24 of the 32 registers.
// Halves take one more sum each, and so 30 for a row less.
const maxPanelRows = 6

// A group of a panel (cpu.panelGroup): 8 lines of unsigned bytes, then these of 16 lanes.
const (
	panelScale      = 512
	panelMinimum    = 576
	panelGroupBytes = 640
)

// panelForm is one of cpu.panelForm: parts are the runs of columns with a scale.
type panelForm struct {
	name    string
	parts   []panelPart
	minimum bool
	rows    int // most of them
}

type panelPart struct {
	lines int // of them
	off   int // where a group of activations keeps what undoes the offset, 0 if there is none
	scale int
}

var panelForms = []panelForm{
	{"Panel", []panelPart{{8, groupOff8, panelScale}}, false, maxPanelRows},
	{"PanelMinimum", []panelPart{{8, 0, panelScale}}, true, maxPanelRows},
	{"PanelHalves", []panelPart{{4, groupOff32, panelScale}, {4, groupOff32 + 4, panelMinimum}}, false, maxPanelRows - 1},
}

// panelKernel continues quantised products of a number of rows with two blocks of an
// expanded panel: per row, block and group 8 dot products and 2 to 4 more, which keep both
// vector ports busy. All else is kept small, since a thread that shares its core with
// another's gets half of the decoder: dot products broadcast activations themselves, and
// every row has a register, which spares an instruction to add an index.
func panelKernel(f panelForm, rows int) {
	const blocks = 2
	name := fmt.Sprintf("avx512%sx%d", f.name, rows)
	kernel(name, NOSPLIT, "func(acc *float32, accStride uintptr, panel *byte, x *byte, xStride uintptr, groups, times int, out *float32, outStride uintptr, add bool)")
	Doc(fmt.Sprintf("%s continues the products of so many times %d rows with a panel and stores the sums to out, or adds them; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, p, first, xStride, groups, next := param("acc"), GP64(), param("x"), param("xStride"), GP64(), GP64()
	IMUL3Q(U8(rows), xStride, next)
	tile := newTile(rows, blocks)
	Label("rows")
	out := GP64()
	MOVQ(paramMem("out"), out)
	for range rows {
		for b := range blocks {
			PREFETCHT0(Mem{Base: out, Disp: 64 * b})
		}
		ADDQ(paramMem("outStride"), out)
	}
	MOVQ(paramMem("panel"), p)
	MOVQ(paramMem("groups"), groups)
	x := newRowPtrsEach(first, xStride, rows, 1)
	moveTile(acc, paramMem("accStride"), tile, true)
	part := func(disp int) (v [blocks]reg.VecVirtual) {
		for b := range v {
			v[b] = ZMM()
			VMOVDQU64(Mem{Base: p, Disp: b*panelGroupBytes + disp}, v[b])
		}
		return v
	}

	Label("groups")
	for _, base := range x.base {
		PREFETCHT0(Mem{Base: base, Index: next, Scale: 1}) // the rows after these, which may have left the cache since the tile before
	}
	line := 0
	var products [][]reg.VecVirtual
	for i, run := range f.parts {
		sums := newTile(rows, blocks)
		for r, row := range sums {
			for _, z := range row {
				x.start(r, run.off, z)
			}
		}
		for range run.lines {
			w := part(64 * line)
			for r, row := range sums {
				for b, z := range row {
					vpdpbusd(x.at(r, 4*line), w[b], z)
				}
			}
			line++
		}
		for b, dw := range part(run.scale) {
			if i > 0 {
				for r, row := range sums {
					VCVTDQ2PS(row[b], row[b])
					VFMADD231PS(dw, row[b], products[r][b])
				}
				continue
			}
			scaled := times(dw)
			for r, row := range sums {
				scaled(r, row[b])
			}
			products = sums
		}
	}
	for r, row := range products {
		for b, z := range row {
			VFMADD231PS_BCST(x.at(r, groupScale), z, tile[r][b])
		}
	}
	if f.minimum {
		mw := part(panelMinimum)
		for r, row := range tile {
			sum := ZMM()
			VBROADCASTSS(x.at(r, groupSum), sum)
			for b, z := range row {
				VFMADD231PS(mw[b], sum, z)
			}
		}
	}
	x.advance(groupBytes)
	ADDQ(I32(blocks*panelGroupBytes), p)
	DECQ(groups)
	JNE(LabelRef("groups"))
	CMPB(paramMem("add"), Imm(0))
	JE(LabelRef("store"))
	old := GP64()
	MOVQ(paramMem("out"), old)
	for r, row := range tile {
		if r > 0 {
			ADDQ(paramMem("outStride"), old)
		}
		for b, z := range row {
			v := ZMM()
			VMOVUPS(Mem{Base: old, Disp: 64 * b}, v)
			VADDPS(z, v, z)
		}
	}
	Label("store")
	moveTile(paramMem("out"), paramMem("outStride"), tile, false)
	ADDQ(next, first)
	for range rows {
		ADDQ(paramMem("accStride"), acc)
	}
	MOVQ(paramMem("outStride"), out)
	IMUL3Q(U8(rows), out, out)
	ADDQ(out, paramMem("out"))
	DECQ(paramMem("times"))
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// expandKernel brings groups of one block of a weight in the form of a panel, in which
// they lie two groups apart.
func expandKernel(f format) {
	name := "avx512Expand" + f.name
	kernel(name, NOSPLIT, "func(dst *byte, data *byte, scale *uint16, groups int)")
	Doc(name + " expands groups of one block to a panel.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	var mask, offset reg.VecVirtual
	if f.bits == 4 {
		mask = nibbleMask()
	}
	if f.bits == 4 && !f.minimum {
		offset = broadcast(0x78787878) // 128, less the 8 of Q4_0
	}
	Label("groups")
	line := func(v reg.VecVirtual, c int) {
		if f.bits == 4 {
			VPANDD(mask, v, v)
		}
		if offset != nil {
			VPADDB(offset, v, v)
		}
		VMOVDQU64(v, Mem{Base: dst, Disp: 64 * c})
	}
	for c := range f.lines() {
		v, hi := ZMM(), ZMM()
		VMOVDQU64(Mem{Base: data, Disp: 64 * c}, v)
		PREFETCHT0(Mem{Base: data, Disp: 64*c + prefetchAhead})
		if f.bits == 4 {
			VPSRLW(U8(4), v, hi)
			line(hi, c+4)
		}
		line(v, c)
	}
	widen := func(from, to int) {
		z := ZMM()
		VCVTPH2PS(Mem{Base: scale, Disp: from}, z)
		VMOVUPS(z, Mem{Base: dst, Disp: to})
	}
	widen(0, panelScale)
	if f.minimum {
		widen(32, panelMinimum)
	}
	ADDQ(I32(2*panelGroupBytes), dst)
	ADDQ(I32(64*f.lines()), data)
	ADDQ(I32(f.scaleBytes()), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
}

// widenKernel turns 16-bit floats of any layout into float32.
func widenKernel(f floatFormat) {
	name := "avx512Widen" + f.name
	kernel(name, NOSPLIT, "func(dst *float32, src "+f.typ+", n int)")
	Doc(name + " widens n times 16 values.")
	Pragma("noescape")
	dst, src, n := param("dst"), param("src"), param("n")
	Label("values")
	z := ZMM()
	PREFETCHT0(Mem{Base: src, Disp: floatAhead})
	f.load(Mem{Base: src}, z)
	VMOVUPS(z, Mem{Base: dst})
	ADDQ(I32(f.bytes), src)
	ADDQ(I32(64), dst)
	DECQ(n)
	JNE(LabelRef("values"))
	VZEROUPPER()
	RET()
}
