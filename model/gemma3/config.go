package gemma3

import (
	"math"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// Of transformers' Gemma3TextConfig. Published models that see pictures name no vocabulary,
// and the smallest of them no heads either.
var defaults = model.Defaults{
	Vocab: 262208, Heads: 8,
	Eps: 1e-6, MaxPositions: 131072, KVHeads: 4, HeadDim: 256, Tied: true,
	Activation: "gelu_pytorch_tanh", OwnRope: true,
}

const (
	globalTheta    = 1000000
	localTheta     = 10000
	defaultWindow  = 4096
	defaultScalar  = 256
	defaultPattern = 6 // every sixth block sees everything
)

func fromJSON(f *model.Fields) (model.Config, error) {
	if !f.Has("text_config") {
		return textConfig(f)
	}
	// A model that sees pictures, of which this is the text part.
	text := f.Object("text_config")
	if text == nil {
		return model.Config{}, f.Err()
	}
	f.Common()
	f.Skip("vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
		"boi_token_id", "eoi_token_id", "image_token_id")
	tied := f.BoolOr("tie_word_embeddings", true)
	f.Rest("gemma3")
	c, err := textConfig(text)
	// Transformers' model around the text model ties the two tables, and caps no logits.
	c.Tied, c.LogitSoftcap = tied, 0
	return c, err
}

func textConfig(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "gemma3", defaults)
	c.Activation = model.ActivationOf(f, "hidden_activation", "gelu_pytorch_tanh")
	c.OutNorm, c.QKNorm = true, true
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	c.Scale = float32(math.Pow(f.FloatOr("query_pre_attn_scalar", defaultScalar), -0.5))
	f.Skip("attn_logit_softcapping") // which transformers reads and does not use
	c.LogitSoftcap = float32(f.Factor("final_logit_softcapping", 0))
	f.Only("use_bidirectional_attention", "false")
	f.Skip("cache_implementation")
	pattern := f.IntOr("sliding_window_pattern", f.IntOr("_sliding_window_pattern", defaultPattern))
	if pattern < 1 {
		f.Fail("sliding_window_pattern", "is %d, want a number of blocks", pattern)
		return c, f.Err()
	}
	kinds := f.LayerTypes(c.Layers, func(i int) bool { return (i+1)%pattern != 0 })
	global, local := ropes(f, c)
	c.Rope = global
	c.Slide(f, kinds, f.IntOr("sliding_window", defaultWindow))
	f.Rest("gemma3")
	if f.Err() == nil {
		rotate(&c, local)
	}
	return c, f.Err()
}

// ropes reads the rotation of blocks that see everything, and of those with a window: an
// object with one of each (transformers 5), or rope_theta and rope_scaling for the first
// and rope_local_base_freq for the second (4).
func ropes(f *model.Fields, c model.Config) (global, local nn.Rope) {
	fields := model.RopeFields{Family: "gemma3", Theta: globalTheta, HeadDim: c.HeadDim, MaxPositions: c.MaxPositions}
	local = nn.Rope{Kind: nn.RopeDefault, Theta: float32(f.FloatOr("rope_local_base_freq", localTheta)), Dim: c.HeadDim}
	both := f.Object("rope_parameters")
	if both == nil {
		return fields.Read(f), local
	}
	fields.Theta = f.FloatOr("rope_theta", globalTheta)
	global = nn.Rope{Kind: nn.RopeDefault, Theta: float32(fields.Theta), Dim: c.HeadDim}
	if o := both.Object("full_attention"); o != nil {
		global = fields.Scaled(o)
	}
	fields.Theta = localTheta
	if o := both.Object("sliding_attention"); o != nil {
		local = fields.Scaled(o)
	}
	both.Rest("gemma3")
	// A file that carries both forms says the same twice.
	if old := f.Object("rope_scaling"); old != nil {
		fields.Theta = float64(global.Theta)
		if !fields.Scaled(old).Equal(global) {
			f.Fail("rope_scaling", "disagrees with rope_parameters: remove one of them")
		}
	}
	return global, local
}

// rotate gives blocks with a window their own rotation.
func rotate(c *model.Config, local nn.Rope) {
	c.EachBlock(func(i int, s *nn.Spec) {
		if *s = c.Block(i); s.Window > 0 {
			s.Rope = local
		}
	})
}

// ggml knows the model of 62 blocks by their number: its scores are scaled by the width
// of a row over its heads, those of the others by the size of a head.
const blocksOf27B = 62

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "gemma3")
	c.Activation = tensor.GELUTanh
	c.OutNorm, c.QKNorm = true, true
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	scalar := c.HeadDim
	if c.Layers == blocksOf27B && c.Heads > 0 {
		scalar = c.Hidden / c.Heads
	}
	c.Scale = float32(math.Pow(float64(scalar), -0.5))
	c.LogitSoftcap = float32(k.FloatOr("final_logit_softcapping", 0))
	if !k.Has("rope.freq_base") {
		c.Rope.Theta = globalTheta
	}
	local := nn.Rope{Kind: nn.RopeDefault, Theta: float32(k.FloatOr("rope.freq_base_swa", localTheta)), Dim: c.HeadDim}
	window := k.IntOr("attention.sliding_window", 0) // the converter leaves it out where every block sees everything
	pattern := k.IntOr("attention.sliding_window_pattern", defaultPattern)
	if pattern < 1 {
		k.Fail("attention.sliding_window_pattern", "is %d, want a number of blocks", pattern)
		return c, k.Err()
	}
	k.NoExperts()
	k.Rest()
	c.EachBlock(func(i int, s *nn.Spec) {
		if (i+1)%pattern != 0 {
			s.Window = window
		}
	})
	if k.Err() == nil {
		rotate(&c, local)
	}
	return c, k.Err()
}
