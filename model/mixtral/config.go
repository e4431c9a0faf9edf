package mixtral

import "whorl/model"

// Of transformers' MixtralConfig.
var defaults = model.Defaults{Eps: 1e-5, Theta: 1000000, MaxPositions: 4096 * 32, KVHeads: 8}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "llama", defaults)
	c.Experts = f.Experts(8)
	c.TopK = f.IntOr("num_experts_per_tok", 2)
	c.Renormalise = true
	if c.Experts < 1 {
		f.Fail("num_local_experts", "is %d, want a number of experts", c.Experts)
	}
	window := f.IntOr("sliding_window", 0)
	if f.Has("sliding_window") && window < 1 {
		f.Fail("sliding_window", "is %d, want a number of positions or null", window)
	}
	if window < c.LongestSession() { // a longer one leaves nothing out
		c.Window = window
	}
	f.Skip("router_aux_loss_coef", "output_router_logits", "router_jitter_noise") // of training
	f.Rest("mixtral")
	return c, f.Err()
}
