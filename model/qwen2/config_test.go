package qwen2_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/qwen2"
)

// read maps the fixture's config.json after some fields were set to JSON values; an empty
// value removes the field.
func read(t *testing.T, edits map[string]string) (model.Config, error) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/qwen2/config.json")
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
	return qwen2.Family().FromJSON(fields)
}

func TestConfig(t *testing.T) {
	c, err := read(t, map[string]string{"layer_types": "", "use_mrope": "false", "sliding_window": "16", "rms_norm_eps": "", "max_position_embeddings": ""})
	if err != nil {
		t.Fatal(err)
	}
	if !c.QKVBias || c.AttnBias || c.MLPBias || c.QKNorm || c.HeadDim != 8 || c.NormEps != 1e-6 || c.MaxPositions != 32768 {
		t.Errorf("%+v", c)
	}
	for _, kv := range []struct {
		value string
		want  int
	}{{"", 32}, {"null", 9}, {"1", 1}} { // as transformers has it
		if c, err := read(t, map[string]string{"num_key_value_heads": kv.value}); err != nil || c.KVHeads != kv.want {
			t.Errorf("num_key_value_heads %q: %d heads, %v; want %d", kv.value, c.KVHeads, err, kv.want)
		}
	}
}

// TestWindows tells the windows of the two blocks.
func TestWindows(t *testing.T) {
	const on, first, types, size = "use_sliding_window", "max_window_layers", "layer_types", "sliding_window"
	for _, c := range []struct {
		edits map[string]string
		want  [2]int
	}{
		{map[string]string{on: "true", size: "16", first: "1", types: ""}, [2]int{0, 16}},
		{map[string]string{on: "true", size: "16", first: "0", types: ""}, [2]int{16, 16}},
		{map[string]string{on: "true", size: "16", first: "2", types: ""}, [2]int{0, 0}},
		{map[string]string{on: "true", size: "16", first: "", types: ""}, [2]int{0, 0}},   // from block 28 on
		{map[string]string{on: "true", size: "", first: "1", types: ""}, [2]int{0, 4096}}, // of transformers' class
		{map[string]string{on: "true", size: "null", first: "0", types: ""}, [2]int{0, 0}},
		{map[string]string{on: "false", size: "16", first: "0", types: ""}, [2]int{0, 0}},
		{map[string]string{on: "", size: "16", first: "0", types: ""}, [2]int{0, 0}},
		{map[string]string{on: "true", size: "16", first: "0", types: `["sliding_attention","full_attention"]`}, [2]int{16, 0}}, // types decide
	} {
		cfg, err := read(t, c.edits)
		if err != nil {
			t.Errorf("%v: %v", c.edits, err)
			continue
		}
		if got := [2]int{cfg.Block(0).Window, cfg.Block(1).Window}; got != c.want {
			t.Errorf("%v: windows %v, want %v", c.edits, got, c.want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"layer_types", `["full_attention","sliding_attention"]`, `field "layer_types" gives block 1 a window, but sliding_window is 0`},
		{"layer_types", `["full_attention","linear_attention"]`, `field "layer_types" gives block 1 the type "linear_attention", which is not supported`},
		{"layer_types", `["full_attention"]`, `field "layer_types" has 1 entries for 2 blocks`},
		{"use_mrope", "true", `field "use_mrope" is true`},
		{"rope_scaling", `{"type":"spiral","factor":4.0,"original_max_position_embeddings":32768}`, `"spiral", which is not supported`},
		{"rope_parameters", `{"rope_type":"default","mrope_section":[2,1,1]}`, `field "mrope_section" is [2,1,1]: the qwen2 family does not know it`},
		{"hidden_act", `"tanh"`, `field "hidden_act" is "tanh"`},
		{"hidden_size", "70", `field "hidden_size" is 70, no multiple of 9`},
		{"attention_multiplier", "2.0", `field "attention_multiplier" is 2.0: the qwen2 family does not know it`},
		{"quantization_config", `{"quant_method":"gptq"}`, "already quantised (gptq)"},
		{"num_experts", "4", `field "num_experts" is 4: the qwen2 family does not know it`},
	} {
		if _, err := read(t, map[string]string{c.field: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error with %s", c.field, c.value, err, c.want)
		}
	}
}
