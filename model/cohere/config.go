package cohere

import (
	"whorl/model"
	"whorl/tensor"
)

// Of transformers' CohereConfig.
var defaults = model.Defaults{Theta: 500000, MaxPositions: 8192, Tied: true}

const (
	defaultEps        = 1e-5
	defaultLogitScale = 0.0625
)

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "cohere", defaults)
	c.Norm, c.NormEps = tensor.LayerNorm, float32(f.FloatOr("layer_norm_eps", defaultEps))
	c.Parallel, c.OneNorm = true, true
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.LogitScale = float32(f.Factor("logit_scale", defaultLogitScale))
	f.Only("use_qk_norm", "false")
	f.Skip("model_max_length", "pretraining_tp")
	f.Rest("cohere")
	return c, f.Err()
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "command-r")
	c.Family = "cohere"
	c.Norm, c.NormEps = tensor.LayerNorm, float32(k.FloatOr("attention.layer_norm_epsilon", 0))
	c.Parallel, c.OneNorm = true, true
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.LogitScale = float32(k.FloatOr("logit_scale", 0))
	if k.TensorShape("blk.0.attn_q_norm.weight") != nil {
		k.Fail("block_count", "counts blocks with norms of queries and keys, which are not supported in a %s model", "command-r")
	}
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
