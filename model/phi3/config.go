package phi3

import "whorl/model"

// Of transformers' Phi3Config.
var defaults = model.Defaults{Eps: 1e-5, MaxPositions: 4096, OwnRope: true}

const (
	defaultTheta   = 10000
	defaultContext = 4096
)

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "phi3", defaults)
	c.Rope = model.RopeFields{
		Family: "phi3", Theta: defaultTheta, HeadDim: c.HeadDim, MaxPositions: c.MaxPositions, Partial: 1,
		OldContext: f.IntOr("original_max_position_embeddings", defaultContext), OnlyLong: true,
	}.Read(f)
	c.Window = f.IntOr("sliding_window", 0)
	if c.Window >= c.MaxPositions { // it leaves nothing out
		c.Window = 0
	}
	f.Only("attention_bias", "false")
	f.Only("mlp_bias", "false")
	f.Only("lm_head_bias", "false")
	f.Only("full_attn_mod", "1")
	f.Only("interpolate_factor", "1")
	f.Skip("auto_map", "embd_layer", "layer_types")
	f.Rest("phi3")
	return c, f.Err()
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "phi3")
	c.Window = k.IntOr("attention.sliding_window", 0)
	if c.Window >= c.MaxPositions {
		c.Window = 0
	}
	k.NoExperts()
	k.Rest()
	return c, k.Err()
}
