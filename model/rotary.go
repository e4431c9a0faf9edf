package model

import (
	"math"

	"whorl/model/nn"
)

// ropeOfJSON reads rope_parameters (transformers 5) or rope_theta with rope_scaling (4). A
// file that carries both must say the same twice.
func ropeOfJSON(f *Fields, family string, defaultTheta float64, headDim, maxPositions int) nn.Rope {
	theta := f.FloatOr("rope_theta", defaultTheta)
	v4, v5 := f.Object("rope_scaling"), f.Object("rope_parameters")
	plain := nn.Rope{Kind: nn.RopeDefault, Theta: float32(theta), Dim: headDim}
	switch {
	case v4 == nil && v5 == nil:
		return plain
	case v4 == nil:
		return scaledRope(v5, family, plain, maxPositions)
	case v5 == nil:
		return scaledRope(v4, family, plain, maxPositions)
	}
	b := scaledRope(v5, family, plain, maxPositions)
	plain.Theta = b.Theta
	a := scaledRope(v4, family, plain, maxPositions)
	if !a.Equal(b) {
		f.Fail("rope_scaling", "disagrees with rope_parameters: remove one of them")
	}
	return b
}

// scaledRope reads the parameters of one kind of scaling; those that the kind does not use
// are refused.
func scaledRope(f *Fields, family string, r nn.Rope, maxPositions int) nn.Rope {
	legacy := f.StringOr("type", nn.RopeDefault)
	r.Kind = f.StringOr("rope_type", legacy)
	r.Theta = float32(f.FloatOr("rope_theta", float64(r.Theta)))
	f.Only("partial_rotary_factor", "1", "1.0")
	switch r.Kind {
	case nn.RopeDefault:
	case nn.RopeLinear:
		r.Factor = float32(f.FloatOr("factor", 0))
	case nn.RopeLlama3:
		r.Factor = float32(f.FloatOr("factor", 0))
		r.LowFreq = float32(f.FloatOr("low_freq_factor", 0))
		r.HighFreq = float32(f.FloatOr("high_freq_factor", 0))
		r.OldContext = f.IntOr("original_max_position_embeddings", maxPositions)
	default:
		f.Fail("rope_type", "is %q, which is not supported: supported are default, linear, llama3", r.Kind)
	}
	f.Rest(family)
	return r
}

// ggmlTheta is what readers of GGUF assume where no key gives the base.
const ggmlTheta = 10000

func ropeOfGGUF(k *Keys, family string, headDim int) nn.Rope {
	r := nn.Rope{
		Kind: nn.RopeDefault, Dim: headDim,
		Theta: float32(k.FloatOr("rope.freq_base", ggmlTheta)),
	}
	if n := k.IntOr("rope.dimension_count", headDim); n != headDim {
		k.Fail("rope.dimension_count", "is %d, but heads have %d elements: partial rotation is not supported in a %s model", n, headDim, family)
	}
	factor := k.FloatOr("rope.scaling.factor", k.FloatOr("rope.scale_linear", 0))
	k.IntOr("rope.scaling.original_context_length", 0)
	switch kind := k.StringOr("rope.scaling.type", ""); kind {
	case "", "none":
		if kind == "" && factor != 0 && factor != 1 {
			r.Kind, r.Factor = nn.RopeLinear, float32(factor)
		}
	case "linear":
		r.Kind, r.Factor = nn.RopeLinear, float32(factor)
	default:
		k.Fail("rope.scaling.type", "is %q, which is not supported: supported are none and linear", kind)
	}
	factors := k.TensorFloats("rope_freqs.weight")
	if factors == nil {
		return r
	}
	if r.Kind != nn.RopeDefault {
		k.Fail("rope.scaling.type", "stands beside a tensor rope_freqs.weight: only one of them is supported")
	}
	return namedRope(r, factors)
}

// The published models with the scaling of kind llama3 share three of its four parameters,
// and the fourth is the largest factor.
const (
	llama3Low     = 1
	llama3High    = 4
	llama3Context = 8192
)

// namedRope finds the llama3 parameters that a list of factors was computed from, so that
// the model has the frequencies (to the bit) and the hash of its safetensors form. A list
// that the published parameters do not explain is kept as it is.
func namedRope(r nn.Rope, factors []float32) nn.Rope {
	largest := float32(0)
	for _, f := range factors {
		largest = max(largest, f)
	}
	guess := r
	guess.Kind, guess.Factor = nn.RopeLlama3, largest
	guess.LowFreq, guess.HighFreq, guess.OldContext = llama3Low, llama3High, llama3Context
	r.Kind, r.Factors = nn.RopeFactors, factors
	if guess.Validate() != nil || r.Validate() != nil {
		return r
	}
	want, have := guess.InvFreq(), r.InvFreq()
	for i := range want {
		// The converter divides where the library multiplies: a few roundings apart.
		if math.Abs(float64(want[i]-have[i])) > 1e-5*float64(want[i]) {
			return r
		}
	}
	return guess
}
