package qwen3_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/qwen3"
)

// read maps the fixture's config.json after some fields were set to JSON values; an empty
// value removes the field.
func read(t *testing.T, edits map[string]string) (model.Config, error) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/qwen3/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	for name, value := range edits {
		config[name] = json.RawMessage(value)
		if value == "" {
			delete(config, name)
		}
	}
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	fields, err := model.ParseFields("config.json", raw)
	if err != nil {
		t.Fatal(err)
	}
	return qwen3.Family().FromJSON(fields)
}

func TestConfig(t *testing.T) {
	c, err := read(t, map[string]string{"layer_types": "", "sliding_window": "16", "rope_scaling": "null", "attention_bias": ""})
	if err != nil {
		t.Fatal(err)
	}
	if !c.QKNorm || c.AttnBias || c.QKVBias || c.HeadDim != 12 || c.KVHeads != 3 {
		t.Errorf("%+v", c)
	}
	// Of transformers' class, whatever hidden size and heads are.
	if c, err := read(t, map[string]string{"head_dim": "", "attention_bias": "true"}); err != nil || c.HeadDim != 128 || !c.AttnBias {
		t.Errorf("%+v, %v; want heads of 128 and biases", c, err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"layer_types", `["full_attention","full_attention","sliding_attention"]`, `field "layer_types" gives block 2 a window, but sliding_window is 0`},
		{"rope_scaling", `{"rope_type":"spiral","factor":4.0,"original_max_position_embeddings":32768}`, `"spiral", which is not supported`},
		{"num_experts", "4", `field "num_experts" is 4: the qwen3 family does not know it`},
		{"use_qk_norm", "false", `field "use_qk_norm" is false: the qwen3 family does not know it`},
		{"head_dim", `"twelve"`, `field "head_dim" is "twelve", want a whole number`},
	} {
		if _, err := read(t, map[string]string{c.field: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error with %s", c.field, c.value, err, c.want)
		}
	}
}
