package llama

import (
	"math"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// harmlessKeys are llama.* keys of GGUF files that alter no result.
var harmlessKeys = set("tensor_data_layout", "rope.scaling.finetuned")

// fromGGUF reads the metadata of a GGUF file. Biases, the tied head and the frequency
// factors have no keys: the presence of their tensors says it.
func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.Config{
		Family:       "llama",
		Hidden:       k.Int("embedding_length"),
		Layers:       k.Int("block_count"),
		Heads:        k.Int("attention.head_count"),
		FFN:          k.Int("feed_forward_length"),
		NormEps:      float32(k.FloatOr("attention.layer_norm_rms_epsilon", 0)),
		MaxPositions: k.Int("context_length"),
		AttnBias:     k.TensorShape("blk.0.attn_q.bias") != nil,
		MLPBias:      k.TensorShape("blk.0.ffn_down.bias") != nil,
		Tied:         k.TensorShape("output.weight") == nil,
		Activation:   tensor.SiLU,
	}
	c.KVHeads = k.IntOr("attention.head_count_kv", c.Heads)
	rows := 0
	if shape := k.TensorShape("token_embd.weight"); len(shape) == 2 {
		rows = shape[0]
	}
	c.Vocab = k.IntOr("vocab_size", rows)
	if c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.HeadDim = k.IntOr("attention.key_length", c.HeadDim)
	if v := k.IntOr("attention.value_length", c.HeadDim); v != c.HeadDim {
		k.Fail("attention.value_length", "is %d, but keys have %d elements", v, c.HeadDim)
	}
	for _, name := range []string{"expert_count", "expert_used_count", "attention.sliding_window"} {
		if n := k.IntOr(name, 0); n != 0 {
			k.Fail(name, "is %d, which is not supported in a llama model", n)
		}
	}
	c.Rope = ropeOfGGUF(k, c.HeadDim)
	k.Rest(harmlessKeys)
	return c, k.Err()
}

func ropeOfGGUF(k *model.Keys, headDim int) nn.Rope {
	r := nn.Rope{
		Kind: nn.RopeDefault, Dim: headDim,
		Theta: float32(k.FloatOr("rope.freq_base", defaultTheta)),
	}
	if n := k.IntOr("rope.dimension_count", headDim); n != headDim {
		k.Fail("rope.dimension_count", "is %d, but heads have %d elements: partial rotation is not supported in a llama model", n, headDim)
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
	return named(r, factors)
}

// Llama 3.1 to 3.3 share three of the four parameters of their scaling, and the fourth is
// the largest factor.
const (
	llama3Low     = 1
	llama3High    = 4
	llama3Context = 8192
)

// named finds the llama3 parameters that a list of factors was computed from, so that the
// model has the frequencies (to the bit) and the hash of its safetensors form. A list that
// the published parameters do not explain is kept as it is.
func named(r nn.Rope, factors []float32) nn.Rope {
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
