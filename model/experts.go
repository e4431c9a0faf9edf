package model

import "whorl/model/nn"

// Experts reads how many experts there are, under either of the names that the library
// knows the field by.
func (f *Fields) Experts(def int) int {
	old := f.IntOr("num_experts", def)
	n := f.IntOr("num_local_experts", old)
	if n != old && f.Has("num_experts") {
		f.Fail("num_local_experts", "is %d, but num_experts is %d", n, old)
	}
	return n
}

// Experts reads the shape of a mixture of experts, as far as its architectures share it,
// into the graph of every block; renormalise is what holds where the file does not say.
func (k *Keys) Experts(s *nn.Spec, renormalise bool) {
	if s.Experts = k.IntOr("expert_count", 0); s.Experts == 0 {
		k.Zero("expert_used_count")
		return
	}
	s.TopK = k.Int("expert_used_count")
	s.FFN = k.IntOr("expert_feed_forward_length", s.FFN)
	s.Renormalise = k.BoolOr("expert_weights_norm", renormalise)
	if scale := k.FloatOr("expert_weights_scale", 1); scale != 0 && scale != 1 {
		k.Fail("expert_weights_scale", "is %v, which is not supported in a %s model", scale, k.arch)
	}
	if gate := k.IntOr("expert_gating_func", softmaxGating); gate != softmaxGating {
		k.Fail("expert_gating_func", "is %d, which is not supported: only %d is, softmax", gate, softmaxGating)
	}
	k.Zero("expert_shared_count", "expert_group_count", "expert_group_used_count")
}

// softmaxGating is ggml's number of the router that weighs experts by a softmax.
const softmaxGating = 1

// ExpertStacks names the tensors in which GGUF keeps the experts of a block, and the
// router.
func (n *Names) ExpertStacks() {
	n.Param[nn.Router] = "ffn_gate_inp"
	n.ExpertStack[nn.Gate], n.ExpertStack[nn.Up], n.ExpertStack[nn.Down] = "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"
}

// BoolOr reads a truth value.
func (k *Keys) BoolOr(name string, def bool) bool {
	k.used[name] = true
	if !k.Has(name) {
		return def
	}
	v, ok := k.meta.Bool(k.full(name))
	if !ok {
		k.Fail(name, "is neither true nor false")
	}
	return v
}
