package llama

import "whorl/model"

// Of transformers' LlamaConfig.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 2048}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "llama", defaults)
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.MLPBias = f.BoolOr("mlp_bias", false)
	// Switches of models derived from Llama, off.
	f.Skip("is_llama_config")
	f.Only("pretraining_tp", "1")
	f.Only("rope_interleaved", "false")
	f.Only("use_sliding_window", "false")
	f.Only("residual_multiplier", "1", "1.0")
	f.Only("embedding_multiplier", "1", "1.0")
	f.Only("logits_scaling", "1", "1.0")
	f.Rest("llama")
	return c, f.Err()
}

// fromGGUF reads Mixtral too, which GGUF keeps as llama with experts.
func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "llama")
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.MLPBias = k.TensorShape("blk.0.ffn_down.bias") != nil
	k.Experts(&c.Spec, true)
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
