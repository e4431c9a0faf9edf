package cpu

import (
	"runtime"

	"whorl/tensor"
	"whorl/tensor/quant"
)

var _ tensor.Backward = (*Device)(nil)

const (
	// backRows is how many rows of a weight a transposed panel has at most.
	backRows = 128
	// backCols is how many of its columns at most, a whole number of every format's groups, and
	// leastBackCols how many at least.
	backCols, leastBackCols = 256, 64
	// backPanel is how many rows of gradients a tile covers at most. A panel is made once for
	// each such run, so that more rows hide what it costs.
	backPanel = 256
)

// backOp is the task of MatMulBack. A tile is a run of columns of the weight for a run of
// rows of gradients; it walks all rows of the weight in order.
type backOp struct {
	d       *Device
	w       *weight
	dst, dy *buffer
	n       int
	add     bool
	cols    int // of a tile
	panels  int // of rows
}

// backScratch is one thread's part.
type backScratch struct {
	block []float32 // [backCols][16 rows]: a block of the weight, dequantised
	panel []float32 // [backCols/16][backRows][16 columns]: the same transposed
	acc   []float32 // [backPanel][backCols]
}

// MatMulBack multiplies gradients by transposed weights. No transposed copy of the weights
// is held: panels of them are dequantised and turned as they are needed.
func (d *Device) MatMulBack(dst, dy tensor.Buffer, n int, w tensor.Weight, add bool) {
	d.begin()
	defer d.end()
	d.matMulBack(dst.(*buffer), dy.(*buffer), n, w.(*weight), add)
}

func (d *Device) matMulBack(dst, dy *buffer, n int, w *weight, add bool) {
	if !(dy.cols == w.rows && dst.cols == w.cols && n <= dy.rows && n <= dst.rows) {
		bug("transposed product of %dx%d: %d rows of %dx%d into %dx%d", w.rows, w.cols, n, dy.rows, dy.cols, dst.rows, dst.cols)
	}
	if n == 0 {
		return
	}
	op := &backOp{d: d, w: w, dst: dst, dy: dy, n: n, add: add}
	op.panels = (n + backPanel - 1) / backPanel
	d.pool.Run(op, op.cut(d.pool.Threads()))
	runtime.KeepAlive(w)
}

// cut chooses how many columns a tile has, so that threads end at about the same time also where a weight
// has few of them, and gives the number of tiles.
func (op *backOp) cut(threads int) (tiles int) {
	step := 2 * lanes // whole pairs of blocks, and of a format's groups
	if f, ok := quant.Of(op.w.dtype); ok {
		step = max(step, f.Group)
	}
	least := 0 // columns of the thread that has the most
	for cols := backCols; cols >= max(step, leastBackCols); cols -= step {
		n := op.panels * ((op.w.cols + cols - 1) / cols)
		if load := (n + threads - 1) / threads * cols; tiles == 0 || load < least {
			op.cols, tiles, least = cols, n, load
		}
	}
	return tiles
}

func (op *backOp) Tile(worker, i int) {
	s, w := &op.d.scratch[worker].back, op.w
	if s.acc == nil {
		*s = backScratch{
			block: make([]float32, (backCols+3)*lanes),
			panel: make([]float32, backCols*backRows),
			acc:   make([]float32, backPanel*backCols),
		}
	}
	each := (op.n + op.panels - 1) / op.panels
	r0, c := i%op.panels*each, i/op.panels*op.cols
	rows, n := min(each, op.n-r0), min(op.cols, w.cols-c)
	if rows <= 0 {
		return
	}
	blocks := (n + 2*lanes - 1) / (2 * lanes) * 2 // of columns
	stride := blocks * lanes
	acc := s.acc[:rows*stride]
	clear(acc)
	for at := 0; at < w.rows; at += backRows {
		k := min(backRows, w.rows-at)
		for b := range (k + lanes - 1) / lanes {
			w.layout.columns(op.d.k, w, s.block, at/lanes+b, c, n)
			clear(s.block[n*lanes : stride*lanes])
			for j := range blocks {
				op.d.k.turn(s.panel[(j*backRows+b*lanes)*lanes:], lanes, s.block[j*lanes*lanes:], lanes)
			}
		}
		for j := 0; j < blocks; j += 2 {
			op.d.k.f32(acc[j*lanes:], stride, s.panel[j*backRows*lanes:], backRows*lanes, 2, op.dy.data[r0*op.dy.cols+at:], op.dy.cols, rows, k, nil)
		}
	}
	for r := range rows {
		to, sum := op.dst.row(r0 + r)[c:c+n], acc[r*stride:][:n]
		if op.add {
			op.d.k.add(to, to, sum)
		} else {
			copy(to, sum)
		}
	}
}
