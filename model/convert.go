package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"whorl/model/weights"
	"whorl/tensor"
)

// floats widens a float tensor to float32, exactly. The tensor was checked to be one.
func floats(t weights.Tensor) []float32 {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	out := make([]float32, n)
	widen(out, t.DType, t.Data)
	return out
}

// matrixBytes is the size of a matrix in the layout of its type.
func matrixBytes(d tensor.DType, rows, cols int) int64 {
	size := 4
	if d != tensor.F32 {
		size = 2
	}
	return int64(size) * int64(rows) * int64(cols)
}

// convert changes the type of a matrix; its data is a copy then.
func convert(m tensor.Matrix, to tensor.DType) (tensor.Matrix, error) {
	if to == m.DType {
		return m, nil
	}
	if to.Quantised() || m.DType.Quantised() {
		return m, fmt.Errorf("conversion of %s to %s is not supported", m.DType, to)
	}
	row := make([]float32, m.Rows*m.Cols)
	widen(row, m.DType, m.Data)
	m.DType, m.Data = to, narrow(row, to)
	return m, nil
}

func widen(dst []float32, d tensor.DType, src []byte) {
	for i := range dst {
		switch d {
		case tensor.F16:
			dst[i] = fromHalf(binary.LittleEndian.Uint16(src[2*i:]))
		case tensor.BF16:
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		default:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
}

func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, int(h>>10&31), uint32(h&1023)
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | frac<<13)
}

// narrow rounds to nearest, ties to even.
func narrow(v []float32, d tensor.DType) []byte {
	var out []byte
	for _, x := range v {
		switch d {
		case tensor.F16:
			out = binary.LittleEndian.AppendUint16(out, toHalf(x))
		case tensor.BF16:
			out = binary.LittleEndian.AppendUint16(out, toBF16(x))
		default:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}

func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func toHalf(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	a := math.Abs(float64(x))
	switch {
	case x != x:
		return sign | 0x7e00
	case a >= 65520:
		return sign | 0x7c00
	case a < 1.0/(1<<14):
		return sign | uint16(math.RoundToEven(a*(1<<24)))
	}
	frac, exp := math.Frexp(a) // a = frac * 2^exp, frac in [0.5, 1)
	m := math.RoundToEven(frac * 2048)
	return sign | uint16(int(m)+(exp+13)<<10)
}

// round rounds in place to what d can hold.
func round(v []float32, d tensor.DType) { widen(v, d, narrow(v, d)) }
