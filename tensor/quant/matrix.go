package quant

import (
	"fmt"

	"whorl/tensor"
)

// PackMatrix packs a matrix row by row: row(i) gives the values of row i, which are read
// before the next call. The error names a format that is only read or does not fit.
func PackMatrix(d tensor.DType, rows, cols int, row func(i int) []float32) (tensor.Matrix, error) {
	size, err := RowBytes(d, cols)
	if err != nil {
		return tensor.Matrix{}, err
	}
	f, _ := Of(d)
	if f.Pack == nil {
		return tensor.Matrix{}, fmt.Errorf("%v is only read, not written", d)
	}
	data := make([]byte, rows*size)
	for i := range rows {
		f.Pack(data[i*size:(i+1)*size], row(i))
	}
	if f.Finish != nil {
		f.Finish(data)
	}
	return tensor.Matrix{DType: d, Rows: rows, Cols: cols, Data: data}, nil
}

// UnpackRow writes the values of row i of a checked matrix; len(dst) is m.Cols.
func UnpackRow(dst []float32, m tensor.Matrix, i int) {
	f, _ := Of(m.DType)
	size := f.Head + m.Cols/f.Group*f.Bytes
	f.Unpack(dst, m.Data[i*size:(i+1)*size])
}
