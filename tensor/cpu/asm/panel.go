package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxPanelRows is the greatest number of activation rows of a panel kernel: for each of
// two blocks a row holds a sum of integers and one of floats, in 24 of the 32 registers.
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
}

type panelPart struct {
	lines int // of them
	off   int // where a group of activations keeps what undoes the offset
	scale int
}

var panelForms = []panelForm{
	{"Panel", []panelPart{{8, groupOff8, panelScale}}, false},
	{"PanelMinimum", []panelPart{{8, groupOff8, panelScale}}, true},
	{"PanelHalves", []panelPart{{4, groupOff32, panelScale}, {4, groupOff32 + 4, panelMinimum}}, false},
}

// panelKernel continues quantised products of a number of rows with two blocks of an
// expanded panel. A broadcast of activations serves both blocks, which leaves the loads
// far below the arithmetic: per row, block and group 8 dot products and 3 or 4 more.
func panelKernel(f panelForm, rows int) {
	const blocks = 2
	name := fmt.Sprintf("avx512%sx%d", f.name, rows)
	TEXT(name, NOSPLIT, "func(acc *float32, accStride uintptr, panel *byte, x *byte, xStride uintptr, groups, times int)")
	Doc(fmt.Sprintf("%s continues the products of so many times %d rows with a panel; strides are in bytes.", name, rows))
	Pragma("noescape")
	acc, p, first, xStride, groups := param("acc"), GP64(), param("x"), param("xStride"), GP64()
	tile := newTile(rows, blocks)
	Label("rows")
	MOVQ(paramMem("panel"), p)
	MOVQ(paramMem("groups"), groups)
	x := newRowPtrs(first, xStride, 2*rows)
	moveTile(acc, paramMem("accStride"), tile, true)
	part := func(b, disp int) Mem { return Mem{Base: p, Disp: b*panelGroupBytes + disp} }

	Label("groups")
	for r := range rows {
		PREFETCHT0(x.at(rows+r, 0)) // the rows after these, which may have left the cache since the tile before
	}
	line := 0
	for _, run := range f.parts {
		sums := newTile(rows, blocks)
		for r := range rows {
			for b := range blocks {
				VPBROADCASTD(x.at(r, run.off), sums[r][b])
			}
		}
		for range run.lines {
			var w [blocks]reg.VecVirtual
			for b := range w {
				w[b] = ZMM()
				VMOVDQU64(part(b, 64*line), w[b])
			}
			for r := range rows {
				v := ZMM()
				VPBROADCASTD(x.at(r, 4*line), v)
				for b := range w {
					vpdpbusdReg(v, w[b], sums[r][b])
				}
			}
			line++
		}
		for b := range blocks {
			dw := ZMM()
			VMOVUPS(part(b, run.scale), dw)
			for r := range rows {
				d := ZMM()
				VMULPS_BCST(x.at(r, groupScale), dw, d)
				VCVTDQ2PS(sums[r][b], sums[r][b])
				VFMADD231PS(d, sums[r][b], tile[r][b])
			}
		}
	}
	if f.minimum {
		for b := range blocks {
			mw := ZMM()
			VMOVUPS(part(b, panelMinimum), mw)
			for r := range rows {
				VFMADD231PS_BCST(x.at(r, groupSum), mw, tile[r][b])
			}
		}
	}
	x.advance(groupBytes)
	ADDQ(I32(blocks*panelGroupBytes), p)
	DECQ(groups)
	JNE(LabelRef("groups"))
	moveTile(acc, paramMem("accStride"), tile, false)
	for range rows {
		ADDQ(xStride, first)
		ADDQ(paramMem("accStride"), acc)
	}
	DECQ(paramMem("times"))
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// expandKernel brings groups of one block of a weight in the form of a panel, in which
// they lie two groups apart.
func expandKernel(f quantFormat) {
	name := "avx512Expand" + f.name
	TEXT(name, NOSPLIT, "func(dst *byte, data *byte, scale *uint16, groups int)")
	Doc(name + " expands groups of one block to a panel.")
	Pragma("noescape")
	dst, data, scale, groups := param("dst"), param("data"), param("scale"), param("groups")
	var mask, offset reg.VecVirtual
	if f.nibbles {
		mask = nibbleMask()
		offset = broadcast(map[bool]uint32{false: 0x78787878, true: 0x80808080}[f.minimum]) // 128, less 8 for Q4_0
	}
	Label("groups")
	line := func(v reg.VecVirtual, c int) {
		if f.nibbles {
			VPANDD(mask, v, v)
			VPADDB(offset, v, v)
		}
		VMOVDQU64(v, Mem{Base: dst, Disp: 64 * c})
	}
	for c := range f.lines {
		v, hi := ZMM(), ZMM()
		VMOVDQU64(Mem{Base: data, Disp: 64 * c}, v)
		PREFETCHT0(Mem{Base: data, Disp: 64*c + prefetchAhead})
		if f.nibbles {
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
	ADDQ(I32(64*f.lines), data)
	ADDQ(I32(f.scaleBytes()), scale)
	DECQ(groups)
	JNE(LabelRef("groups"))
	VZEROUPPER()
	RET()
}

// widenKernel turns 16-bit floats of any layout into float32.
func widenKernel(f floatFormat) {
	name := "avx512Widen" + f.name
	TEXT(name, NOSPLIT, "func(dst *float32, src "+f.typ+", n int)")
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
