package model

import (
	"fmt"

	"whorl/model/nn"
)

// Experts reads how many experts there are, under either of the names that transformers
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
	k.Zero("expert_shared_count", "expert_shared_feed_forward_length", "expert_group_count", "expert_group_used_count")
}

// softmaxGating is ggml's number of the router that weighs experts by a softmax.
const softmaxGating = 1

// MixtureNames names the tensors of a mixture in GGUF: the router, and the experts in stacks
// or, in the oldest files, one by one.
func (n *Names) MixtureNames() {
	n.Param[nn.Router] = "ffn_gate_inp"
	n.ExpertStack[nn.Gate], n.ExpertStack[nn.Up], n.ExpertStack[nn.Down] = "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"
	n.Expert[nn.Gate], n.Expert[nn.Up], n.Expert[nn.Down] = "ffn_gate.%d", "ffn_up.%d", "ffn_down.%d"
}

// findExperts settles how a file keeps its experts, if its format knows stacks and matrices
// of their own: in stacks, unless the first expert's matrix is there and its stack is not.
func (c *Checkpoint) findExperts() {
	alone := c.names
	alone.ExpertStack = [nn.NumParams]string{}
	for i := range c.Config.Layers {
		spec := c.Config.Block(i)
		for _, need := range spec.Needs() {
			if spec.Experts == 0 || need.Vector() || c.names.ExpertStack[need.Param] == "" {
				continue
			}
			_, stacked := c.file.Info(c.source(i, need).name)
			_, single := c.file.Info(c.prefix.Body + fmt.Sprintf(c.names.Block, i) + alone.source(spec, need).name)
			if single && !stacked {
				c.names = alone
			}
			return
		}
	}
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
