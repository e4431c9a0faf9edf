package granite_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/granite"
)

// published is what config.json of Granite 3.1 8B says.
const published = `{"architectures":["GraniteForCausalLM"],"attention_bias":false,"attention_dropout":0.1,"attention_multiplier":0.0078125,
	"embedding_multiplier":12.0,"hidden_act":"silu","hidden_size":4096,"intermediate_size":12800,"logits_scaling":16.0,
	"max_position_embeddings":131072,"mlp_bias":false,"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,
	"residual_multiplier":0.22,"rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":10000000.0,"tie_word_embeddings":true,
	"vocab_size":49155}`

func TestPublishedModel(t *testing.T) {
	c, err := read(t, published)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(4096*(4096+1024+1024+4096) + 3*4096*12800 + 2*4096); c.BlockParams(0) != want {
		t.Errorf("%d parameters a block, want %d", c.BlockParams(0), want)
	}
	if c.Scale != 0.0078125 || c.EmbedScale != 12 || c.ResidualGain != 0.22 || c.LogitScale != 0.0625 {
		t.Errorf("%+v", c)
	}
}
func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := granite.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"logits_scaling":16.0`, `"logits_scaling":0`, `"logits_scaling" is 0`},
		{`"embedding_multiplier":12.0`, `"embedding_multiplier":0`, `"embedding_multiplier" is 0`},
		{`"residual_multiplier":0.22`, `"residual_multiplier":0`, `"residual_multiplier" is 0`},
		{`"attention_multiplier":0.0078125`, `"attention_multiplier":0`, `"attention_multiplier" is 0`},
		{`"residual_multiplier":0.22`, `"residual_multiplier":-1`, "the gain of residuals is -1"},
		{`"mlp_bias":false`, `"num_local_experts":8`, `"num_local_experts" is 8: the granite family does not know it`},
	} {
		if !strings.Contains(published, c.old) {
			t.Fatalf("the configuration has no %s", c.old)
		}
		if _, err := read(t, strings.Replace(published, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
