package bloom

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := fromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

// Published configurations, as far as they say something; blocks have the published sizes.
func TestPublishedModels(t *testing.T) {
	for _, tt := range []struct {
		name, config         string
		params               int64
		layers, heads, vocab int
	}{
		{
			"BLOOM 560M",
			`{"apply_residual_connection_post_layernorm":false,"attention_dropout":0.0,"attention_softmax_in_fp32":true,"bias_dropout_fusion":true,
			"bos_token_id":1,"eos_token_id":2,"pad_token_id":3,"unk_token_id":0,"hidden_dropout":0.0,"initializer_range":0.02,"layer_norm_epsilon":1e-05,
			"masked_softmax_fusion":true,"model_type":"bloom","n_embed":1024,"n_inner":null,"n_layer":24,"num_attention_heads":16,"offset_alibi":100,
			"pretraining_tp":1,"seq_length":2048,"skip_bias_add":true,"skip_bias_add_qkv":false,"use_cache":true,"vocab_size":250880}`,
			12*1024*1024 + 13*1024, 24, 16, 250880,
		},
		{
			"BLOOM 7B1",
			`{"hidden_size":4096,"layer_norm_epsilon":1e-05,"model_type":"bloom","n_head":32,"n_layer":30,"pretraining_tp":4,"slow_but_exact":false,
			"torch_dtype":"float16","vocab_size":250880}`,
			201379840, 30, 32, 250880,
		},
		{
			"BLOOM 176B, whose 112 heads are no power of two",
			`{"architectures":["BloomForCausalLM"],"hidden_size":14336,"layer_norm_epsilon":1e-05,"model_type":"bloom","num_attention_heads":112,
			"num_hidden_layers":70,"pretraining_tp":4,"vocab_size":250880,"torch_dtype":"bfloat16"}`,
			2466437120, 70, 112, 250880,
		},
	} {
		c, err := read(t, tt.config)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if c.BlockParams(0) != tt.params || c.Layers != tt.layers || c.Heads != tt.heads || c.Vocab != tt.vocab {
			t.Errorf("%s: %d parameters a block, want %d; %+v", tt.name, c.BlockParams(0), tt.params, c)
		}
		if !c.Tied || !c.EmbedNorm || c.Alibi != nn.AlibiF32 || c.Rope.Kind != nn.RopeNone || c.Norm != tensor.LayerNorm || c.MaxPositions != 2048 {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ fields, want string }{
		{`"hidden_size":64,"n_head":8,"n_layer":2`, ""},
		{`"hidden_size":64,"n_embed":64,"n_head":8,"num_attention_heads":8,"n_layer":2,"tie_word_embeddings":false`, ""},
		{`"hidden_size":64,"n_embed":32,"n_head":8,"n_layer":2`, `field "n_embed" is 32, but hidden_size is 64`},
		{`"hidden_size":64,"n_head":8,"num_attention_heads":4,"n_layer":2`, `field "num_attention_heads" is 4, but n_head is 8`},
		{`"hidden_size":64,"n_head":8`, `field "n_layer" is missing`},
		{`"hidden_size":64,"n_head":7,"n_layer":2`, `field "hidden_size" is 64, no multiple of 7 attention heads`},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"n_inner":128`, `field "n_inner" is 128`},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"apply_residual_connection_post_layernorm":true`, `field "apply_residual_connection_post_layernorm" is true, which is not supported`},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"pretraining_tp":2,"slow_but_exact":true`, `field "slow_but_exact" is true, which is not supported`},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"num_key_value_heads":2`, `field "num_key_value_heads" is 2: the bloom family does not know it`},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"quantization_config":{"quant_method":"gptq"}`, "already quantised (gptq)"},
		{`"hidden_size":64,"n_head":8,"n_layer":2,"layer_norm_epsilon":0`, "the epsilon of the norms is 0"},
	} {
		_, err := read(t, `{"vocab_size":96,`+tt.fields+`}`)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.fields, err, tt.want)
		}
	}
}
