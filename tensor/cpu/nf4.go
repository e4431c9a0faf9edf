package cpu

import (
	"encoding/binary"
	"math"

	"whorl/tensor/quant"
)

const (
	// nf4Group is the number of columns that share a scale.
	nf4Group = 64
	// nf4Lines is how many lines of 8 columns they fill.
	nf4Lines = nf4Group / 8
	// maxNF4Rows is how many rows a kernel multiplies with coded weights at once. Where
	// more meet them, decoding a panel of weights first costs less.
	maxNF4Rows = 8
)

// nf4Args describes a product of blocks of NF4 weights with float rows: for every row r,
// block b and lane j, acc[r*accStride+b*16+j] continues over the groups. The number of
// blocks is even.
type nf4Args struct {
	acc       []float32
	accStride int
	data      []byte    // lines of the blocks, which follow each other
	scale     []float32 // [blocks][groups of 64][16]
	blocks    int
	x         []float32 // [rows][xStride]
	xStride   int
	rows      int
	groups    int
}

// levelLayout is the layout of NF4.
type levelLayout struct{}

func (levelLayout) size(cols int) (values, scales int) {
	return lanes * cols / 2, 4 * lanes * cols / nf4Group
}

// repack moves a row: the scales of its groups, and each 8 codes to the lane's 32 bits of
// a line, column i of the 8 in bits 4i to 4i+3.
func (levelLayout) repack(w *weight, row []byte, b, j int) {
	groups := w.cols / nf4Group
	for g := range groups {
		src := row[g*(4+nf4Group/2):][:4+nf4Group/2]
		w.scale32[(b*groups+g)*lanes+j] = math.Float32frombits(binary.LittleEndian.Uint32(src))
		out := w.data[(b*groups+g)*nf4Lines*4*lanes+4*j:]
		for i := range nf4Lines {
			v := binary.LittleEndian.Uint32(src[4+4*i:])
			v = v&0x0f0f0f0f<<4 | v>>4&0x0f0f0f0f // a file's first column is in the high nibble
			binary.LittleEndian.PutUint32(out[i*4*lanes:], v)
		}
	}
}

// codeNF4 is column i, lane j of lines.
func codeNF4(lines []byte, i, j int) byte {
	return lines[i/8*4*lanes+4*j+i%8/2] >> (i % 2 * 4) & 15
}

func (levelLayout) dequantise(w *weight, dst []float32, b, j int) {
	groups := w.cols / nf4Group
	for i := range dst {
		g := b*groups + i/nf4Group
		dst[i] = quant.NF4Levels[codeNF4(w.data[g*nf4Lines*4*lanes:], i%nf4Group, j)] * w.scale32[g*lanes+j]
	}
}

func (levelLayout) columns(k *kernels, w *weight, dst []float32, b, c, n int) {
	first := b*w.cols/nf4Group + c/nf4Group
	k.unpackNF4(dst[:n*lanes], w.data[first*nf4Lines*4*lanes:], n/8)
	for g := range n / nf4Group {
		scale := (*[lanes]float32)(w.scale32[(first+g)*lanes:])
		for i := range nf4Group {
			v := (*[lanes]float32)(dst[(g*nf4Group+i)*lanes:])
			for j, d := range scale {
				v[j] *= d
			}
		}
	}
}

// nf4PanelArgs describes a product of two blocks of a panel of levels with float rows, as
// nf4Args does for blocks as they lie.
type nf4PanelArgs struct {
	acc         []float32
	accStride   int
	panel       []float32 // [2][groups*64][16]: levels
	scale       []float32 // [2][scaleStride], of which [groups][16] count
	scaleStride int
	x           []float32 // [rows][xStride]
	xStride     int
	rows        int
	groups      int
}

func (l levelLayout) multiply(op *productOp, s *scratch, acc []float32, w *weight, p piece) {
	if p.rows > maxNF4Rows {
		l.multiplyPanels(op, &s.panels, acc, w, p)
		return
	}
	a, groups := op.a, w.cols/nf4Group
	b0, nb, r0, rows := p.b0, p.nb, p.r0, p.rows
	s.nf4 = nf4Args{
		acc: acc, accStride: nb * lanes,
		data:  w.data[b0*groups*nf4Lines*4*lanes:][:nb*groups*nf4Lines*4*lanes],
		scale: w.scale32[b0*groups*lanes:][:nb*groups*lanes], blocks: nb,
		x: a.x[r0*a.cols:], xStride: a.cols, rows: rows, groups: groups,
	}
	op.d.k.nf4(&s.nf4)
}

// multiplyPanels does the same for many rows, by way of panels of levels.
func (levelLayout) multiplyPanels(op *productOp, ps *panels, acc []float32, w *weight, p piece) {
	a, k, groups := op.a, op.d.k, w.cols/nf4Group
	b0, nb, r0, rows := p.b0, p.nb, p.r0, p.rows
	step := equalParts(groups, floatCols/nf4Group)
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		for b := 0; b < nb; b += 2 {
			for i := range 2 {
				lines := ((b0+b+i)*groups + g) * nf4Lines
				k.unpackNF4(ps.floats[i*n*nf4Group*lanes:][:n*nf4Group*lanes], w.data[lines*4*lanes:], n*nf4Lines)
			}
			ps.nf4 = nf4PanelArgs{
				acc: acc[b*lanes:], accStride: nb * lanes,
				panel: ps.floats, scale: w.scale32[((b0+b)*groups+g)*lanes:], scaleStride: groups * lanes,
				x: a.x[r0*a.cols+g*nf4Group:], xStride: a.cols, rows: rows, groups: n,
			}
			k.nf4Panel(&ps.nf4)
		}
	}
}
