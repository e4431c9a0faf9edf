package olmo2_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/olmo2"
)

// published is what config.json of OLMo 2 7B says.
const published = `{"architectures":["Olmo2ForCausalLM"],"attention_bias":false,"hidden_act":"silu","hidden_size":4096,
	"intermediate_size":11008,"max_position_embeddings":4096,"num_attention_heads":32,"num_hidden_layers":32,
	"num_key_value_heads":32,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":500000,"tie_word_embeddings":false,
	"vocab_size":100352}`

func TestPublishedModel(t *testing.T) {
	c, err := read(t, published)
	if err != nil {
		t.Fatal(err)
	}
	// four square matrices, three of the MLP, norms of queries, keys and both outputs
	if want := int64(4*4096*4096 + 3*4096*11008 + 4*4096); c.BlockParams(0) != want {
		t.Errorf("%d parameters a block, want %d", c.BlockParams(0), want)
	}
}
func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := olmo2.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"hidden_act":"silu"`, `"hidden_act":"tanh"`, `"hidden_act" is "tanh"`},
		{`"attention_bias":false`, `"layer_types":["sliding_attention"]`, `"layer_types" is`},
		{`"attention_bias":false`, `"mystery":1`, `"mystery" is 1: the olmo2 family does not know it`},
	} {
		if !strings.Contains(published, c.old) {
			t.Fatalf("the configuration has no %s", c.old)
		}
		if _, err := read(t, strings.Replace(published, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
