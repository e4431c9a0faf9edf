package gemma2

import (
	"math"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// Of transformers' Gemma2Config.
var defaults = model.Defaults{
	Eps: 1e-6, Theta: 10000, MaxPositions: 8192, KVHeads: 4, HeadDim: 256, Tied: true,
	Activation: "gelu_pytorch_tanh",
}

const (
	defaultWindow   = 4096
	defaultScalar   = 256
	defaultScoreCap = 50
	defaultLogitCap = 30
)

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "gemma2", defaults)
	// hidden_act is an old name that transformers passes over.
	c.Activation = model.ActivationOf(f, "hidden_activation", "gelu_pytorch_tanh")
	c.OutNorm = true
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	c.Scale = float32(math.Pow(f.FloatOr("query_pre_attn_scalar", defaultScalar), -0.5))
	c.Softcap = softcap(f, "attn_logit_softcapping", defaultScoreCap)
	c.LogitSoftcap = softcap(f, "final_logit_softcapping", defaultLogitCap)
	f.Only("use_bidirectional_attention", "false")
	f.Skip("cache_implementation")
	window := f.IntOr("sliding_window", defaultWindow)
	kinds := f.LayerTypes(c.Layers, func(i int) bool { return i%2 == 0 })
	if f.Null("sliding_window") {
		f.Fail("sliding_window", "is null, want a number of positions")
	}
	// Two of the published files say it twice.
	if again := f.IntOr("sliding_window_size", window); again != window {
		f.Fail("sliding_window_size", "is %d, but sliding_window is %d", again, window)
	}
	c.Slide(f, kinds, window)
	f.Rest("gemma2")
	return c, f.Err()
}

// softcap reads a cap; null is none.
func softcap(f *model.Fields, name string, def float64) float32 {
	v := f.Factor(name, def)
	if f.Null(name) {
		return 0
	}
	return float32(v)
}

// ggml knows the model of 46 blocks by their number: its scores are scaled by the width
// of a row over its heads, those of the others by the size of a head.
const blocksOf27B = 46

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "gemma2")
	c.Activation = tensor.GELUTanh
	c.OutNorm = true
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	scalar := c.HeadDim
	if c.Layers == blocksOf27B && c.Heads > 0 {
		scalar = c.Hidden / c.Heads
	}
	c.Scale = float32(math.Pow(float64(scalar), -0.5))
	c.Softcap = float32(k.FloatOr("attn_logit_softcapping", defaultScoreCap))
	c.LogitSoftcap = float32(k.FloatOr("final_logit_softcapping", defaultLogitCap))
	window := k.IntOr("attention.sliding_window", defaultWindow)
	k.NoExperts()
	k.Rest()
	c.EachBlock(func(i int, s *nn.Spec) {
		if i%2 == 0 {
			s.Window = window
		}
	})
	return c, k.Err()
}
