package model_test

import (
	"testing"

	"whorl/internal/fixture"
	"whorl/model"
	"whorl/tensor"
)

// Models quantised on load equal the reference library's, which quantises the same floats.
//
// NF4 is a float product, so the bound is that of floats. With INT8 the rows of every
// product are rounded to 8 bits, and a value that lies within the noise of float32 (2^-24,
// a few times over) of a border may round either way; such a row would be off by some 1e-3.
// The bits of both sides are fixed, and in the rows that the fixture records no value lies
// there, so its bound is that of floats too.
func TestQuantisedOnLoadEqualsReference(t *testing.T) {
	dev := openDevice(t, 2)
	for _, quant := range []string{"int8", "nf4"} {
		t.Run(quant, func(t *testing.T) {
			r := newRig(t, "testdata/ondemand", dev, model.LoadOptions{Quant: quant})
			want := fixture.JSON[ref](t, "testdata/ondemand/"+quant+".json.gz")
			checkBlocksUnder(t, r, want, tensor.Act8)
			checkPromptsUnder(t, r, want.Prompts, tensor.Act8)
		})
	}
}

// Rows in 8 bits cost something: with float rows INT8 weights give about the same, but not
// the same, logits.
func TestINT8WithFloatRows(t *testing.T) {
	r := newRig(t, "testdata/ondemand", openDevice(t, 2), model.LoadOptions{Quant: "int8"})
	want := fixture.JSON[ref](t, "testdata/ondemand/int8.json.gz")
	h := r.hidden(tensor.ActF32, nil, part{r.sequence(len(want.Blocks.IDs)), want.Blocks.IDs})
	diff := farthest(r.logits(tensor.ActF32, h), want.Blocks.Logits)
	if !(diff > blockTolerance && diff < 0.2) {
		t.Errorf("logits are off by %g of their largest value, want a little", diff)
	}
}
