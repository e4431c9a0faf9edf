package mistral_test

import (
	"testing"

	"whorl/model"
	"whorl/model/mistral"
)

// Mistral Nemo's heads are smaller than its rows over their number.
func TestNemo(t *testing.T) {
	f, err := model.ParseFields("config.json", []byte(`{"architectures":["MistralForCausalLM"],"attention_dropout":0.0,"head_dim":128,
		"hidden_act":"silu","hidden_size":5120,"intermediate_size":14336,"max_position_embeddings":131072,"model_type":"mistral",
		"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":1000000.0,
		"sliding_window":null,"tie_word_embeddings":false,"vocab_size":131072}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := mistral.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	// 5120*(4096+1024+1024+4096) of attention, three matrices of 5120*14336, two norms
	if want := int64(5120*10240 + 3*5120*14336 + 2*5120); c.BlockParams(0) != want || c.Window != 0 || c.HeadDim != 128 {
		t.Errorf("%d parameters a block, want %d; %+v", c.BlockParams(0), want, c)
	}
}
