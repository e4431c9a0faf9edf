package model_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"whorl/model/families"
)

// One model is one Config and one hash, in both forms of config.json, under other prefixes
// and in GGUF; a root is of stored bytes, and GGUF stores vectors as float32.
func TestFormsOfAModelAgree(t *testing.T) {
	for _, dir := range []string{"testdata/qwen2", "testdata/qwen3", "testdata/mistral", "testdata/mistralwindow",
		"testdata/qwen2window", "testdata/qwen3window", "testdata/yarn", "testdata/yarnfull", "testdata/yarnkeys", "testdata/dynamic", "testdata/mixtral",
		"testdata/mixtralwindow", "testdata/qwen3moestep", "testdata/qwen3moe", "testdata/gemma2", "testdata/gemma3",
		"testdata/phi3", "testdata/olmo2", "testdata/smollm3", "testdata/granite", "testdata/cohere", "testdata/bloom", "testdata/bloomq", "testdata/falcon", "testdata/falcon40", "testdata/falcon11"} {
		t.Run(dir, func(t *testing.T) {
			base := open(t, dir)
			wantDigest, err := base.BlockRoot(1)
			if err != nil {
				t.Fatal(err)
			}
			old := copyModel(t, dir)
			if err := os.Rename(filepath.Join(old, "config.v4.json"), filepath.Join(old, "config.json")); err != nil {
				t.Fatal(err)
			}
			bare := copyModel(t, dir)
			withoutPrefix(t, filepath.Join(bare, "model.safetensors"))
			forms := []string{old, bare}
			if gguf := dir + "/model.gguf"; fileExists(gguf) {
				forms = append(forms, gguf)
			}
			for _, path := range forms {
				ck := open(t, path)
				if !reflect.DeepEqual(ck.Config, base.Config) || ck.Config.Hash() != base.Config.Hash() {
					t.Errorf("%s: %+v, want %+v", path, ck.Config, base.Config)
				}
				digest, err := ck.BlockRoot(1)
				if err != nil {
					t.Fatal(err)
				}
				if ck.Source == base.Source && digest != wantDigest {
					t.Errorf("%s: another root of block 1", path)
				}
			}
		})
	}
}

// withoutPrefix renames the tensors of a file, if they have a prefix.
func withoutPrefix(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{`"model.`, `"transformer.`} {
		if bytes.Contains(raw, []byte(prefix)) {
			patch(t, path, prefix, strings.Repeat(" ", len(prefix)-1)+`"`)
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// patch replaces bytes of a file by as many others.
func patch(t *testing.T, path, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != len(to) || !bytes.Contains(raw, []byte(from)) {
		t.Fatalf("%s: %q is not replaced by %q", path, from, to)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte(from), []byte(to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Tensors that the graph needs, or that it has no place for, are named.
func TestFamiliesNameWrongTensors(t *testing.T) {
	for _, c := range []struct{ dir, file, from, to, want string }{
		{"qwen2", "model.safetensors", "layers.1.self_attn.k_proj.bias", "layers.1.self_attn.k_proj.biaz",
			`tensor "model.layers.1.self_attn.k_proj.bias" is missing`},
		{"qwen3", "model.safetensors", "layers.1.self_attn.q_norm", "layers.1.self_attn.q_nozm",
			`tensor "model.layers.1.self_attn.q_norm.weight" is missing`},
		{"qwen2", "model.gguf", "blk.1.attn_q.bias", "blk.1.attn_q.biaz", `tensor "blk.1.attn_q.bias" is missing`},
		{"qwen3", "model.gguf", "blk.2.attn_k_norm.weight", "blk.2.attn_k_nozm.weight", `tensor "blk.2.attn_k_norm.weight" is missing`},
		{"qwen3", "model.gguf", "qwen3.rope.freq_base", "qwen3.rope.freq_bass", `metadata key "qwen3.rope.freq_bass" is not known`},
		{"qwen2", "model.gguf", "qwen2.context_length", "qwen2.context_lengtt", `metadata key "qwen2.context_length" is missing`},
		// a bias that the configuration does not have
		{"qwen3biased", "config.json", `"attention_bias": true`, `"attention_bias":false`, `bias" has no place in a qwen3 model`},
	} {
		t.Run(c.dir+" "+c.from, func(t *testing.T) {
			dir := copyModel(t, filepath.Join("testdata", c.dir))
			file := filepath.Join(dir, c.file)
			patch(t, file, c.from, c.to)
			path := dir
			if c.file == "model.gguf" {
				path = file
			}
			if _, err := families.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %s", err, c.want)
			}
		})
	}
}

// Hashes are part of what servers announce: a new field of Config must not change those of
// models that do not use it.
func TestHashesStay(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/scaled":            "cfccd386660dda272a396a030574e0e2f04dd5d3c22317fdcf43a554d2b75ab2",
		"testdata/linear":            "361ce572adca9e204d785fb7b1ab66e7868f1860d0fa3eb930dd33f31fbaa4e9",
		"testdata/quants/model.gguf": "540eeffbf103a851e1ec7a7788b51ae17ad4636721a608825ef18b450593ac1a",
	} {
		if got := open(t, path).Config.Hash(); got != want {
			t.Errorf("%s: hash %s, want %s", path, got, want)
		}
	}
}
