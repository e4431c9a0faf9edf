package llama

import (
	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// Defaults of the library's LlamaConfig for fields that a config.json may leave out.
const (
	defaultTheta        = 10000
	defaultEps          = 1e-6
	defaultMaxPositions = 2048
)

// harmless are fields of config.json that alter no result of inference: bookkeeping of the
// library, training settings, and defaults of generation, which are not the model's maths.
var harmless = set(
	"architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "_name_or_path",
	"_attn_implementation_autoset", "name_or_path", "_commit_hash", "use_cache", "initializer_range", "attention_dropout",
	"hidden_dropout", "resid_pdrop", "embd_pdrop", "gradient_checkpointing",
	"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id", "tokenizer_class",
	"torchscript", "use_bfloat16", "return_dict", "return_dict_in_generate", "output_attentions", "output_hidden_states",
	"output_scores", "id2label", "label2id", "problem_type", "task_specific_params", "finetuning_task", "prefix",
	"max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
	"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
	"encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
	"remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
	"is_llama_config", "transformers.js_config", "unsloth_fixed", "unsloth_version", "max_sequence_length",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// fromJSON reads config.json in the form of transformers 4 or 5.
func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.Config{
		Family:       "llama",
		Vocab:        f.Int("vocab_size"),
		Hidden:       f.Int("hidden_size"),
		Layers:       f.Int("num_hidden_layers"),
		Heads:        f.Int("num_attention_heads"),
		FFN:          f.Int("intermediate_size"),
		NormEps:      float32(f.FloatOr("rms_norm_eps", defaultEps)),
		MaxPositions: f.IntOr("max_position_embeddings", defaultMaxPositions),
		AttnBias:     f.BoolOr("attention_bias", false),
		MLPBias:      f.BoolOr("mlp_bias", false),
		Tied:         f.BoolOr("tie_word_embeddings", false),
		Activation:   tensor.SiLU,
	}
	c.KVHeads = f.IntOr("num_key_value_heads", c.Heads)
	headDim := 0
	if c.Heads > 0 {
		headDim = c.Hidden / c.Heads
		if c.Hidden%c.Heads != 0 && !f.Has("head_dim") {
			f.Fail("hidden_size", "is %d, no multiple of %d attention heads", c.Hidden, c.Heads)
		}
	}
	c.HeadDim = f.IntOr("head_dim", headDim)
	if act := f.StringOr("hidden_act", "silu"); act != "silu" {
		f.Fail("hidden_act", "is %q, which is not supported: only silu is", act)
	}
	refuseVariants(f)
	c.Rope = ropeOf(f, c.HeadDim, c.MaxPositions)
	f.Rest("llama", harmless)
	return c, f.Err()
}

// refuseVariants lets pass the switches of derived models that are off.
func refuseVariants(f *model.Fields) {
	if q := f.Object("quantization_config"); q != nil {
		f.Fail("quantization_config", "says that the weights are already quantised (%s): use the original checkpoint or a GGUF file",
			q.StringOr("quant_method", "unknown method"))
	}
	f.Only("pretraining_tp", "1")
	f.Only("rope_interleaved", "false")
	f.Only("use_sliding_window", "false")
	f.Only("is_decoder", "false", "true")
	f.Only("is_encoder_decoder", "false")
	f.Only("add_cross_attention", "false")
	f.Only("cross_attention_hidden_size")
	f.Only("tie_encoder_decoder", "false")
	f.Only("chunk_size_feed_forward", "0")
	f.Only("pruned_heads", "{}")
	f.Only("residual_multiplier", "1", "1.0")
	f.Only("embedding_multiplier", "1", "1.0")
	f.Only("logits_scaling", "1", "1.0")
	f.Only("partial_rotary_factor", "1", "1.0")
}

// ropeOf reads rope_parameters (transformers 5) or rope_theta with rope_scaling (4). A file
// that carries both must say the same twice.
func ropeOf(f *model.Fields, headDim, maxPositions int) nn.Rope {
	theta := f.FloatOr("rope_theta", defaultTheta)
	v4, v5 := f.Object("rope_scaling"), f.Object("rope_parameters")
	plain := nn.Rope{Kind: nn.RopeDefault, Theta: float32(theta), Dim: headDim}
	switch {
	case v4 == nil && v5 == nil:
		return plain
	case v4 == nil:
		return scaled(v5, plain, maxPositions)
	case v5 == nil:
		return scaled(v4, plain, maxPositions)
	}
	b := scaled(v5, plain, maxPositions)
	plain.Theta = b.Theta
	a := scaled(v4, plain, maxPositions)
	if !a.Equal(b) {
		f.Fail("rope_scaling", "disagrees with rope_parameters: remove one of them")
	}
	return b
}

// scaled reads the parameters of one kind of scaling; those that the kind does not use are
// refused.
func scaled(f *model.Fields, r nn.Rope, maxPositions int) nn.Rope {
	legacy := f.StringOr("type", nn.RopeDefault)
	r.Kind = f.StringOr("rope_type", legacy)
	r.Theta = float32(f.FloatOr("rope_theta", float64(r.Theta)))
	f.Only("partial_rotary_factor", "1", "1.0")
	switch r.Kind {
	case nn.RopeDefault:
	case nn.RopeLinear:
		r.Factor = float32(f.FloatOr("factor", 0))
	case nn.RopeLlama3:
		r.Factor = float32(f.FloatOr("factor", 0))
		r.LowFreq = float32(f.FloatOr("low_freq_factor", 0))
		r.HighFreq = float32(f.FloatOr("high_freq_factor", 0))
		r.OldContext = f.IntOr("original_max_position_embeddings", maxPositions)
	default:
		f.Fail("rope_type", "is %q, which is not supported: supported are default, linear, llama3", r.Kind)
	}
	f.Rest("llama", nil)
	return r
}
