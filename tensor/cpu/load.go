package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// rowPad is what the number of rows is padded to: kernels take up to four blocks at once.
const rowPad = 4 * lanes

// weight is a matrix in the repacked layout (package doc).
type weight struct {
	dtype      tensor.DType
	rows, cols int
	blocks     int // of 16 rows, padding included
	layout     layout
	form       rowForm // of rows that meet it under [tensor.Act8]

	// The values, and views of them. Each layout has its own way to look at them.
	data []byte
	f32  []float32
	half []uint16
	// The scales, and views of them.
	scales  []byte
	scale   []uint16
	scale32 []float32 // of INT8 [blocks][16], of NF4 [blocks][groups of 64][16]
	slab    *slab     // keeps the memory alive

	forecast *forecast // of products that begin with it
}

func (w *weight) Rows() int           { return w.rows }
func (w *weight) Cols() int           { return w.cols }
func (w *weight) DType() tensor.DType { return w.dtype }
func (w *weight) Bytes() int64        { return int64(len(w.data) + len(w.scales)) }

// Load repacks m, on all threads.
func (d *Device) Load(m tensor.Matrix) (tensor.Weight, error) {
	if err := quant.Check(m); err != nil {
		return nil, fmt.Errorf("cpu device: load %w", err)
	}
	w := &weight{
		dtype: m.DType, rows: m.Rows, cols: m.Cols,
		blocks: (m.Rows + rowPad - 1) / rowPad * rowPad / lanes,
		layout: layouts[m.DType],
		form:   formOf(m.DType),
	}
	d.begin()
	defer d.end()
	if err := w.allocate(d); err != nil {
		return nil, fmt.Errorf("cpu device: load %v matrix %dx%d: %w", m.DType, m.Rows, m.Cols, err)
	}
	d.pool.Run(&repackOp{w, m}, w.blocks)
	return w, nil
}

// allocate takes the memory and points the views into it.
func (w *weight) allocate(d *Device) error {
	values, scales := w.layout.size(w.cols)
	values, scales = values*w.blocks, scales*w.blocks
	s, mem, err := d.carve(values + scales)
	if err != nil {
		return err
	}
	w.slab, w.data, w.scales = s, mem[:values:values], mem[values:]
	w.f32, w.half = view[float32](w.data), view[uint16](w.data)
	w.scale, w.scale32 = view[uint16](w.scales), view[float32](w.scales)
	return nil
}

// view is memory as numbers.
func view[T any](mem []byte) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(one)))
}

// repackOp fills a weight; tile b is block b.
type repackOp struct {
	w *weight
	m tensor.Matrix
}

func (op *repackOp) Tile(_, b int) {
	w := op.w
	rowBytes, _ := quant.RowBytes(w.dtype, w.cols)
	for j := range min(lanes, w.rows-b*lanes) {
		w.layout.repack(w, op.m.Data[(b*lanes+j)*rowBytes:][:rowBytes], b, j)
	}
	runtime.KeepAlive(w)
}
