package falcon

import (
	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

func fromJSON(f *model.Fields) (model.Config, error) {
	f.Common()
	c := model.Config{
		Family:       "falcon",
		Vocab:        f.Int("vocab_size"),
		Layers:       f.Int("num_hidden_layers"),
		MaxPositions: f.IntOr("max_position_embeddings", 2048),
		Tied:         f.BoolOr("tie_word_embeddings", true),
		Spec: nn.Spec{
			Hidden:     f.IntOf("hidden_size", "n_embed"),
			Heads:      f.Int("num_attention_heads"),
			NormEps:    float32(f.FloatOr("layer_norm_epsilon", 1e-5)),
			Activation: model.ActivationOf(f, "activation", "gelu"),
		},
	}
	if c.Heads > 0 && c.Hidden%c.Heads != 0 {
		f.Fail("hidden_size", "is %d, no multiple of %d attention heads", c.Hidden, c.Heads)
	}
	c.FFN = f.IntOr("ffn_hidden_size", 4*c.Hidden)
	graph(&c)
	c.AttnBias = f.BoolOr("bias", false)
	c.MLPBias = c.AttnBias
	variant(f, &c)
	c.Rope = model.RopeFields{Family: "falcon", Theta: 10000, HeadDim: c.HeadDim, MaxPositions: c.MaxPositions}.Read(f)
	if f.BoolOr("alibi", false) {
		c.Rope, c.Alibi = nn.Rope{Kind: nn.RopeNone}, nn.AlibiBF16
	}
	f.Only("apply_residual_connection_post_layernorm", "false")
	f.Skip("auto_map", "ff_factor") // transformers reads neither
	f.Rest("falcon")
	return c, f.Err()
}

// variant reads key/value heads and the order of attention and MLP. The new architecture
// ignores multi_query, and the old one the number of heads unless multi_query is off.
func variant(f *model.Fields, c *model.Config) {
	kv := f.IntOr("num_kv_heads", c.Heads)
	multiQuery := f.BoolOr("multi_query", true)
	parallel := f.BoolOr("parallel_attn", true)
	renewed := f.BoolOr("new_decoder_architecture", false)
	norms := 1
	if renewed {
		norms = 2
	}
	norms = f.IntOr("num_ln_in_parallel_attn", norms)
	switch {
	case renewed && !parallel:
		f.Fail("parallel_attn", "is false, which transformers cannot run with new_decoder_architecture")
	case renewed:
		c.KVHeads = kv
	case multiQuery:
		c.KVHeads = 1
	default:
		if c.KVHeads = c.Heads; kv != c.Heads {
			f.Fail("num_kv_heads", "is %d, but without multi_query and new_decoder_architecture there are as many as the %d attention heads", kv, c.Heads)
		}
	}
	if parallel && norms != 1 && (norms != 2 || !renewed) {
		f.Fail("num_ln_in_parallel_attn", "is %d, which transformers cannot run: 1 and, with new_decoder_architecture, 2 are possible", norms)
	}
	c.Parallel, c.OneNorm = parallel, parallel && norms == 1
}

// fromGGUF: the format knows the parallel variants without biases; their norms tell which.
func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "falcon")
	c.NormEps = float32(k.FloatOr("attention.layer_norm_epsilon", 1e-5))
	c.Activation = tensor.GELU
	graph(&c)
	c.Parallel = true
	c.OneNorm = k.TensorShape("blk.0.attn_norm_2.weight") == nil
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}

// graph sets what all models of the family share.
func graph(c *model.Config) {
	if c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	c.Norm, c.NormBias, c.Ungated = tensor.LayerNorm, true, true
}
