package granite

import (
	"whorl/model"
	"whorl/model/nn"
)

// Of transformers' GraniteConfig.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 2048}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "granite", defaults)
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.MLPBias = f.BoolOr("mlp_bias", false)
	c.EmbedScale = unlessOne(f.Factor("embedding_multiplier", 1))
	c.ResidualGain = unlessOne(f.Factor("residual_multiplier", 1))
	c.Scale = float32(f.Factor("attention_multiplier", 1))
	scaling := f.FloatOr("logits_scaling", 1)
	if scaling <= 0 {
		f.Fail("logits_scaling", "is %v, want a positive number", scaling)
	}
	c.LogitScale = unlessOne(1 / scaling)
	f.Rest("granite")
	return c, f.Err()
}

// unlessOne writes a factor of one as none.
func unlessOne(v float64) float32 {
	if v == 1 {
		return 0
	}
	return float32(v)
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "granite")
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.MLPBias = k.TensorShape("blk.0.ffn_down.bias") != nil
	c.EmbedScale = unlessOne(k.FloatOr("embedding_scale", 1))
	c.ResidualGain = unlessOne(k.FloatOr("residual_scale", 1))
	c.Scale = float32(k.FloatOr("attention.scale", 0))
	scaling := k.FloatOr("logit_scale", 1)
	if scaling <= 0 {
		k.Fail("logit_scale", "is %v, want a positive number", scaling)
	}
	c.LogitScale = unlessOne(1 / scaling)
	if !k.BoolOr("rope.scaling.finetuned", true) { // for this architecture it says whether blocks rotate at all
		c.Rope = nn.Rope{Kind: nn.RopeNone}
	}
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
