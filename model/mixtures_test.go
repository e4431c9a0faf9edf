package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/families"
)

// What is quantised on load is all matrices but the routers.
func TestRoutersAreNotQuantised(t *testing.T) {
	// hidden 32, 3 heads of 32 on 1, 5 or 7 experts of 32
	for path, experts := range map[string]int64{"testdata/mixtral": 5, "testdata/qwen3moe": 7} {
		ck := open(t, path)
		matrices, router := 2*96*32+2*32*32+experts*3*32*32, experts*32
		norms := ck.BlockParams(1) - matrices - router
		for quant, perGroup := range map[string]int64{"q8_0": 34, "q4_0": 18} {
			got, err := ck.BlockBytes(1, model.LoadOptions{Quant: quant})
			if want := matrices/32*perGroup + router*2 + norms*4; err != nil || got != want {
				t.Errorf("%s as %s: %d bytes a block (%v), want %d", path, quant, got, err, want)
			}
		}
	}
}

// A mixture's file that does not hold what the graph needs is named.
func TestMixturesNameWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ dir, file, from, to, want string }{
		{"mixtralquants", "model.gguf", "blk.1.ffn_up_exps", "blk.1.ffn_up_expz", `tensor "blk.1.ffn_up_exps.weight" is missing`},
		{"mixtral", "model.gguf", "blk.1.ffn_up.3.", "blk.1.ffn_up.9.", `tensor "blk.1.ffn_up.3.weight" is missing`},
		{"mixtral", "model.gguf", "blk.0.ffn_gate.0.", "blk.0.ffn_gate.9.", `tensor "blk.0.ffn_gate_exps.weight" is missing`},
		{"mixtral", "model.gguf", "blk.0.ffn_gate_inp", "blk.0.ffn_gate_imp", `tensor "blk.0.ffn_gate_inp.weight" is missing`},
		{"mixtral", "model.gguf", "llama.expert_used_count", "llama.expert_shared_cnt", `metadata key "llama.expert_used_count" is missing`},
		{"mixtral", "model.gguf", "llama.expert_count", "llama.expert_kount", `metadata key "llama.expert_used_count" is 2, which is not supported in a llama model`},
		{"mixtral", "model.safetensors", "layers.1.block_sparse_moe.experts.4.w2", "layers.1.block_sparse_moe.experts.4.w4",
			`tensor "model.layers.1.block_sparse_moe.experts.4.w2.weight" is missing`},
		{"qwen3moe", "model.gguf", "blk.1.ffn_down_exps", "blk.1.ffn_down_expz", `tensor "blk.1.ffn_down_exps.weight" is missing`},
		{"qwen3moestep", "config.json", `"decoder_sparse_step": 2`, `"decoder_sparse_step": 1`, `tensor "model.layers.0.mlp.gate.weight" is missing`},
		{"mixtral", "config.json", `"num_local_experts": 5`, `"num_local_experts": 4`,
			`tensor "model.layers.0.block_sparse_moe.gate.weight" has the shape [5 32], but the configuration needs [4 32]`},
	} {
		t.Run(c.dir+" "+c.from, func(t *testing.T) {
			dir := copyModel(t, filepath.Join("testdata", c.dir))
			path := filepath.Join(dir, c.file)
			patch(t, path, c.from, c.to)
			if c.file != "model.gguf" {
				path = dir
			}
			if _, err := families.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %s", err, c.want)
			}
		})
	}
}
