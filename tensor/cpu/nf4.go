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

// repackNF4 moves a row: the scales of its groups, and each 8 codes to the lane's 32 bits of
// a line, column i of the 8 in bits 4i to 4i+3.
func (w *weight) repackNF4(row []byte, b, j int) {
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

func (w *weight) dequantiseNF4(dst []float32, b, j int) {
	groups := w.cols / nf4Group
	for i := range dst {
		g := b*groups + i/nf4Group
		dst[i] = quant.NF4Levels[codeNF4(w.data[g*nf4Lines*4*lanes:], i%nf4Group, j)] * w.scale32[g*lanes+j]
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

// multiplyNF4 continues the products of blocks [b0, b0+nb) with rows [r0, r0+rows), a few.
func (op *productOp) multiplyNF4(args *nf4Args, acc []float32, w *weight, b0, nb, r0, rows int) {
	a, groups := op.a, w.cols/nf4Group
	*args = nf4Args{
		acc: acc, accStride: nb * lanes,
		data:  w.data[b0*groups*nf4Lines*4*lanes:][:nb*groups*nf4Lines*4*lanes],
		scale: w.scale32[b0*groups*lanes:][:nb*groups*lanes], blocks: nb,
		x: a.x[r0*a.cols:], xStride: a.cols, rows: rows, groups: groups,
	}
	op.d.k.nf4(args)
}

// multiplyNF4Panels does the same for many rows.
func (op *productOp) multiplyNF4Panels(p *panels, acc []float32, w *weight, b0, nb, r0, rows int) {
	a, k, groups := op.a, op.d.k, w.cols/nf4Group
	step := equalParts(groups, floatCols/nf4Group)
	for g := 0; g < groups; g += step {
		n := min(step, groups-g)
		for b := 0; b < nb; b += 2 {
			for i := range 2 {
				lines := ((b0+b+i)*groups + g) * nf4Lines
				k.unpackNF4(p.floats[i*n*nf4Group*lanes:][:n*nf4Group*lanes], w.data[lines*4*lanes:], n*nf4Lines)
			}
			p.nf4 = nf4PanelArgs{
				acc: acc[b*lanes:], accStride: nb * lanes,
				panel: p.floats, scale: w.scale32[((b0+b)*groups+g)*lanes:], scaleStride: groups * lanes,
				x: a.x[r0*a.cols+g*nf4Group:], xStride: a.cols, rows: rows, groups: n,
			}
			k.nf4Panel(&p.nf4)
		}
	}
}
