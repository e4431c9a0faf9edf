package bloom

import (
	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// maxPositions is the length that the published models were trained with. Nothing in the
// maths depends on it.
const maxPositions = 2048

func fromJSON(f *model.Fields) (model.Config, error) {
	f.Common()
	c := model.Config{
		Family:       "bloom",
		Vocab:        f.Int("vocab_size"),
		Layers:       f.IntOf("n_layer", "num_hidden_layers"),
		MaxPositions: f.IntOr("seq_length", maxPositions),
		Tied:         f.BoolOr("tie_word_embeddings", true),
		Spec: nn.Spec{
			Hidden:  f.IntOf("hidden_size", "n_embed"),
			Heads:   f.IntOf("n_head", "num_attention_heads"),
			NormEps: float32(f.FloatOr("layer_norm_epsilon", 1e-5)),
		},
	}
	if c.Heads > 0 && c.Hidden%c.Heads != 0 {
		f.Fail("hidden_size", "is %d, no multiple of %d attention heads", c.Hidden, c.Heads)
	}
	c.FFN = 4 * c.Hidden
	if n := f.IntOr("n_inner", c.FFN); n != c.FFN {
		f.Fail("n_inner", "is %d, but transformers' MLPs are 4 times the hidden size %d wide", n, c.Hidden)
	}
	f.Only("apply_residual_connection_post_layernorm", "false")
	// With both, transformers leaves out biases.
	if f.IntOr("pretraining_tp", 1) > 1 {
		f.Only("slow_but_exact", "false")
	}
	// How the trainer fused its kernels; transformers reads none of these.
	f.Skip("slow_but_exact", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
		"offset_alibi", "skip_bias_add", "skip_bias_add_qkv")
	graph(&c)
	f.Rest("bloom")
	return c, f.Err()
}

// fromGGUF: files of older converters hold the table of embeddings twice, and count as models
// with a head of their own.
func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "bloom")
	c.NormEps = float32(k.FloatOr("attention.layer_norm_epsilon", 1e-5))
	if c.KVHeads != c.Heads {
		k.Fail("attention.head_count_kv", "is %d, but a BLOOM model has as many as its %d attention heads", c.KVHeads, c.Heads)
	}
	graph(&c)
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}

// graph sets what all models of the family share.
func graph(c *model.Config) {
	c.KVHeads = c.Heads
	if c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.Norm, c.NormBias, c.EmbedNorm = tensor.LayerNorm, true, true
	c.AttnBias, c.MLPBias, c.Ungated = true, true, true
	c.Activation = tensor.GELUTanh
	c.Rope, c.Alibi = nn.Rope{Kind: nn.RopeNone}, nn.AlibiF32
}
