package qwen3moe

import (
	"encoding/json"
	"slices"

	"whorl/model"
	"whorl/model/nn"
)

// Of transformers' Qwen3MoeConfig.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 32768, KVHeads: 4}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "qwen3moe", defaults)
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.QKNorm = true
	c.Window = window(f)
	experts(f, &c)
	f.Skip("router_aux_loss_coef", "output_router_logits") // of training
	// Qwen3-Coder says what goes without saying.
	f.Only("use_qk_norm", "true")
	f.Only("qkv_bias", "false")
	f.Only("shared_expert_intermediate_size", "0")
	f.Rest("qwen3moe")
	return c, f.Err()
}

// window is that of every block. The first versions of transformers gave it to those from
// max_window_layers on; later ones do not read that field.
func window(f *model.Fields) int {
	w := f.IntOr("sliding_window", 4096)
	from := f.IntOr("max_window_layers", 0)
	if !f.BoolOr("use_sliding_window", false) || f.Null("sliding_window") {
		return 0
	}
	if w < 1 {
		f.Fail("sliding_window", "is %d, want a number of positions or null", w)
	}
	if from != 0 {
		f.Fail("max_window_layers", "is %d beside a window, which versions of transformers read differently: only 0 is supported", from)
	}
	return w
}

// experts tells mixtures from the blocks whose MLP is one of intermediate_size.
func experts(f *model.Fields, c *model.Config) {
	n, chosen, width := f.Experts(128), f.IntOr("num_experts_per_tok", 8), f.IntOr("moe_intermediate_size", 768)
	norm, step := f.BoolOr("norm_topk_prob", false), f.IntOr("decoder_sparse_step", 1)
	var dense []int
	if raw := f.Raw("mlp_only_layers"); raw != nil && json.Unmarshal(raw, &dense) != nil {
		f.Fail("mlp_only_layers", "is %s, want a list of numbers of blocks", raw)
	}
	if n > 0 && step < 1 {
		f.Fail("decoder_sparse_step", "is %d, want at least 1", step)
	}
	if f.Err() != nil {
		return
	}
	c.EachBlock(func(i int, s *nn.Spec) {
		if n > 0 && (i+1)%step == 0 && !slices.Contains(dense, i) {
			s.Experts, s.TopK, s.FFN, s.Renormalise = n, chosen, width, norm
		}
	})
}

// fromGGUF reads what readers of GGUF take to be mixtures in all blocks, renormalised.
func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "qwen3moe")
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.QKNorm = true
	k.Experts(&c.Spec, true)
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
