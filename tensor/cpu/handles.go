package cpu

import (
	"fmt"

	"whorl/tensor"
)

type vector []float32

func (v vector) Len() int { return len(v) }

// floatsOf is the data of an optional vector.
func floatsOf(v tensor.Vector) []float32 {
	if v == nil {
		return nil
	}
	return v.(vector)
}

type buffer struct {
	rows, cols int
	data       []float32 // [rows][cols]
}

func (b *buffer) Rows() int { return b.rows }
func (b *buffer) Cols() int { return b.cols }

// row is row i without room to grow.
func (b *buffer) row(i int) []float32 {
	return b.data[i*b.cols : (i+1)*b.cols : (i+1)*b.cols]
}

// act holds prepared rows. A form in 8 bits is filled by the first product that needs it,
// and from then on with the rows.
type act struct {
	maxRows, cols int
	n             int // rows prepared
	mode          tensor.Activations
	quantised     rowForm // which forms hold the n rows
	asked         rowForm // which forms products asked for, ever

	x     []float32    // [rows][cols], those of the buffer
	eight []quantGroup // [rows][cols/32], where cols allows
	int8  int8Rows     // no room before the first product that needs it
}

func (a *act) Cols() int { return a.cols }

// maxFloats bounds a buffer: 2^40 bytes.
const maxFloats = 1 << 38

// LoadVector copies v.
func (d *Device) LoadVector(v []float32) (tensor.Vector, error) {
	if len(v) == 0 {
		return nil, fmt.Errorf("cpu device: load an empty vector")
	}
	return vector(append([]float32(nil), v...)), nil
}

// NewBuffer makes zeroed workspace.
func (d *Device) NewBuffer(rows, cols int) (tensor.Buffer, error) {
	if err := checkShape("buffer", rows, cols); err != nil {
		return nil, err
	}
	return &buffer{rows: rows, cols: cols, data: make([]float32, rows*cols)}, nil
}

// NewAct makes room for rows in all forms.
func (d *Device) NewAct(rows, cols int) (tensor.Act, error) {
	if err := checkShape("activations", rows, cols); err != nil {
		return nil, err
	}
	a := &act{maxRows: rows, cols: cols}
	if cols%group == 0 {
		a.eight = make([]quantGroup, rows*cols/group)
	}
	return a, nil
}

func checkShape(what string, rows, cols int) error {
	if rows <= 0 || cols <= 0 || rows > maxFloats/cols {
		return fmt.Errorf("cpu device: %s of %dx%d: both must be positive and the product below 2^38", what, rows, cols)
	}
	return nil
}
