package model_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/families"
)

// refused opens what must not open, and checks the line that says why.
func refused(t *testing.T, path, want string) {
	t.Helper()
	ck, err := families.Open(path)
	if err == nil {
		ck.Close()
		t.Errorf("%s opened, want %q", path, want)
		return
	}
	if msg := err.Error(); strings.Contains(msg, "\n") || !strings.HasPrefix(msg, "open model: ") || !strings.Contains(msg, want) {
		t.Errorf("error %q: want one line with %q", msg, want)
	}
}

func TestOpenNamesWrongPaths(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused(t, filepath.Join(dir, "none"), "no such file or directory")
	refused(t, dir, "holds no config.json: want a model folder or a .gguf file")
	refused(t, file("notes.txt", "hello"), "neither a model folder nor a GGUF file")
	refused(t, file("model.safetensors", "x"), "give the folder that holds this file and config.json")
	refused(t, file("short.gguf", "GG"), "truncated or corrupt")
	refused(t, file("text.gguf", "this is no model at all"), `not a GGUF file: it starts with "this"`)
	refused(t, file("named-otherwise", "GGUF\x01\x00\x00\x00"), "GGUF version 1")
	file("config.json", "[]")
	refused(t, dir, "config.json is not a JSON object")
}

// with sets fields of a fixture's config.json; a value of nil removes the field.
func with(t *testing.T, fixture string, fields map[string]any) string {
	t.Helper()
	dir := copyModel(t, fixture)
	file := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		if config[name] = v; v == nil {
			delete(config, name)
		}
	}
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Case A51: what alters the maths is used or refused by name.
func TestOpenNamesWrongConfigs(t *testing.T) {
	rope := func(fields map[string]any) map[string]any {
		fields["rope_theta"] = 1e4
		return map[string]any{"rope_parameters": fields}
	}
	for _, tt := range []struct {
		fields map[string]any
		want   string
	}{
		{map[string]any{"architectures": []string{"GPT2LMHeadModel"}}, `unknown architecture "GPT2LMHeadModel": supported are `},
		{map[string]any{"architectures": nil, "model_type": "gpt2"}, `unknown architecture "gpt2"`},
		{map[string]any{"model_type": "mistral"}, `field "model_type" is "mistral", but architectures has LlamaForCausalLM, a model of type "llama"`},
		{map[string]any{"attn_logit_softcapping": 50}, `field "attn_logit_softcapping" is 50: the llama family does not know it`},
		{map[string]any{"sliding_window": 4096}, `field "sliding_window" is 4096`},
		{map[string]any{"pretraining_tp": 2}, `field "pretraining_tp" is 2, which is not supported: only 1 is`},
		{map[string]any{"rope_interleaved": true}, `field "rope_interleaved" is true`},
		{map[string]any{"hidden_act": "tanh"}, `field "hidden_act" is "tanh"`},
		{map[string]any{"quantization_config": map[string]any{"quant_method": "gptq"}}, "already quantised (gptq)"},
		{map[string]any{"hidden_size": nil}, `field "hidden_size" is missing`},
		{map[string]any{"hidden_size": "64"}, `field "hidden_size" is "64", want a whole number`},
		{map[string]any{"hidden_size": 64.5}, `field "hidden_size" is 64.5, want a whole number`},
		{map[string]any{"hidden_size": 1e12}, `want a whole number`},
		{map[string]any{"hidden_size": -64}, "the hidden size is -64"},
		{map[string]any{"num_hidden_layers": 0}, "the number of blocks is 0"},
		{map[string]any{"num_hidden_layers": 1 << 20}, "the number of blocks is 1048576"},
		{map[string]any{"num_attention_heads": 0}, "the number of attention heads is 0"},
		{map[string]any{"num_attention_heads": 3, "head_dim": 16}, "3 attention heads are no multiple of 2 key/value heads"},
		{map[string]any{"num_attention_heads": 7, "head_dim": nil}, "no multiple of 7 attention heads"},
		{map[string]any{"head_dim": 15}, "15 rotated elements a head"},
		{map[string]any{"rms_norm_eps": 0}, "the epsilon of the norms is 0"},
		{map[string]any{"vocab_size": 1 << 40}, `field "vocab_size"`},
		{map[string]any{"tie_word_embeddings": "yes"}, `field "tie_word_embeddings" is "yes", want true or false`},
		{map[string]any{"eos_token_id": "</s>"}, ""}, // generation_config.json says it
		{map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2.0}}, "disagrees with rope_parameters"},
		{rope(map[string]any{"rope_type": "spiral", "factor": 4.0}), `rope_parameters: field "rope_type" is "spiral", which is not supported: supported are default, linear, dynamic, yarn, longrope, llama3`},
		{rope(map[string]any{"rope_type": "linear"}), "factor is 0, want a positive number"},
		{rope(map[string]any{"rope_type": "linear", "factor": 2.0, "mscale": 1.0}), `field "mscale" is 1`},
		{rope(map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}), "high_freq_factor 1 is not above"},
		{rope(map[string]any{"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.0}), `field "attention_factor" is 0, want a positive number`},
		{rope(map[string]any{"rope_type": "default", "partial_rotary_factor": 0.5}), `field "partial_rotary_factor" is 0.5`},

		// the tensors do not fit
		{map[string]any{"vocab_size": 385}, `tensor "model.embed_tokens.weight" has the shape [384 64], but the configuration needs [385 64]`},
		{map[string]any{"intermediate_size": 48}, `tensor "model.layers.0.mlp.gate_proj.weight" has the shape [32 64], but the configuration needs [48 64]`},
		{map[string]any{"num_hidden_layers": 9}, `tensor "model.layers.8.input_layernorm.weight" is missing`},
		{map[string]any{"num_hidden_layers": 7}, `tensor "model.layers.7.input_layernorm.weight" has no place in a llama model of 7 blocks`},
		{map[string]any{"attention_bias": true}, `tensor "model.layers.0.self_attn.q_proj.bias" is missing`},
		{map[string]any{"tie_word_embeddings": false}, `tensor "lm_head.weight" is missing`},
	} {
		dir := with(t, toyPath, tt.fields)
		if tt.want == "" {
			open(t, dir)
			continue
		}
		refused(t, dir, tt.want)
	}
}

// Fields that say nothing, and forms that occur in the wild.
func TestOpenToleratesHarmlessFields(t *testing.T) {
	want := open(t, toyPath).Config
	for _, fields := range []map[string]any{
		{"transformers.js_config": map[string]any{"dtype": "q4"}, "is_llama_config": true, "rope_interleaved": false},
		{"rope_parameters": nil, "rope_theta": 10000, "rope_scaling": nil, "pretraining_tp": 1, "torch_dtype": "bfloat16"},
		{"rope_parameters": nil}, // 10000 is what transformers assumes
		{"head_dim": nil},
		{"architectures": nil},
		{"bos_token_id": 5, "max_length": 20, "temperature": 0.6, "_name_or_path": "x", "unsloth_fixed": true},
	} {
		if got := open(t, with(t, toyPath, fields)).Config; got.Hash() != want.Hash() {
			t.Errorf("%v: the configuration is\n%+v, want\n%+v", fields, got, want)
		}
	}
}

// Of yarn's switches, null is false to transformers, and is not the default.
func TestNullOfYarn(t *testing.T) {
	for text, want := range map[string]bool{"": false, `,"truncate":true`: false, `,"truncate":false`: true, `,"truncate":null`: true} {
		fields, err := model.ParseFields("rope", []byte(`{"rope_type":"yarn","factor":4`+text+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r := model.RopeFields{Theta: 1e4, HeadDim: 16, MaxPositions: 64}.Scaled(fields)
		if fields.Err() != nil || r.Untruncate != want {
			t.Errorf("%q: not rounded is %v (%v), want %v", text, r.Untruncate, fields.Err(), want)
		}
	}
}

func TestEOS(t *testing.T) {
	dir := copyModel(t, toyPath)
	for text, want := range map[string]int{`{"eos_token_id":[7,8]}`: 2, `{}`: 1, `{"eos_token_id":null}`: 1} {
		if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := open(t, dir).EOS(); len(got) != want {
			t.Errorf("%s: end tokens %v", text, got)
		}
	}
	if err := os.Remove(filepath.Join(dir, "generation_config.json")); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir).EOS(); len(got) != 1 || got[0] != 2 {
		t.Errorf("config.json alone: end tokens %v", got)
	}
	refused(t, with(t, "testdata/pair", map[string]any{"eos_token_id": "</s>"}), "want an id or a list of ids")
}

// A GGUF file with one word of its header changed to another of the same length.
func TestOpenNamesWrongGGUF(t *testing.T) {
	for _, tt := range []struct{ fixture, from, to, want string }{
		{"pair", "general.architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00llama", "general.architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00gemma", `unknown architecture "gemma": supported are `},
		{"pair", "general.architecture", "general.architecturf", `"general.architecture" is missing`},
		{"pair", "llama.block_count", "llama.block_Count", `metadata key "llama.block_count" is missing`},
		{"pair", "llama.vocab_size", "llama.attn_scale", `metadata key "llama.attn_scale" is not known to the llama family`},
		{"pair", "blk.1.attn_q.weight", "blk.1.attn_X.weight", `tensor "blk.1.attn_q.weight" is missing`},
		{"pair", "\x00output.weight", "\x00outpuX.weight", ""}, // then the head is tied
		{"quants", "blk.2.attn_q.bias", "blk.2.attn_q.bIas", `tensor "blk.2.attn_q.bias" is missing`},
		{"quants", "blk.0.attn_q.bias", "blk.0.attn_q.bIas", `tensor "blk.0.attn_k.bias" has no place`},
		// block 0's gate: dims 64 and 96, type 8 (Q8_0) becomes 9 (Q8_1)
		{
			"quants", "\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00",
			"\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00", "overlap",
		},
		// block 3's gate: F16 becomes I16 (25), of the same size
		{
			"quants", "\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00",
			"\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x19\x00\x00\x00",
			`tensor "blk.3.ffn_gate.weight" has the type I16, which is not supported: supported are F32`,
		},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", tt.fixture, "model.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw, []byte(tt.from)) {
			t.Fatalf("%s has no %q", tt.fixture, tt.from)
		}
		path := filepath.Join(t.TempDir(), "changed.gguf")
		if err := os.WriteFile(path, bytes.Replace(raw, []byte(tt.from), []byte(tt.to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.want == "" {
			if !open(t, path).Config.Tied {
				t.Errorf("%q: the head is not tied", tt.to)
			}
			continue
		}
		refused(t, path, tt.want)
	}
}

// Whatever config.json says, each family ends in a valid configuration or in an error.
func FuzzConfig(f *testing.F) {
	for _, dir := range []string{toyPath, "testdata/scaled", "testdata/linear", "testdata/bloom", "testdata/falcon40", "testdata/falconrw"} {
		for _, name := range []string{"config.json", "config.v4.json"} {
			if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				f.Add(raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, fam := range families.All() {
			fields, err := model.ParseFields("config.json", raw)
			if err != nil {
				return
			}
			cfg, err := fam.FromJSON(fields)
			if err != nil || cfg.Validate() != nil {
				continue
			}
			if cfg.Hash() == "" || len(cfg.Rope.InvFreq()) != cfg.Rope.Dim/2 || cfg.BlockParams(0) <= 0 {
				t.Errorf("%s: %+v", fam.Name, cfg)
			}
		}
	})
}
