package qwen3

import "whorl/model"

// Of transformers' Qwen3Config.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 32768, KVHeads: 32, HeadDim: 128}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "qwen3", defaults)
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.QKNorm = true
	c.Windows(f, 4096, 28)
	f.Rest("qwen3")
	return c, f.Err()
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "qwen3")
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.QKNorm = true
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
