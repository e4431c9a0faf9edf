package llama

import (
	"testing"

	"whorl/model"
	"whorl/model/nn"
)

// Published configurations, as far as they say something; blocks have the published sizes.
func TestPublishedModels(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		params       int64
		check        func(c model.Config) bool
	}{
		{
			"Llama 1 7B, before key/value groups",
			`{"vocab_size":32000,"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,
			"max_position_embeddings":2048,"rms_norm_eps":1e-06,"hidden_act":"silu","use_cache":true,"torch_dtype":"float16","pad_token_id":0}`,
			202383360, func(c model.Config) bool { return c.KVHeads == 32 && c.Rope.Theta == 10000 && c.NormEps == 1e-6 },
		},
		{
			"Llama 2 70B",
			`{"vocab_size":32000,"hidden_size":8192,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"intermediate_size":28672,
			"max_position_embeddings":4096,"rms_norm_eps":1e-05,"rope_scaling":null,"pretraining_tp":1,"tie_word_embeddings":false}`,
			855654400, func(c model.Config) bool { return c.HeadDim == 128 && !c.Tied },
		},
		{
			"Llama 3.1 405B",
			`{"vocab_size":128256,"hidden_size":16384,"num_hidden_layers":126,"num_attention_heads":128,"num_key_value_heads":8,"intermediate_size":53248,
			"max_position_embeddings":131072,"rms_norm_eps":1e-05,"rope_theta":500000.0,"rope_scaling":{"factor":8.0,"low_freq_factor":1.0,
			"high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},"attention_bias":false,"mlp_bias":false}`,
			3187703808, func(c model.Config) bool {
				return c.Rope.Equal(nn.Rope{Kind: nn.RopeLlama3, Theta: 500000, Dim: 128, Factor: 8, LowFreq: 1, HighFreq: 4, OldContext: 8192})
			},
		},
		{
			"a scaling without its original context takes the model's",
			`{"vocab_size":100,"hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":32,"max_position_embeddings":777,
			"rope_parameters":{"rope_type":"llama3","rope_theta":1000,"factor":2,"low_freq_factor":1,"high_freq_factor":2}}`,
			4*64*64 + 3*64*32 + 2*64, func(c model.Config) bool { return c.Rope.OldContext == 777 },
		},
	} {
		f, err := model.ParseFields("config.json", []byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		c, err := fromJSON(f)
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if c.BlockParams(0) != tt.params || !tt.check(c) {
			t.Errorf("%s: %d parameters a block, want %d; %+v", tt.name, c.BlockParams(0), tt.params, c)
		}
	}
}
