package model

import (
	"whorl/model/nn"
	"whorl/tensor"
)

// DecoderGGUF reads the metadata keys that architectures with the graph of model/nn share,
// and passes over those that alter no result. A tied head and frequency factors have no
// keys: the presence of their tensors says it. So do biases, which are left to the family,
// experts and windows (see Keys.Zero), with Keys.Rest and Keys.Err.
func DecoderGGUF(k *Keys, family string) Config {
	k.Skip("tensor_data_layout", "rope.scaling.finetuned")
	c := Config{
		Family:       family,
		Layers:       k.Int("block_count"),
		MaxPositions: k.Int("context_length"),
		Tied:         k.TensorShape("output.weight") == nil,
		Spec: nn.Spec{
			Hidden:     k.Int("embedding_length"),
			Heads:      k.Int("attention.head_count"),
			FFN:        k.IntOr("feed_forward_length", 0), // a mixture of experts has its own
			NormEps:    float32(k.FloatOr("attention.layer_norm_rms_epsilon", 0)),
			Activation: tensor.SiLU,
		},
	}
	c.KVHeads = k.IntOr("attention.head_count_kv", c.Heads)
	rows := 0
	if shape := k.TensorShape("token_embd.weight"); len(shape) == 2 {
		rows = shape[0]
	}
	c.Vocab = k.IntOr("vocab_size", rows)
	if c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.HeadDim = k.IntOr("attention.key_length", c.HeadDim)
	if v := k.IntOr("attention.value_length", c.HeadDim); v != c.HeadDim {
		k.Fail("attention.value_length", "is %d, but keys have %d elements", v, c.HeadDim)
	}
	c.Rope = ropeOfGGUF(k, c.HeadDim, c.MaxPositions)
	return c
}
