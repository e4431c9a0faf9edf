package lora_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/model/lora"
	"whorl/tensor/cpu"
)

const toy = "../../internal/swarmtest/testdata/toy"

// adapters are the fixtures and the models that they are for.
var adapters = []struct{ name, base string }{
	{"toy-list", toy},
	{"toy-regex", toy},
	{"scaled-patterns", "../testdata/scaled"},
	{"qwen2-layers", "../testdata/qwen2"},
	{"quants-all", "../testdata/quants/model.gguf"},
	{"bloom-fused", "../testdata/bloom"},
	{"bloom-fused", "../testdata/bloom/model.gguf"},
	{"falcon40-all", "../testdata/falcon40"},
	{"phi3-all", "../testdata/phi3"},
	{"gemma2-all", "../testdata/gemma2"},
	{"mixtral-attention", "../testdata/mixtral"},
}

func openModel(t testing.TB, path string) *model.Checkpoint {
	t.Helper()
	ck, err := families.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

func TestOpenLoadsEveryFixture(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	digests := map[string]string{}
	for _, f := range adapters {
		ck := openModel(t, f.base)
		a, err := lora.Open(filepath.Join("testdata", f.name), ck)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if a.Name != f.name || len(a.Digest) != 64 {
			t.Errorf("name %q, digest %q", a.Name, a.Digest)
		}
		// Of one adapter the same, whatever format the model has.
		if other, dup := digests[a.Digest]; dup && other != f.name {
			t.Errorf("%s and %s have one digest", f.name, other)
		}
		digests[a.Digest] = f.name
		var loaded, stored int64
		for i := range ck.Config.Layers {
			l, err := a.LoadBlock(dev, i)
			if err != nil {
				t.Fatal(err)
			}
			stored += a.BlockBytes(i)
			if l != nil {
				loaded += l.Bytes()
			}
			if f.name == "qwen2-layers" && (l == nil) != (i != 1) {
				t.Errorf("%s: block %d has %v", f.name, i, l)
			}
		}
		if stored == 0 || loaded < stored {
			t.Errorf("%s: %d bytes stored, %d loaded", f.name, stored, loaded)
		}
		if _, err := a.LoadBlock(dev, ck.Config.Layers); err == nil {
			t.Errorf("%s: a block that the model lacks was loaded", f.name)
		}
	}
}

// spoil copies a fixture and lets edit change its files.
func spoil(t *testing.T, name string, edit func(t *testing.T, dir string)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	edit(t, dir)
	return dir
}

// rename changes text in the names of tensors.
func rename(old, by string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, "adapter_model.safetensors")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint64(raw)
		header := strings.ReplaceAll(string(raw[8:8+n]), old, by)
		out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		if err := os.WriteFile(path, append(append(out, header...), raw[8+n:]...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// swap replaces text of a file by text of the same length, which keeps a header's offsets.
func swap(file, old, by string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), old) {
			t.Fatalf("%s does not contain %q", file, old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(raw), old, by, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func edits(list ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, edit := range list {
			edit(t, dir)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	const st, cfg = "adapter_model.safetensors", "adapter_config.json"
	for _, tt := range []struct {
		name, fixture, base string
		edit                func(*testing.T, string)
		want                string
	}{
		{"no config", "toy-list", toy, func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, cfg)) },
			"holds no adapter_config.json"},
		{"no weights", "toy-list", toy, func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, st)) },
			"holds no adapter_model.safetensors"},
		{"a pickle", "toy-list", toy, func(t *testing.T, dir string) {
			os.Rename(filepath.Join(dir, st), filepath.Join(dir, "adapter_model.bin"))
		}, "adapter_model.bin, a pickle, which can run code"},
		{"cut short", "toy-list", toy, func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, st), 20000); err != nil {
				t.Fatal(err)
			}
		}, "truncated or corrupt"},
		{"of another model", "scaled-patterns", "../testdata/pair", func(*testing.T, string) {}, `has the shape [2 48], but model and configuration need [2 64]`},
		{"of a model with more blocks", "quants-all", "../testdata/pair", func(*testing.T, string) {}, "has no place in a llama model of 2 blocks"},
		{"a block that the model lacks", "toy-list", toy, swap(st, "layers.7.self_attn.q_proj.lora_A", "layers.9.self_attn.q_proj.lora_A"),
			`tensor "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight" is missing`},
		{"half a pair", "toy-list", toy, swap(st, "layers.7.self_attn.q_proj.lora_B", "layers.7.self_attn.q_proj.lora_C"),
			`tensor "base_model.model.model.layers.7.self_attn.q_proj.lora_B.weight" is missing`},
		{"DoRA inside", "toy-list", toy, edits(
			swap(cfg, `"exclude_modules": null`, `"exclude_modules": ["7.self_attn.q_proj"]`),
			rename("layers.7.self_attn.q_proj.lora_A.weight", "layers.7.self_attn.q_proj.lora_magnitude_vector"),
			rename("layers.7.self_attn.q_proj.lora_B.weight", "layers.7.self_attn.q_proj.lora_magnitude_vector.b"),
		), "DoRA is not supported"},
		{"a router", "mixtral-attention", "../testdata/mixtral", edits(
			swap(cfg, `"o_proj"`, `"gate"`), rename("self_attn.o_proj", "mlp.gate"),
		), "adapters of routers are not supported"},
		{"a router by its name in checkpoints", "mixtral-attention", "../testdata/mixtral", edits(
			swap(cfg, `"o_proj"`, `"gate"`), rename("self_attn.o_proj", "block_sparse_moe.gate"),
		), "there are tensors for model.layers.0.block_sparse_moe.gate, which is not supported"},
		{"experts", "mixtral-attention", "../testdata/mixtral", edits(
			swap(cfg, `"o_proj"`, `"experts"`), rename("self_attn.o_proj", "mlp.experts"),
		), "adapters of experts are not supported"},
		{"another rank", "toy-list", toy, swap(cfg, `"r": 4`, `"r": 2`), "has the shape [4 64], but model and configuration need [2 64]"},
		{"fewer targets", "toy-list", toy, swap(cfg, `"q_proj",`, ``), "there are tensors for model.layers.0.self_attn.q_proj, but target_modules does not name it"},
		{"more targets", "toy-list", toy, swap(cfg, `"q_proj",`, `"q_proj", "k_proj",`),
			`target_modules names model.layers.0.self_attn.k_proj, but tensor "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight" is missing`},
		{"the head", "toy-list", toy, swap(cfg, `"q_proj",`, `"q_proj", "lm_head",`), "target_modules names lm_head, which is not supported"},
		{"the embeddings", "toy-list", toy, swap(cfg, `"q_proj",`, `"q_proj", "embed_tokens",`), "target_modules names model.embed_tokens, which is not supported"},
		{"nothing", "toy-list", toy, swap(cfg, `"q_proj",
  "v_proj"`, `"query"`), "there are tensors for model.layers.0.self_attn.q_proj"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := lora.Open(spoil(t, tt.fixture, tt.edit), openModel(t, tt.base))
			if err == nil {
				a.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// Whatever alters results alters the digest; whatever does not, does not.
func TestDigest(t *testing.T) {
	ck := openModel(t, toy)
	digest := func(edit func(*testing.T, string)) string {
		t.Helper()
		a, err := lora.Open(spoil(t, "toy-list", edit), ck)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return a.Digest
	}
	plain := digest(func(*testing.T, string) {})
	if got := digest(swap("adapter_config.json", `"base_model_name_or_path": "toy"`, `"base_model_name_or_path": "elsewhere"`)); got != plain {
		t.Error("a note changes the digest")
	}
	if digest(swap("adapter_config.json", `"lora_alpha": 8`, `"lora_alpha": 9`)) == plain {
		t.Error("alpha does not change the digest")
	}
	last := func(t *testing.T, dir string) {
		path := filepath.Join(dir, "adapter_model.safetensors")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)-1] ^= 1
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if digest(last) == plain {
		t.Error("a weight does not change the digest")
	}
}
