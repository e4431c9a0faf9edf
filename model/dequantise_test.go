package model_test

import (
	"math"
	"strings"
	"testing"

	"whorl/model"
	"whorl/tensor"
)

// A file of quantised weights taken as floats computes what its weights give with float
// activations, and can be had in the formats that a float checkpoint can be had in.
func TestDequantise(t *testing.T) {
	const path = "testdata/quants/model.gguf"
	dev := openDevice(t, 2)
	run := func(o model.LoadOptions, mode tensor.Activations) []float32 {
		r := newRig(t, path, dev, o)
		p := ids(20, 1)
		return r.logits(mode, r.hidden(mode, nil, part{r.sequence(len(p)), p}))
	}
	stored := run(model.LoadOptions{}, tensor.ActF32)
	floats := run(model.LoadOptions{Dequantise: true}, tensor.Act8)
	if d := apart(stored, floats); d > 1e-4 {
		t.Errorf("dequantised weights are %g from the same weights with float activations", d)
	}
	again := run(model.LoadOptions{Dequantise: true, Quant: "q8_0"}, tensor.ActF32)
	if d := apart(floats, again); d == 0 || d > 0.5 {
		t.Errorf("q8_0 of the dequantised weights is %g from them", d)
	}

	ck := open(t, path)
	for _, tt := range []struct {
		dtype, quant string
		want         model.Class
	}{
		{"", "", model.Class{DType: "f32", Quant: "none"}},
		{"auto", "int8", model.Class{DType: "f32", Quant: "int8"}},
		{"bf16", "q4_0", model.Class{DType: "bf16", Quant: "q4_0"}},
	} {
		got, err := ck.Class(model.LoadOptions{DType: tt.dtype, Quant: tt.quant, Dequantise: true})
		if err != nil || got != tt.want {
			t.Errorf("%q %q: %+v, %v; want %+v", tt.dtype, tt.quant, got, err, tt.want)
		}
	}
	if !ck.Quantised() || open(t, "testdata/pair").Quantised() {
		t.Error("a file is not known as quantised, or one of floats is")
	}
	if _, err := ck.Class(model.LoadOptions{DType: "f8", Dequantise: true}); err == nil || !strings.Contains(err.Error(), `"f8"`) {
		t.Errorf("dtype f8: %v", err)
	}
	plain, err := ck.BlockBytes(0, model.LoadOptions{Dequantise: true})
	if want := 4 * ck.BlockParams(0); err != nil || plain != want {
		t.Errorf("a dequantised block has %d bytes (%v), want %d", plain, err, want)
	}
}

func apart(a, b []float32) float64 {
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}
