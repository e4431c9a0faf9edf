package mistral_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/mistral"
)

// read maps the fixture's config.json after some fields were set to JSON values; an empty
// value removes the field.
func read(t *testing.T, edits map[string]string) (model.Config, error) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/mistral/config.json")
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
	return mistral.Family().FromJSON(fields)
}

// Windows that leave nothing out are none; the graph, and so the hash, is then Llama's.
func TestWindow(t *testing.T) {
	const context = "max_position_embeddings" // 256 in the fixture
	for _, c := range []struct {
		edits  map[string]string
		window int
	}{
		{map[string]string{"sliding_window": "null"}, 0},
		{map[string]string{"sliding_window": "null", context: "131072"}, 0},
		{map[string]string{"sliding_window": "256"}, 0},
		{map[string]string{"sliding_window": "255"}, 255},
		// Sessions are twice as long as the context.
		{map[string]string{"sliding_window": "256", "rope_parameters": `{"rope_type":"dynamic","factor":2}`}, 256},
		{map[string]string{"sliding_window": "512", "rope_parameters": `{"rope_type":"dynamic","factor":2}`}, 0},
		{map[string]string{"sliding_window": ""}, 0}, // 4096
		{map[string]string{"sliding_window": "", context: "4097"}, 4096},
		{map[string]string{"sliding_window": "4096", context: ""}, 4096}, // of 131072
	} {
		cfg, err := read(t, c.edits)
		if err != nil || cfg.Family != "llama" || cfg.Window != c.window {
			t.Errorf("%v: family %s, window %d, %v; want llama and %d", c.edits, cfg.Family, cfg.Window, err, c.window)
		}
	}
	if _, err := read(t, map[string]string{"sliding_window": "0"}); err == nil || !strings.Contains(err.Error(), `field "sliding_window" is 0`) {
		t.Errorf("%v, want an error that names sliding_window", err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"attention_bias", "true", `field "attention_bias" is true: the mistral family does not know it`},
		{"layer_types", `["full_attention","sliding_attention"]`, `field "layer_types" is ["full_attention","sliding_attention"]: the mistral family`},
		{"num_local_experts", "8", `field "num_local_experts" is 8: the mistral family does not know it`},
	} {
		if _, err := read(t, map[string]string{c.field: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error with %s", c.field, c.value, err, c.want)
		}
	}
}
