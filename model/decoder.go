package model

import (
	"whorl/model/nn"
	"whorl/tensor"
)

// Defaults are what transformers' configuration class of a family assumes where a
// config.json leaves a field out. Sizes that have no sensible default must be there.
type Defaults struct {
	Vocab, Heads int     // 0: published files always have them, so they must be there
	Eps          float64 // of the norms
	Theta        float64 // of the rotary embedding
	MaxPositions int
	KVHeads      int  // 0: as many as attention heads
	HeadDim      int  // 0: hidden size / attention heads
	Tied         bool // head and embeddings are one table
	// Activation is transformers' name; "" is "silu". It is read from hidden_act.
	Activation string
	// PartialRotary is how much of a head the family rotates: 0 if partial_rotary_factor
	// is not a field of it, so that only 1 is accepted.
	PartialRotary float64
	// OwnRope leaves the fields of the rotary embedding to the family.
	OwnRope bool
}

// DecoderJSON reads the fields of config.json, in the form of transformers 4 or 5, that
// families with the graph of model/nn spell alike, and passes over those that alter no
// result. What is left to the family: biases, norms of queries and keys, windows, its own
// variants, and at last Fields.Rest and Fields.Err.
func DecoderJSON(f *Fields, family string, d Defaults) Config {
	f.Common()
	c := Config{
		Family:       family,
		Vocab:        sizeOf(f, "vocab_size", d.Vocab),
		Layers:       f.Int("num_hidden_layers"),
		MaxPositions: f.IntOr("max_position_embeddings", d.MaxPositions),
		Tied:         f.BoolOr("tie_word_embeddings", d.Tied),
		Spec: nn.Spec{
			Hidden:  f.Int("hidden_size"),
			Heads:   sizeOf(f, "num_attention_heads", d.Heads),
			FFN:     f.Int("intermediate_size"),
			NormEps: float32(f.FloatOr("rms_norm_eps", d.Eps)),
		},
	}
	kv := d.KVHeads
	if kv == 0 || f.Null("num_key_value_heads") {
		kv = c.Heads
	}
	c.KVHeads = f.IntOr("num_key_value_heads", kv)
	c.HeadDim = headDim(f, c, d.HeadDim)
	if d.Activation == "" {
		d.Activation = "silu"
	}
	c.Activation = ActivationOf(f, "hidden_act", d.Activation)
	if !d.OwnRope {
		c.Rope = RopeFields{Family: family, Theta: d.Theta, HeadDim: c.HeadDim, MaxPositions: c.MaxPositions, Partial: d.PartialRotary}.Read(f)
	}
	return c
}

// ActivationOf reads the name of an activation function, in transformers' words.
func ActivationOf(f *Fields, name, def string) tensor.Activation {
	switch act := f.StringOr(name, def); act {
	case "silu", "swish":
		return tensor.SiLU
	case "gelu", "gelu_python":
		return tensor.GELU
	case "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_python_tanh":
		return tensor.GELUTanh
	default:
		f.Fail(name, "is %q, which is not supported: silu, gelu and gelu_pytorch_tanh are", act)
		return tensor.NoActivation
	}
}

// sizeOf reads a whole number that must be there unless it has a default.
func sizeOf(f *Fields, name string, def int) int {
	if def == 0 {
		return f.Int(name)
	}
	return f.IntOr(name, def)
}

func headDim(f *Fields, c Config, def int) int {
	if def == 0 && c.Heads > 0 {
		def = c.Hidden / c.Heads
		if c.Hidden%c.Heads != 0 && !f.Has("head_dim") {
			f.Fail("hidden_size", "is %d, no multiple of %d attention heads", c.Hidden, c.Heads)
		}
	}
	return f.IntOr("head_dim", def)
}

// Common passes over the fields of any model of transformers that alter no result, and over
// its switches that are off; it refuses those that are on. DecoderJSON begins with it.
func (f *Fields) Common() {
	f.Skip(bookkeeping...)
	if q := f.Object("quantization_config"); q != nil {
		f.Fail("quantization_config", "says that the weights are already quantised (%s): use the original checkpoint or a GGUF file",
			q.StringOr("quant_method", "unknown method"))
	}
	f.Only("is_decoder", "false", "true")
	f.Only("is_encoder_decoder", "false")
	f.Only("add_cross_attention", "false")
	f.Only("cross_attention_hidden_size")
	f.Only("tie_encoder_decoder", "false")
	f.Only("chunk_size_feed_forward", "0")
	f.Only("pruned_heads", "{}")
}

// bookkeeping are fields of config.json that alter no result of inference: notes of the
// library and of tools, training settings, and defaults of generation, which are not the
// model's maths.
var bookkeeping = []string{
	"architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "_name_or_path",
	"_attn_implementation_autoset", "_attn_implementation", "name_or_path", "_commit_hash", "use_cache", "initializer_range", "attention_dropout",
	"hidden_dropout", "resid_pdrop", "embd_pdrop", "gradient_checkpointing",
	"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id", "tokenizer_class",
	"torchscript", "use_bfloat16", "return_dict", "return_dict_in_generate", "output_attentions", "output_hidden_states",
	"output_scores", "id2label", "label2id", "problem_type", "task_specific_params", "finetuning_task", "prefix",
	"max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
	"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
	"encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
	"remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
	"transformers.js_config", "unsloth_fixed", "unsloth_version", "max_sequence_length",
}

// DecoderNames are the tensors of the graph of model/nn as transformers names them in most
// families; a family adds what only it has. The caller owns the result.
func DecoderNames() Names {
	return Names{
		Prefixes: []Prefix{
			{Body: "model."}, // as transformers saves a model with its head
			{},               // the model alone, with the head beside it
		},
		Block: "layers.%d.",
		Param: [nn.NumParams]string{
			nn.AttnNorm: "input_layernorm",
			nn.Q:        "self_attn.q_proj",
			nn.K:        "self_attn.k_proj",
			nn.V:        "self_attn.v_proj",
			nn.O:        "self_attn.o_proj",
			nn.MLPNorm:  "post_attention_layernorm",
			nn.Gate:     "mlp.gate_proj",
			nn.Up:       "mlp.up_proj",
			nn.Down:     "mlp.down_proj",
		},
		Embed: "embed_tokens", Norm: "norm", Head: "lm_head",
	}
}

// DecoderGGUFNames are the same tensors as GGUF names them.
func DecoderGGUFNames() Names {
	return Names{
		Prefixes: []Prefix{{}},
		Block:    "blk.%d.",
		Param: [nn.NumParams]string{
			nn.AttnNorm: "attn_norm",
			nn.Q:        "attn_q",
			nn.K:        "attn_k",
			nn.V:        "attn_v",
			nn.O:        "attn_output",
			nn.MLPNorm:  "ffn_norm",
			nn.Gate:     "ffn_gate",
			nn.Up:       "ffn_up",
			nn.Down:     "ffn_down",
		},
		Embed: "token_embd", Norm: "output_norm", Head: "output",
	}
}
