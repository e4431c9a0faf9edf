package olmo2

import "whorl/model"

// Of transformers' Olmo2Config.
var defaults = model.Defaults{Eps: 1e-5, Theta: 10000, MaxPositions: 2048}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "olmo2", defaults)
	c.NoInNorm, c.OutNorm, c.QKNormWhole = true, true, true
	c.AttnBias = f.BoolOr("attention_bias", false)
	f.Rest("olmo2")
	return c, f.Err()
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "olmo2")
	c.NoInNorm, c.OutNorm, c.QKNormWhole = true, true, true
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
