package ref

import (
	"fmt"
	"sync"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// Device computes with plain loops.
type Device struct{ mu sync.Mutex }

// New makes the oracle.
func New() *Device { return &Device{} }

// Info names it.
func (d *Device) Info() tensor.Info {
	return tensor.Info{Name: "ref", Tier: "ref", Arithmetic: "ref", Threads: 1}
}

// weight is a matrix dequantised to float32, and as stored: quantised products need to
// know that it was quantised.
type weight struct {
	rows, cols int
	dtype      tensor.DType
	values     []float32 // [rows][cols]
}

func (w *weight) Rows() int           { return w.rows }
func (w *weight) Cols() int           { return w.cols }
func (w *weight) DType() tensor.DType { return w.dtype }
func (w *weight) Bytes() int64        { return int64(len(w.values)) * 4 }
func (w *weight) row(i int) []float32 { return w.values[i*w.cols : (i+1)*w.cols] }

type vector []float32

func (v vector) Len() int { return len(v) }

type buffer struct {
	rows, cols int
	values     []float32
}

func (b *buffer) Rows() int           { return b.rows }
func (b *buffer) Cols() int           { return b.cols }
func (b *buffer) row(i int) []float32 { return b.values[i*b.cols : (i+1)*b.cols] }

// act is prepared rows: as they were, and as 8-bit integers with a scale per group.
type act struct {
	cols, n int
	mode    tensor.Activations
	values  []float32
	rounded []float32 // values after 8-bit quantisation, scale applied
}

func (a *act) Cols() int { return a.cols }

// Load dequantises a matrix.
func (d *Device) Load(m tensor.Matrix) (tensor.Weight, error) {
	if err := quant.Check(m); err != nil {
		return nil, err
	}
	f, _ := quant.Of(m.DType)
	w := &weight{rows: m.Rows, cols: m.Cols, dtype: m.DType, values: make([]float32, m.Rows*m.Cols)}
	f.Unpack(w.values, m.Data)
	return w, nil
}

// LoadVector copies.
func (d *Device) LoadVector(v []float32) (tensor.Vector, error) {
	return vector(append([]float32(nil), v...)), nil
}

// NewBuffer makes zeroed rows.
func (d *Device) NewBuffer(rows, cols int) (tensor.Buffer, error) {
	if rows < 1 || cols < 1 {
		return nil, fmt.Errorf("buffer of %dx%d", rows, cols)
	}
	return &buffer{rows, cols, make([]float32, rows*cols)}, nil
}

// NewAct makes room for prepared rows.
func (d *Device) NewAct(rows, cols int) (tensor.Act, error) {
	if rows < 1 || cols < 1 {
		return nil, fmt.Errorf("act of %dx%d", rows, cols)
	}
	return &act{cols: cols, values: make([]float32, rows*cols), rounded: make([]float32, rows*cols)}, nil
}

// Upload copies whole rows in.
func (d *Device) Upload(dst tensor.Buffer, row int, src []float32) {
	b := dst.(*buffer)
	copy(b.values[row*b.cols:], src)
}

// Download copies whole rows out.
func (d *Device) Download(dst []float32, src tensor.Buffer, row int) {
	b := src.(*buffer)
	copy(dst, b.values[row*b.cols:])
}

// Embed copies rows of the table.
func (d *Device) Embed(dst tensor.Buffer, table tensor.Weight, ids []int32) {
	for i, id := range ids {
		copy(dst.(*buffer).row(i), table.(*weight).row(int(id)))
	}
}

// Gather copies rows.
func (d *Device) Gather(dst, src tensor.Buffer, rows []int32) {
	for i, r := range rows {
		copy(dst.(*buffer).row(i), src.(*buffer).row(int(r)))
	}
}

// Sync has nothing to wait for.
func (d *Device) Sync() error { return nil }

// Close has nothing to free.
func (d *Device) Close() error { return nil }
