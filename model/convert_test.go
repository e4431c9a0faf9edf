package model

import (
	"bytes"
	"slices"
	"testing"

	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// pack stores values as a matrix of one type.
func pack(t *testing.T, d tensor.DType, v []float32, cols int) tensor.Matrix {
	t.Helper()
	m, err := quant.PackMatrix(d, len(v)/cols, cols, func(i int) []float32 { return v[i*cols : (i+1)*cols] })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConvert(t *testing.T) {
	v := make([]float32, 6*256)
	for i := range v {
		v[i] = float32(i*i%173-80) / 71
	}
	rounded := slices.Clone(v)
	round(rounded, tensor.BF16)
	f32 := pack(t, tensor.F32, v, 64)
	for _, tt := range []struct {
		name string
		s    scheme
		want tensor.Matrix
	}{
		{"bf16", scheme{float: tensor.BF16}, pack(t, tensor.BF16, v, 64)},
		{"f16", scheme{float: tensor.F16}, pack(t, tensor.F16, v, 64)},
		{"int8", scheme{keep: true, quantise: true, quant: tensor.INT8}, pack(t, tensor.INT8, v, 64)},
		{"nf4 by way of bf16", scheme{float: tensor.BF16, quantise: true, quant: tensor.NF4}, pack(t, tensor.NF4, rounded, 64)},
		{"q8_0", scheme{keep: true, quantise: true, quant: tensor.Q8_0}, pack(t, tensor.Q8_0, v, 64)},
		{"q4_1 by way of bf16", scheme{float: tensor.BF16, quantise: true, quant: tensor.Q4_1}, pack(t, tensor.Q4_1, rounded, 64)},
	} {
		got, err := convert(f32, tt.s.matrix(tensor.F32, nn.Q), tt.s)
		if err != nil || got.DType != tt.want.DType || !bytes.Equal(got.Data, tt.want.Data) {
			t.Errorf("%s: %v, type %s, or other bytes", tt.name, err, got.DType)
		}
		if matrixBytes(got.DType, got.Rows, got.Cols) != int64(len(got.Data)) {
			t.Errorf("%s: matrixBytes is not the size of the data", tt.name)
		}
	}
	wide := tensor.Matrix{DType: tensor.F32, Rows: 6, Cols: 256, Data: f32.Data}
	if got, err := convert(wide, tensor.Q4_K, scheme{keep: true, quantise: true, quant: tensor.Q4_K}); err != nil ||
		!bytes.Equal(got.Data, pack(t, tensor.Q4_K, v, 256).Data) || int64(len(got.Data)) != matrixBytes(tensor.Q4_K, 6, 256) {
		t.Errorf("q4_k: %v, or other bytes", err)
	}
	same, err := convert(f32, tensor.F32, scheme{keep: true})
	if err != nil || &same.Data[0] != &f32.Data[0] {
		t.Error("a conversion to the same type copies")
	}
	q := pack(t, tensor.Q8_0, v, 64)
	if s := (scheme{float: tensor.BF16}); s.matrix(q.DType, noParam) != tensor.Q8_0 {
		t.Error("a quantised matrix of the head is to be converted")
	}
	if _, err := convert(q, tensor.Q4_0, scheme{}); err == nil {
		t.Error("a quantised matrix was quantised again")
	}
}

// Two heads of six rows, in the file as pairs (0,3), (1,4), (2,5).
func TestPairHalves(t *testing.T) {
	in := []byte{0, 0, 3, 3, 1, 1, 4, 4, 2, 2, 5, 5, 10, 10, 13, 13, 11, 11, 14, 14, 12, 12, 15, 15}
	want := []byte{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15}
	if got := pairHalves(in, 12, 6); !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
