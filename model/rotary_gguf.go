package model

import (
	"math"

	"whorl/model/nn"
)

// ggmlTheta is what readers of GGUF assume where no key gives the base.
const ggmlTheta = 10000

func ropeOfGGUF(k *Keys, headDim, maxPositions int) nn.Rope {
	r := nn.Rope{
		Kind: nn.RopeDefault, Dim: k.IntOr("rope.dimension_count", headDim),
		Theta: float32(k.FloatOr("rope.freq_base", ggmlTheta)),
	}
	factor := k.FloatOr("rope.scaling.factor", k.FloatOr("rope.scale_linear", 0))
	old := k.IntOr("rope.scaling.original_context_length", maxPositions)
	magnitude := k.FloatOr("rope.scaling.attn_factor", 0)
	switch kind := k.StringOr("rope.scaling.type", ""); kind {
	case "", "none":
		if kind == "" && factor != 0 && factor != 1 {
			r.Kind, r.Factor = nn.RopeLinear, float32(factor)
		}
	case "linear":
		r.Kind, r.Factor = nn.RopeLinear, float32(factor)
	case "yarn":
		yarnOfGGUF(k, &r, factor, old, magnitude)
	case "longrope":
	default:
		k.Fail("rope.scaling.type", "is %q, which is not supported: supported are none, linear, yarn and longrope", kind)
	}
	if short, long := k.TensorFloats("rope_factors_short.weight"), k.TensorFloats("rope_factors_long.weight"); short != nil || long != nil {
		r.Kind, r.Factors, r.Long, r.OldContext = nn.RopeLong, short, long, old
		if r.Magnitude = float32(magnitude); magnitude == 0 {
			r.Magnitude = nn.LongMagnitude(float64(maxPositions)/float64(max(old, 1)), old)
		}
		return r
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

// yarnOfGGUF reads yarn's parameters; what ggml multiplies cos and sin by is the file's
// factor times the usual one.
func yarnOfGGUF(k *Keys, r *nn.Rope, factor float64, old int, magnitude float64) {
	r.Kind, r.Factor, r.OldContext = nn.RopeYarn, float32(factor), old
	r.BetaFast = float32(k.FloatOr("rope.scaling.yarn_beta_fast", 32))
	r.BetaSlow = float32(k.FloatOr("rope.scaling.yarn_beta_slow", 1))
	if magnitude == 0 {
		magnitude = 1
	}
	r.Magnitude = float32(magnitude) * nn.YarnMagnitude(factor, 0, 0)
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
		// The converter divides where transformers multiplies: a few roundings apart.
		if math.Abs(float64(want[i]-have[i])) > 1e-5*float64(want[i]) {
			return r
		}
	}
	return guess
}
