package smollm3_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/smollm3"
)

// published is what config.json of SmolLM3 3B says.
const published = `{"architectures":["SmolLM3ForCausalLM"],"attention_bias":false,"hidden_act":"silu","hidden_size":2048,
	"intermediate_size":11008,"max_position_embeddings":65536,"max_window_layers":28,"mlp_bias":false,
	"no_rope_layer_interval":4,"num_attention_heads":16,"num_hidden_layers":36,"num_key_value_heads":4,"pretraining_tp":2,"rms_norm_eps":1e-06,
	"rope_scaling":null,"rope_theta":5000000.0,"sliding_window":null,"use_sliding_window":false,"vocab_size":128256}`

func TestPublishedModel(t *testing.T) {
	c, err := read(t, published)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2048*(2048+512+512+2048) + 3*2048*11008 + 2*2048); c.BlockParams(0) != want || !c.Tied {
		t.Errorf("%d parameters a block, want %d", c.BlockParams(0), want)
	}
	for i, kind := range []string{"default", "default", "default", "none", "default"} {
		if c.Block(i).Rope.Kind != kind || c.Block(i).Window != 0 {
			t.Errorf("block %d rotates by %+v in a window of %d", i, c.Block(i).Rope, c.Block(i).Window)
		}
	}
	slides, err := read(t, strings.Replace(published, `"sliding_window":null,"use_sliding_window":false`, `"sliding_window":64,"use_sliding_window":true`, 1))
	if err != nil || slides.Block(0).Window != 0 || slides.Block(3).Window != 64 {
		t.Errorf("with windows: %v, %+v", err, slides.Kinds)
	}
}

// slides lists the types of blocks of which every fourth has a window.
func slides(layers int) string {
	list := make([]string, layers)
	for i := range list {
		if list[i] = `"full_attention"`; i%4 == 3 {
			list[i] = `"sliding_attention"`
		}
	}
	return "[" + strings.Join(list, ",") + "]"
}

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := smollm3.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"no_rope_layer_interval":4`, `"no_rope_layer_interval":0`, `"no_rope_layer_interval" is 0`},
		{`"no_rope_layer_interval":4`, `"no_rope_layers":[1,0]`, `"no_rope_layers" has 2 entries for 36 blocks`},
		// Transformers' implementations of attention disagree on it.
		{`"no_rope_layer_interval":4`, `"layer_types":` + slides(36), `"layer_types" gives block 3 a window, but sliding_window is 0`},
		{`"no_rope_layer_interval":4`, `"mystery":1`, `"mystery" is 1: the smollm3 family does not know it`},
	} {
		if !strings.Contains(published, c.old) {
			t.Fatalf("the configuration has no %s", c.old)
		}
		if _, err := read(t, strings.Replace(published, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
