package falcon

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
		name, config string
		params       int64
		check        func(c model.Config) bool
	}{
		{
			"Falcon-7B",
			`{"alibi":false,"apply_residual_connection_post_layernorm":false,"auto_map":{"AutoConfig":"configuration_falcon.FalconConfig"},
			"bias":false,"bos_token_id":11,"eos_token_id":11,"hidden_size":4544,"layer_norm_epsilon":1e-05,"model_type":"falcon","multi_query":true,
			"new_decoder_architecture":false,"num_attention_heads":71,"num_hidden_layers":32,"num_kv_heads":71,"parallel_attn":true,"vocab_size":65024}`,
			207070080, func(c model.Config) bool {
				return c.KVHeads == 1 && c.Parallel && c.OneNorm && c.Rope.Theta == 10000 && c.Tied
			},
		},
		{
			"Falcon-RW-1B",
			`{"alibi":true,"apply_residual_connection_post_layernorm":false,"bias":true,"hidden_size":2048,"layer_norm_epsilon":1e-05,
			"model_type":"falcon","multi_query":false,"new_decoder_architecture":false,"num_attention_heads":32,"num_hidden_layers":24,
			"parallel_attn":false,"vocab_size":50304}`,
			12*2048*2048 + 13*2048, func(c model.Config) bool {
				return c.KVHeads == 32 && !c.Parallel && c.AttnBias && c.MLPBias && c.Alibi == nn.AlibiBF16 && c.Rope.Kind == nn.RopeNone
			},
		},
		{
			"Falcon-40B",
			`{"alibi":false,"bias":false,"hidden_size":8192,"layer_norm_epsilon":1e-05,"model_type":"falcon","multi_query":true,
			"new_decoder_architecture":true,"num_attention_heads":128,"num_hidden_layers":60,"num_kv_heads":8,"parallel_attn":true,"vocab_size":65024}`,
			679510016, func(c model.Config) bool { return c.KVHeads == 8 && c.HeadDim == 64 && c.Parallel && !c.OneNorm },
		},
		{
			"Falcon-180B",
			`{"alibi":false,"bias":false,"hidden_size":14848,"layer_norm_epsilon":1e-05,"model_type":"falcon","multi_query":true,
			"new_decoder_architecture":true,"num_attention_heads":232,"num_hidden_layers":80,"num_kv_heads":8,"parallel_attn":true,"vocab_size":65024}`,
			2219894784, func(c model.Config) bool { return c.KVHeads == 8 && c.HeadDim == 64 && !c.OneNorm },
		},
		{
			"Falcon2-11B",
			`{"activation":"gelu","alibi":false,"bias":false,"ff_factor":4,"ffn_hidden_size":16384,"hidden_size":4096,"layer_norm_epsilon":1e-05,
			"max_position_embeddings":8192,"model_type":"falcon","multi_query":true,"new_decoder_architecture":true,"num_attention_heads":32,
			"num_hidden_layers":60,"num_kv_heads":8,"num_ln_in_parallel_attn":1,"parallel_attn":true,"rope_scaling":null,"rope_theta":500042.0,
			"tie_word_embeddings":false,"vocab_size":65024}`,
			176168960, func(c model.Config) bool { return c.OneNorm && c.HeadDim == 128 && c.Rope.Theta == 500042 && !c.Tied },
		},
	} {
		c, err := read(t, tt.config)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if c.BlockParams(0) != tt.params || !tt.check(c) || c.Activation != tensor.GELU || c.Norm != tensor.LayerNorm || !c.NormBias {
			t.Errorf("%s: %d parameters a block, want %d; %+v", tt.name, c.BlockParams(0), tt.params, c)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ fields, want string }{
		{`"bias":false`, ""},
		{`"n_embed":64,"activation":"gelu_pytorch_tanh","num_ln_in_parallel_attn":null,"parallel_attn":false,"multi_query":true`, ""},
		{`"n_embed":32`, `field "n_embed" is 32, but hidden_size is 64`},
		{`"num_attention_heads":7`, `field "hidden_size" is 64, no multiple of 7 attention heads`},
		{`"new_decoder_architecture":true,"parallel_attn":false`, `field "parallel_attn" is false, which transformers cannot run`},
		{`"new_decoder_architecture":true,"num_ln_in_parallel_attn":3`, `field "num_ln_in_parallel_attn" is 3`},
		{`"num_ln_in_parallel_attn":2`, `field "num_ln_in_parallel_attn" is 2`},
		{`"new_decoder_architecture":true,"num_kv_heads":3`, "8 attention heads are no multiple of 3 key/value heads"},
		{`"multi_query":false,"num_kv_heads":2`, `field "num_kv_heads" is 2, but without multi_query`},
		{`"activation":"relu"`, `field "activation" is "relu", which is not supported`},
		{`"apply_residual_connection_post_layernorm":true`, `field "apply_residual_connection_post_layernorm" is true`},
		{`"rope_scaling":{"type":"spiral","factor":2.0}`, `"spiral", which is not supported`},
		{`"sliding_window":128`, `field "sliding_window" is 128: the falcon family does not know it`},
		{`"n_head_kv":8`, `field "n_head_kv" is 8: the falcon family does not know it`},
	} {
		_, err := read(t, `{"vocab_size":96,"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":8,`+tt.fields+`}`)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.fields, err, tt.want)
		}
	}
}
