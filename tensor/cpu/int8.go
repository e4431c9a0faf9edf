package cpu

import (
	"encoding/binary"
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
)

const (
	// int8Pad is what the columns of INT8 weights and rows are padded to, with zeros.
	int8Pad = 16
	// outlierFloor is the magnitude from which a value of a row is an outlier.
	outlierFloor = 6
	// int8Units is what the product of an integer sum and both magnitudes is multiplied by.
	int8Units = float32(1.0 / (127 * 127))
)

func paddedINT8(cols int) int { return (cols + int8Pad - 1) / int8Pad * int8Pad }

// int8Row is what belongs to a row of activations in 8 bits, beside the bytes themselves.
// The layout is known to the assembly (asm/int8.go).
type int8Row struct {
	amax     float32 // greatest magnitude that is no outlier
	off      int32   // -128 times the sum of the bytes: undoes the unsigned storage of weights
	outliers int32   // how many there are
	_        int32
}

// int8Rows are rows of activations in 8 bits, outliers apart.
type int8Rows struct {
	q       []int8    // [rows][padded columns], outliers and padding 0
	rows    []int8Row // [rows]
	outlier []int32   // [rows][columns]: a row's outlier columns come first, rising
}

// grow makes room for n rows.
func (r *int8Rows) grow(n, cols int) {
	r.q, r.rows, r.outlier = grown(r.q, n*paddedINT8(cols)), grown(r.rows, n), grown(r.outlier, n*cols)
}

// slice is the rows [from, to).
func (r *int8Rows) slice(from, to, cols int) int8Rows {
	p := paddedINT8(cols)
	return int8Rows{r.q[from*p : to*p], r.rows[from:to], r.outlier[from*cols : to*cols]}
}

// int8Args describes a product of blocks of INT8 weights with rows in 8 bits: it sets
// acc[r*accStride+b*16+j] for every row r, block b and lane j. The number of blocks is even.
type int8Args struct {
	acc       []float32
	accStride int
	data      []byte    // lines of the blocks, which follow each other
	scale     []float32 // [blocks][16]
	blocks    int
	q         []int8    // [rows][cols]
	rows      []int8Row // [rows]
	cols      int       // padded
}

// rowLayout is the layout of INT8.
type rowLayout struct{}

func (rowLayout) size(cols int) (values, scales int) { return lanes * paddedINT8(cols), 4 * lanes }

// repack moves a row: its magnitude to the scales, and each 4 bytes to the lane's place in
// a line. The padding becomes zeros.
func (rowLayout) repack(w *weight, row []byte, b, j int) {
	w.scale32[b*lanes+j] = math.Float32frombits(binary.LittleEndian.Uint32(row))
	q := row[4:]
	out := w.data[b*paddedINT8(w.cols)*lanes+4*j:]
	for c := 0; c < len(q); c += 4 {
		v := uint32(0)
		for i, e := range q[c:min(c+4, len(q))] {
			v |= uint32(e) << (8 * i)
		}
		binary.LittleEndian.PutUint32(out[c*lanes:], v^0x80808080) // signed to unsigned by +128
	}
	for c := (len(q) + 3) &^ 3; c < paddedINT8(len(q)); c += 4 {
		binary.LittleEndian.PutUint32(out[c*lanes:], 0x80808080)
	}
}

// valueINT8 is column i, lane j of a block's lines, for the magnitude a of its row.
func valueINT8(lines []byte, i, j int, a float32) float32 {
	q := int(lines[i/4*4*lanes+4*j+i%4]) - 128
	return float32(float32(q)*a) * quant.INT8Unit
}

func (rowLayout) dequantise(w *weight, dst []float32, b, j int) {
	lines, a := w.data[b*paddedINT8(w.cols)*lanes:], w.scale32[b*lanes+j]
	for i := range dst {
		dst[i] = valueINT8(lines, i, j, a)
	}
}

func (l rowLayout) multiply(op *productOp, s *scratch, acc []float32, w *weight, p piece) {
	if op.a.mode == tensor.Act8 {
		l.multiplyEight(op, &s.int8, acc, w, p)
		return
	}
	op.multiplyFloats(&s.panels, acc, w, p)
}

func (rowLayout) columns(k *kernels, w *weight, dst []float32, b, c, n int) {
	k.unpackINT8(dst, w.data[(b*paddedINT8(w.cols)+c)*lanes:], w.scale32[b*lanes:][:lanes], (n+3)&^3)
}

// multiplyEight makes products under [tensor.Act8]: the integer part, then the outliers one
// by one.
func (rowLayout) multiplyEight(op *productOp, args *int8Args, acc []float32, w *weight, p piece) {
	a, k, padded := op.a, op.d.k, paddedINT8(w.cols)
	b0, nb, r0, rows := p.b0, p.nb, p.r0, p.rows
	block, stride := padded*lanes, nb*lanes
	*args = int8Args{
		acc: acc, accStride: stride,
		data: w.data[b0*block : (b0+nb)*block], scale: w.scale32[b0*lanes : (b0+nb)*lanes], blocks: nb,
		q: a.int8.q[r0*padded : (r0+rows)*padded], rows: a.int8.rows[r0 : r0+rows], cols: padded,
	}
	k.int8(args)
	for r := range rows {
		n := int(a.int8.rows[r0+r].outliers)
		if n == 0 {
			continue
		}
		x, cols := a.x[(r0+r)*a.cols:(r0+r+1)*a.cols], a.int8.outlier[(r0+r)*a.cols:][:n]
		for b := range nb {
			k.int8Outliers(acc[r*stride+b*lanes:][:lanes], args.data[b*block:], args.scale[b*lanes:], x, cols)
		}
	}
}
