package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/tensor"
)

// Floats that lie on the grid of a format, quantised at load, are the GGUF file of that
// format, to the bit: in these models Q, K and V are rows of one tensor, in another order in
// each of the files.
func TestQuantisedAtLoadIsTheGGUF(t *testing.T) {
	dev := openDevice(t, 2)
	for _, dir := range fusedQuantised {
		prompt := ids(70, 5)
		stored := newRig(t, dir+"/model.gguf", dev, model.LoadOptions{})
		loaded := newRig(t, dir, dev, model.LoadOptions{Quant: "q8_0"})
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			want := stored.hidden(mode, nil, part{stored.sequence(len(prompt)), prompt})
			got := loaded.hidden(mode, nil, part{loaded.sequence(len(prompt)), prompt})
			if !sameBits(got, want) {
				t.Errorf("%s, %s: other bits than those of the GGUF file", dir, mode)
			}
		}
	}
}

var fusedQuantised = []string{"testdata/bloomq", "testdata/falcon11"}

// Tensors of fused parameters are named as the file names them.
func TestFusedTensorsAreNamed(t *testing.T) {
	for _, c := range fusedWrong {
		t.Run(c.dir+" "+c.from, func(t *testing.T) {
			dir := copyModel(t, filepath.Join("testdata", c.dir))
			path, file := dir, filepath.Join(dir, c.file)
			patch(t, file, c.from, c.to)
			if c.file == "model.gguf" {
				path = file
			}
			if _, err := families.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %s", err, c.want)
			}
		})
	}
}

var fusedWrong = []struct{ dir, file, from, to, want string }{
	{"bloom", "model.safetensors", "h.1.self_attention.query_key_value.bias", "h.1.self_attention.query_key_value.biaz",
		`tensor "h.1.self_attention.query_key_value.bias" is missing`},
	{"bloom", "model.safetensors", "word_embeddings_layernorm.bias", "word_embeddings_layernorm.biaz",
		`tensor "word_embeddings_layernorm.bias" is missing`},
	{"bloom", "model.gguf", "blk.1.attn_qkv.weight", "blk.1.attn_qkw.weight", `tensor "blk.1.attn_qkv.weight" is missing`},
	{"bloom", "model.gguf", "bloom.attention.layer_norm_epsilon", "bloom.attention.clamp_kqv_epsilons",
		`metadata key "bloom.attention.clamp_kqv_epsilons" is not known to the bloom family`},
	{"bloomq", "config.json", `"n_head": 16`, `"n_head": 15`, `field "hidden_size" is 64, no multiple of 15 attention heads`},
	{"falcon", "model.safetensors", "h.1.input_layernorm.weight", "h.1.inpud_layernorm.weight",
		`tensor "transformer.h.1.input_layernorm.weight" is missing`},
	{"falcon40", "model.safetensors", "h.1.ln_mlp.weight", "h.1.ln_mlq.weight", `tensor "transformer.h.1.ln_mlp.weight" is missing`},
	{"falcon40", "model.gguf", "blk.1.attn_norm_2.weight", "blk.1.attn_norm_3.weight", `tensor "blk.1.attn_norm_2.weight" is missing`},
	{"falcon40", "config.json", `"num_ln_in_parallel_attn": 2`, `"num_ln_in_parallel_attn": 1`, `no tensor "transformer.h.0.input_layernorm.weight"`},
	{"falcon40", "config.json", `"num_kv_heads": 2`, `"num_kv_heads": 4`,
		`tensor "transformer.h.0.self_attention.query_key_value.weight" has the shape [64 32], but the configuration needs [96 32]`},
	{"falconrw", "config.json", `"bias": true`, `"bias":false`, `bias" has no place in a falcon model`},
}
