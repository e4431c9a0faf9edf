package cpu

import "whorl/tensor"

// Where weights meet many rows, a panel of them, two blocks over a run of columns, is
// brought once into the form that costs least to multiply with, and stays in the
// first-level cache while all rows of a tile pass. A run of columns continues
// the sums that the run before it left, so every sum keeps its order.

const (
	// byteGroups and floatCols are the greatest number of groups (columns) of a panel: it
	// fills two thirds of 48 KiB, and the rows that pass have the rest.
	byteGroups = 24
	floatCols  = 256
)

// panelGroup is a group of a block in a panel of bytes, whatever the format. The layout is
// known to the assembly (asm/panel.go).
type panelGroup struct {
	lines   [group * lanes]uint8 // line c: columns 4c..4c+3 of each lane; for offsets see panelForm
	scale   [lanes]float32
	minimum [lanes]float32 // of formats with one
}

// panelForm says what a panelGroup holds.
type panelForm uint8

const (
	plainPanel   panelForm = iota // value+128, one scale
	minimumPanel                  // value, and a minimum too
	halfPanel                     // value+32, and for minimum the scale of columns from 16 on
)

// panelForm is the form of the panels of a quantised layout.
func (l layout) panelForm() panelForm {
	switch l.kind {
	case tensor.Q4_1, tensor.Q4_K, tensor.Q5_K:
		return minimumPanel
	case tensor.Q6_K:
		return halfPanel
	}
	return plainPanel
}

// panelArgs describes a product of two blocks with quantised rows: for every row r, block b
// and lane j, the sum acc[r*accStride+b*16+j] continues over the groups of the panel. Then
// it is stored to out[r*outStride+b*16+j], or added to what is there.
type panelArgs struct {
	acc       []float32
	accStride int
	panel     []panelGroup // [group][2]
	form      panelForm
	x         []quantGroup
	xStride   int // groups
	rows      int
	out       []float32 // acc, or memory apart from it
	outStride int
	add       bool
}

// panels are the panels of a thread.
type panels struct {
	bytes  []panelGroup // [group][2]
	args   panelArgs
	floats []float32 // [2][column][16]
	nf4    nf4PanelArgs
}

func newPanels() panels {
	return panels{bytes: make([]panelGroup, 2*byteGroups), floats: make([]float32, 2*floatCols*lanes)}
}

// equalParts cuts n in as few parts of at most most as there can be, and gives their
// greatest length: 13 in parts of 12 are 7 and 6, not 12 and 1.
func equalParts(n, most int) int {
	parts := (n + most - 1) / most
	return (n + parts - 1) / parts
}

// equalRuns is equalParts for groups of a row, which super-blocks hold together.
func (l layout) equalRuns(groups, most int) int {
	if l.super {
		return equalParts(groups/superGroups, most/superGroups) * superGroups
	}
	return equalParts(groups, most)
}

// multiplyBytes continues the quantised product of blocks [b0, b0+nb) with rows
// [r0, r0+rows). The sums stay in acc unless they go to a buffer.
func (op *productOp) multiplyBytes(p *panels, acc []float32, w *weight, b0, nb, r0, rows int, to outcome) {
	k, groups, stride := op.d.k, w.cols/group, nb*lanes
	step, expand := w.layout.equalRuns(groups, byteGroups), k.expander(w.layout.kind)
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		panel := p.bytes[:2*n]
		for b := 0; b < nb; b += 2 {
			for i := range 2 {
				data, scale := w.groupsOf(b0+b+i, g)
				expand(panel[i:], data, scale, n)
			}
			p.args = panelArgs{
				acc: acc[b*lanes:], accStride: stride, panel: panel, form: w.layout.panelForm(),
				x: op.a.eight[r0*groups+g:], xStride: groups, rows: rows,
				out: acc[b*lanes:], outStride: stride,
			}
			if g+n == groups && to.dst != nil {
				p.args.out, p.args.outStride, p.args.add = to.dst.data[r0*to.dst.cols+(b0+b)*lanes:], to.dst.cols, to.add
			}
			k.bytePanel(&p.args)
		}
	}
}

// expander gives the kernel that brings groups of a format in the form of a panel of bytes:
// n groups of one block to every other group of dst. Nil if there is none.
func (k *kernels) expander(t tensor.DType) func(dst []panelGroup, data []byte, scale []uint16, n int) {
	switch t {
	case tensor.Q8_0:
		return k.expandQ8_0
	case tensor.Q4_0:
		return k.expandQ4_0
	case tensor.Q4_1:
		return k.expandQ4_1
	}
	if f := k.high.of(t); f != nil {
		return f.expand
	}
	return nil
}

// groupsOf are the lines and scales of a quantised block from group g on.
func (w *weight) groupsOf(b, g int) (data []byte, scale []uint16) {
	at := b*w.cols/group + g
	return w.data[at*w.layout.lineBytes:], w.scale[at*w.layout.scales:]
}

// multiplyFloats continues the float product of blocks [b0, b0+nb), of weights of any
// format but F32, which needs no panel, and NF4, with rows [r0, r0+rows).
func (op *productOp) multiplyFloats(p *panels, acc []float32, w *weight, b0, nb, r0, rows int) {
	a, stride := op.a, nb*lanes
	step := w.layout.equalRuns((w.cols+group-1)/group, floatCols/group) * group
	for c := 0; c < w.cols; c += step {
		n := min(step, w.cols-c)
		for b := 0; b < nb; b += 2 {
			apart := op.d.k.floatPanel(p.floats, w, b0+b, c, n)
			op.d.k.f32(acc[b*lanes:], stride, p.floats, apart, 2, a.x[r0*a.cols+c:], a.cols, rows, n)
		}
	}
}

// floatPanel fills a panel with n columns of blocks b and b+1, from column c on, and tells
// how far apart the blocks are.
func (k *kernels) floatPanel(panel []float32, w *weight, b, c, n int) (stride int) {
	stride = n * lanes
	if w.layout.kind == tensor.INT8 { // unpacked 4 columns at a time
		stride = (n + 3) &^ 3 * lanes
	}
	for i := range 2 {
		dst := panel[i*stride : (i+1)*stride]
		switch at := ((b+i)*w.cols + c) * lanes; w.layout.kind {
		case tensor.INT8:
			block := (b + i) * paddedINT8(w.cols)
			k.unpackINT8(dst, w.data[(block+c)*lanes:], w.scale32[(b+i)*lanes:][:lanes], stride/lanes)
		case tensor.F16:
			k.widenF16(dst, w.half[at:])
		case tensor.BF16:
			k.widenBF16(dst, w.half[at:])
		default:
			k.unpack(dst, w, b+i, c/group, n/group)
		}
	}
	return stride
}

// unpack dequantises n groups of block b from group g on.
func (k *kernels) unpack(dst []float32, w *weight, b, g, n int) {
	data, scale := w.groupsOf(b, g)
	switch w.layout.kind {
	case tensor.Q8_0:
		k.unpackQ8_0(dst, data, scale, n)
	case tensor.Q4_0:
		k.unpackQ4_0(dst, data, scale, n)
	case tensor.Q4_1:
		k.unpackQ4_1(dst, data, scale, n)
	default:
		k.high.of(w.layout.kind).unpack(dst, data, scale, n)
	}
}
