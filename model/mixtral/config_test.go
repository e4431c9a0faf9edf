package mixtral_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/mixtral"
)

// What the published config.json of Mixtral 8x7B says of the maths.
const of8x7B = `{"architectures":["MixtralForCausalLM"],"hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
	"max_position_embeddings":32768,"model_type":"mixtral","num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":32,
	"num_key_value_heads":8,"num_local_experts":8,"output_router_logits":false,"rms_norm_eps":1e-05,"rope_theta":1000000.0,
	"router_aux_loss_coef":0.02,"sliding_window":null,"tie_word_embeddings":false,"vocab_size":32000}`

// And that of 8x22B, with what it leaves to transformers' defaults left out.
const of8x22B = `{"hidden_size":6144,"intermediate_size":16384,"max_position_embeddings":65536,"model_type":"mixtral","num_attention_heads":48,
	"num_hidden_layers":56,"router_jitter_noise":0.0,"vocab_size":32768}`

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := mixtral.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestPublishedModels(t *testing.T) {
	for _, m := range []struct {
		config string
		params int64
	}{{of8x7B, 1451270144}, {of8x22B, 2504060928}} {
		c, err := read(t, m.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.BlockParams(0); got != m.params {
			t.Errorf("%d parameters a block, want %d", got, m.params)
		}
		if c.Experts != 8 || c.TopK != 2 || !c.Renormalise || c.Window != 0 || c.KVHeads != 8 || c.HeadDim != 128 ||
			c.Rope.Theta != 1000000 || c.NormEps != 1e-5 || c.Tied || c.Others != nil {
			t.Errorf("%+v", c)
		}
	}
}

// Windows that leave nothing out are none.
func TestWindow(t *testing.T) {
	for window, want := range map[string]int{"4096": 4096, "32767": 32767, "32768": 0, "null": 0} {
		c, err := read(t, strings.Replace(of8x7B, `"sliding_window":null`, `"sliding_window":`+window, 1))
		if err != nil || c.Window != want {
			t.Errorf("a window of %s is %d (%v), want %d", window, c.Window, err, want)
		}
	}
	// Sessions are longer than the context where its rotation stretches.
	stretched := strings.Replace(of8x7B, `"rope_theta":1000000.0`, `"rope_scaling":{"type":"dynamic","factor":2}`, 1)
	for window, want := range map[string]int{"32768": 32768, "65536": 0} {
		c, err := read(t, strings.Replace(stretched, `"sliding_window":null`, `"sliding_window":`+window, 1))
		if err != nil || c.Window != want {
			t.Errorf("a window of %s, in sessions of 65536, is %d (%v), want %d", window, c.Window, err, want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"num_local_experts":8`, `"num_local_experts":0`, `"num_local_experts" is 0, want a number of experts`},
		{`"num_local_experts":8`, `"num_local_experts":8,"num_experts":4`, `"num_local_experts" is 8, but num_experts is 4`},
		{`"num_experts_per_tok":2`, `"num_experts_per_tok":9`, "9 of 8 experts for a row"},
		{`"num_experts_per_tok":2`, `"num_experts_per_tok":0`, "0 of 8 experts for a row"},
		{`"num_local_experts":8`, `"num_local_experts":100000`, "100000 experts of 14336 are over the limit"},
		{`"sliding_window":null`, `"sliding_window":0`, `"sliding_window" is 0, want a number of positions or null`},
		{`"rope_theta":1000000.0`, `"attention_bias":true`, `"attention_bias" is true: the mixtral family does not know it`},
		{`"rope_theta":1000000.0`, `"num_shared_experts":1`, `"num_shared_experts" is 1: the mixtral family does not know it`},
	} {
		if _, err := read(t, strings.Replace(of8x7B, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
