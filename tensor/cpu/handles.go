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

// act holds prepared rows. The quantised form, where cols allows one, is filled by the
// first product that needs it.
type act struct {
	maxRows, cols int
	n             int // rows prepared
	mode          tensor.Activations
	quantised     bool // the form below holds the n rows

	x          []float32 // [rows][cols]
	q          []int8    // [rows][cols]
	d, dsum    []float32 // [rows][groups]
	off8, off4 []int32
}

func (a *act) Cols() int { return a.cols }

// quantRow is the quantised form of row r.
func (a *act) quantRow(r int) quantRow {
	g := a.cols / group
	return quantRow{
		q: a.q[r*a.cols : (r+1)*a.cols],
		d: a.d[r*g : (r+1)*g], dsum: a.dsum[r*g : (r+1)*g],
		off8: a.off8[r*g : (r+1)*g], off4: a.off4[r*g : (r+1)*g],
	}
}

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
	a := &act{maxRows: rows, cols: cols, x: make([]float32, rows*cols)}
	if cols%group == 0 {
		groups := rows * cols / group
		a.q = make([]int8, rows*cols)
		a.d, a.dsum = make([]float32, groups), make([]float32, groups)
		a.off8, a.off4 = make([]int32, groups), make([]int32, groups)
	}
	return a, nil
}

func checkShape(what string, rows, cols int) error {
	if rows <= 0 || cols <= 0 || rows > maxFloats/cols {
		return fmt.Errorf("cpu device: %s of %dx%d: both must be positive and the product below 2^38", what, rows, cols)
	}
	return nil
}
