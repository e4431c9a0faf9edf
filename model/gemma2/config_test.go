package gemma2_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/gemma2"
)

// ofNine is what the published config.json of Gemma 2 9B says of the maths.
const ofNine = `{"attention_bias":false,"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,"head_dim":256,
	"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh","hidden_size":3584,"intermediate_size":14336,
	"max_position_embeddings":8192,"num_attention_heads":16,"num_hidden_layers":42,"num_key_value_heads":8,
	"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_theta":10000.0,"sliding_window":4096,"sliding_window_size":4096,
	"vocab_size":256000,"cache_implementation":"hybrid"}`

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := gemma2.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestPublishedModel(t *testing.T) {
	c, err := read(t, ofNine)
	if err != nil {
		t.Fatal(err)
	}
	if c.BlockParams(0) != 198195200 || !c.Tied || c.Softcap != 50 || c.LogitSoftcap != 30 || c.Scale != 1./16 {
		t.Errorf("%d parameters a block; %+v", c.BlockParams(0), c)
	}
	for i, window := range []int{4096, 0, 4096, 0} {
		if c.Block(i).Window != window {
			t.Errorf("block %d has a window of %d, want %d", i, c.Block(i).Window, window)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"attention_bias":false`, `"use_bidirectional_attention":true`, `"use_bidirectional_attention" is true`},
		{`"sliding_window_size":4096`, `"sliding_window_size":64`, `"sliding_window_size" is 64, but sliding_window is 4096`},
		{`"sliding_window":4096`, `"sliding_window":null`, `"sliding_window" is null`},
		{`"sliding_window":4096,"sliding_window_size":4096`, `"sliding_window":0`, `gives block 0 a window, but sliding_window is 0`},
		{`"hidden_activation":"gelu_pytorch_tanh"`, `"hidden_activation":"relu"`, `"hidden_activation" is "relu"`},
		{`"final_logit_softcapping":30.0`, `"final_logit_softcapping":0`, `"final_logit_softcapping" is 0`},
		{`"attn_logit_softcapping":50.0`, `"attn_logit_softcapping":-1`, "soft cap of attention is -1"},
		{`"rope_theta":10000.0`, `"mystery":1`, `"mystery" is 1: the gemma2 family does not know it`},
	} {
		config := strings.Replace(ofNine, c.old, c.new, 1)
		if _, err := read(t, config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
