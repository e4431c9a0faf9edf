package model

import (
	"fmt"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// floats widens a float matrix to float32, exactly. It was checked to be one.
func floats(m tensor.Matrix) []float32 {
	f, _ := quant.Of(m.DType)
	out := make([]float32, m.Rows*m.Cols)
	f.Unpack(out, m.Data)
	return out
}

// round rounds in place to what the float type d can hold.
func round(v []float32, d tensor.DType) {
	f, _ := quant.Of(d)
	packed := make([]byte, len(v)*f.Bytes)
	f.Pack(packed, v)
	f.Unpack(v, packed)
}

// convert changes the type of a matrix, a float one unless the scheme dequantises, by way of
// the scheme's float type; the data is a copy unless nothing changes. resolve has checked
// that rows are whole groups. Rows go one by one: a matrix of billions of values never
// exists in float32.
func convert(m tensor.Matrix, to tensor.DType, s scheme) (tensor.Matrix, error) {
	if to == m.DType {
		return m, nil
	}
	if m.DType.Quantised() && !s.dequantise {
		return m, fmt.Errorf("stored as %s, which is not converted to %s", m.DType, to)
	}
	row := make([]float32, m.Cols)
	return quant.PackMatrix(to, m.Rows, m.Cols, func(i int) []float32 {
		quant.UnpackRow(row, m, i)
		if s.quantise && !s.keep { // else packing rounds
			round(row, s.float)
		}
		return row
	})
}

// matrixBytes is the size of a matrix in the layout of its type; 0 if it does not fit.
func matrixBytes(d tensor.DType, rows, cols int) int64 {
	row, _ := quant.RowBytes(d, cols)
	return int64(rows) * int64(row)
}
