package cohere_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/cohere"
)

// published is what config.json of Command-R 35B says.
const published = `{"architectures":["CohereForCausalLM"],"attention_bias":false,"hidden_act":"silu","hidden_size":8192,
	"intermediate_size":22528,"layer_norm_eps":1e-05,"logit_scale":0.0625,"max_position_embeddings":8192,
	"model_max_length":131072,"num_attention_heads":64,"num_hidden_layers":40,"num_key_value_heads":64,"pretraining_tp":1,
	"rope_theta":8000000.0,"use_qk_norm":false,"vocab_size":256000}`

func TestPublishedModel(t *testing.T) {
	c, err := read(t, published)
	if err != nil {
		t.Fatal(err)
	}
	// four square matrices, three of the MLP, one norm
	if want := int64(4*8192*8192 + 3*8192*22528 + 8192); c.BlockParams(0) != want || !c.Tied || c.LogitScale != 0.0625 {
		t.Errorf("%d parameters a block, want %d; %+v", c.BlockParams(0), want, c)
	}
}
func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := cohere.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"use_qk_norm":false`, `"use_qk_norm":true`, `"use_qk_norm" is true`},
		{`"logit_scale":0.0625`, `"logit_scale":0`, `"logit_scale" is 0`},
		{`"logit_scale":0.0625`, `"logit_scale":-1`, "a factor of embeddings or logits is -1"},
		{`"pretraining_tp":1`, `"mystery":1`, `"mystery" is 1: the cohere family does not know it`},
	} {
		if !strings.Contains(published, c.old) {
			t.Fatalf("the configuration has no %s", c.old)
		}
		if _, err := read(t, strings.Replace(published, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
