package phi3_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/phi3"
)

// published is what config.json of Phi-4-mini says, with shorter lists of factors.
const published = `{"architectures":["Phi3ForCausalLM"],"attention_bias":false,"auto_map":{},"embd_pdrop":0.0,"full_attn_mod":1,
	"hidden_act":"silu","hidden_size":3072,"intermediate_size":8192,"interpolate_factor":1,"lm_head_bias":false,
	"max_position_embeddings":131072,"mlp_bias":false,"num_attention_heads":24,"num_hidden_layers":32,"num_key_value_heads":8,
	"original_max_position_embeddings":4096,"partial_rotary_factor":0.0625,"resid_pdrop":0.0,"rms_norm_eps":1e-05,
	"rope_scaling":{"long_factor":[1,1.5,2,4],"short_factor":[1,1,1,1.2],"type":"longrope"},"rope_theta":10000.0,
	"sliding_window":262144,"tie_word_embeddings":true,"vocab_size":200064}`

func TestPublishedModel(t *testing.T) {
	c, err := read(t, published)
	if err != nil {
		t.Fatal(err)
	}
	// attention 3072*(3072+2*1024+3072), MLP three matrices, two norms
	if want := int64(3072*8192 + 3*3072*8192 + 2*3072); c.BlockParams(0) != want {
		t.Errorf("%d parameters a block, want %d", c.BlockParams(0), want)
	}
	if c.Window != 0 || c.Rope.Dim != 8 || c.Rope.OldContext != 4096 || c.Rope.Magnitude < 1.19 || c.Rope.Magnitude > 1.191 {
		t.Errorf("window %d, rope %+v", c.Window, c.Rope)
	}
	// The oldest configurations call the scaling "su", and some "yarn".
	for _, name := range []string{"su", "yarn"} {
		old, err := read(t, strings.Replace(published, `"longrope"`, `"`+name+`"`, 1))
		if err != nil || old.Hash() != c.Hash() {
			t.Errorf("%s: %v, or another hash", name, err)
		}
	}
}
func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := phi3.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"type":"longrope"`, `"type":"linear"`, `"rope_type" is "linear", which is not supported in a phi3 model`},
		{`"type":"longrope"`, `"type":"longrope","original_max_position_embeddings":8192`,
			`rope_scaling: field "original_max_position_embeddings" is 8192, but the model's own is 4096`},
		{`[1,1.5,2,4]`, `[1,1.5,2]`, "3 frequency factors, want 4"},
		{`"lm_head_bias":false`, `"lm_head_bias":true`, `"lm_head_bias" is true`},
		{`"partial_rotary_factor":0.0625`, `"partial_rotary_factor":2`, `"partial_rotary_factor" is 2`},
		{`"full_attn_mod":1`, `"mystery":1`, `"mystery" is 1: the phi3 family does not know it`},
	} {
		if !strings.Contains(published, c.old) {
			t.Fatalf("the configuration has no %s", c.old)
		}
		if _, err := read(t, strings.Replace(published, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
