package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"whorl/internal/fixture"
	"whorl/model"
	"whorl/tensor"
)

// A step whose two best logits lie nearer than this may go either way in another order of
// summation; testdata/PROVENANCE.md says the same.
const decided = 1e-3

// fixtures are the tiny models; what is proven of one is proven of all of them.
var fixtures = []struct{ name, path, ref string }{
	{"scaled safetensors", "testdata/scaled", "testdata/scaled/ref.json.gz"},
	{"scaled GGUF", "testdata/scaled/model.gguf", "testdata/scaled/ref.json.gz"},
	{"linear", "testdata/linear", "testdata/linear/ref.json.gz"},
	{"pair safetensors", "testdata/pair", "testdata/pair/ref.json.gz"},
	{"pair GGUF", "testdata/pair/model.gguf", "testdata/pair/ref.json.gz"},
	{"quants", "testdata/quants/model.gguf", "testdata/quants/ref.json.gz"},
	{"mixed", "testdata/mixed/model.gguf", "testdata/mixed/ref.json.gz"},
	{"kquants", "testdata/kquants/model.gguf", "testdata/kquants/ref.json.gz"},
	{"repacked", "testdata/repacked/model.gguf", "testdata/repacked/ref.json.gz"},
	{"split GGUF", "testdata/split", "testdata/gemma2q/gguf.json.gz"},
	{"qwen2 safetensors", "testdata/qwen2", "testdata/qwen2/ref.json.gz"},
	{"qwen2 GGUF", "testdata/qwen2/model.gguf", "testdata/qwen2/ref.json.gz"},
	{"qwen3 safetensors", "testdata/qwen3", "testdata/qwen3/ref.json.gz"},
	{"qwen3 GGUF", "testdata/qwen3/model.gguf", "testdata/qwen3/ref.json.gz"},
	{"qwen3biased", "testdata/qwen3biased", "testdata/qwen3biased/ref.json.gz"},
	{"mistral safetensors", "testdata/mistral", "testdata/mistral/ref.json.gz"},
	{"phi3 safetensors", "testdata/phi3", "testdata/phi3/ref.json.gz"},
	{"phi3 GGUF", "testdata/phi3/model.gguf", "testdata/phi3/ref.json.gz"},
	{"phi3 wide", "testdata/phi3q", "testdata/phi3q/ref.json.gz"},
	{"phi3 quantised GGUF", "testdata/phi3q/model.gguf", "testdata/phi3q/gguf.json.gz"},
	{"olmo2 safetensors", "testdata/olmo2", "testdata/olmo2/ref.json.gz"},
	{"olmo2 GGUF", "testdata/olmo2/model.gguf", "testdata/olmo2/ref.json.gz"},
	{"olmo2 wide", "testdata/olmo2q", "testdata/olmo2q/ref.json.gz"},
	{"olmo2 quantised GGUF", "testdata/olmo2q/model.gguf", "testdata/olmo2q/gguf.json.gz"},
	{"smollm3 safetensors", "testdata/smollm3", "testdata/smollm3/ref.json.gz"},
	{"smollm3 GGUF", "testdata/smollm3/model.gguf", "testdata/smollm3/ref.json.gz"},
	{"smollm3 wide", "testdata/smollm3q", "testdata/smollm3q/ref.json.gz"},
	{"smollm3 quantised GGUF", "testdata/smollm3q/model.gguf", "testdata/smollm3q/gguf.json.gz"},
	{"granite safetensors", "testdata/granite", "testdata/granite/ref.json.gz"},
	{"granite GGUF", "testdata/granite/model.gguf", "testdata/granite/ref.json.gz"},
	{"granite wide", "testdata/graniteq", "testdata/graniteq/ref.json.gz"},
	{"granite quantised GGUF", "testdata/graniteq/model.gguf", "testdata/graniteq/gguf.json.gz"},
	{"cohere safetensors", "testdata/cohere", "testdata/cohere/ref.json.gz"},
	{"cohere GGUF", "testdata/cohere/model.gguf", "testdata/cohere/ref.json.gz"},
	{"cohere wide", "testdata/cohereq", "testdata/cohereq/ref.json.gz"},
	{"cohere quantised GGUF", "testdata/cohereq/model.gguf", "testdata/cohereq/gguf.json.gz"},
	{"gemma2 safetensors", "testdata/gemma2", "testdata/gemma2/ref.json.gz"},
	{"gemma2 GGUF", "testdata/gemma2/model.gguf", "testdata/gemma2/ref.json.gz"},
	{"gemma2 wide", "testdata/gemma2q", "testdata/gemma2q/ref.json.gz"},
	{"gemma2 quantised GGUF", "testdata/gemma2q/model.gguf", "testdata/gemma2q/gguf.json.gz"},
	{"gemma3 safetensors", "testdata/gemma3", "testdata/gemma3/ref.json.gz"},
	{"gemma3 GGUF", "testdata/gemma3/model.gguf", "testdata/gemma3/ref.json.gz"},
	{"gemma3 wide", "testdata/gemma3q", "testdata/gemma3q/ref.json.gz"},
	{"gemma3 quantised GGUF", "testdata/gemma3q/model.gguf", "testdata/gemma3q/gguf.json.gz"},
	{"mistral GGUF", "testdata/mistral/model.gguf", "testdata/mistral/ref.json.gz"},
	{"mistral with a window", "testdata/mistralwindow", "testdata/mistralwindow/ref.json.gz"},
	{"qwen2 with windows", "testdata/qwen2window", "testdata/qwen2window/ref.json.gz"},
	{"qwen3 with windows", "testdata/qwen3window", "testdata/qwen3window/ref.json.gz"},
	{"yarn safetensors", "testdata/yarn", "testdata/yarn/ref.json.gz"},
	{"yarn GGUF", "testdata/yarn/model.gguf", "testdata/yarn/ref.json.gz"},
	{"yarn with all parameters", "testdata/yarnfull", "testdata/yarnfull/ref.json.gz"},
	{"yarn by keys safetensors", "testdata/yarnkeys", "testdata/yarnkeys/ref.json.gz"},
	{"yarn by keys GGUF", "testdata/yarnkeys/model.gguf", "testdata/yarnkeys/ref.json.gz"},
	{"dynamic", "testdata/dynamic", "testdata/dynamic/ref.json.gz"},
	{"mixtral safetensors", "testdata/mixtral", "testdata/mixtral/ref.json.gz"},
	{"mixtral GGUF", "testdata/mixtral/model.gguf", "testdata/mixtral/ref.json.gz"},
	{"mixtral with a window", "testdata/mixtralwindow", "testdata/mixtralwindow/ref.json.gz"},
	{"mixtral quantised GGUF", "testdata/mixtralquants/model.gguf", "testdata/mixtralquants/ref.json.gz"},
	{"qwen3moe safetensors", "testdata/qwen3moe", "testdata/qwen3moe/ref.json.gz"},
	{"qwen3moe GGUF", "testdata/qwen3moe/model.gguf", "testdata/qwen3moe/ref.json.gz"},
	{"qwen3moe with dense blocks", "testdata/qwen3moestep", "testdata/qwen3moestep/ref.json.gz"},
	{"bloom safetensors", "testdata/bloom", "testdata/bloom/ref.json.gz"},
	{"bloom GGUF", "testdata/bloom/model.gguf", "testdata/bloom/ref.json.gz"},
	{"bloomq safetensors", "testdata/bloomq", "testdata/bloomq/ref.json.gz"},
	{"bloomq GGUF", "testdata/bloomq/model.gguf", "testdata/bloomq/ref.json.gz"},
	{"falcon safetensors", "testdata/falcon", "testdata/falcon/ref.json.gz"},
	{"falconrw safetensors", "testdata/falconrw", "testdata/falconrw/ref.json.gz"},
	{"falcon40 safetensors", "testdata/falcon40", "testdata/falcon40/ref.json.gz"},
	{"falcon11 safetensors", "testdata/falcon11", "testdata/falcon11/ref.json.gz"},
	{"falcon GGUF", "testdata/falcon/model.gguf", "testdata/falcon/ref.json.gz"},
	{"falcon40 GGUF", "testdata/falcon40/model.gguf", "testdata/falcon40/ref.json.gz"},
	{"falcon11 GGUF", "testdata/falcon11/model.gguf", "testdata/falcon11/ref.json.gz"},
}

func TestEqualsReference(t *testing.T) {
	dev := openDevice(t, 2)
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			r := newRig(t, f.path, dev, model.LoadOptions{})
			want := fixture.JSON[ref](t, f.ref)
			if len(want.Prompts) < 20 {
				t.Errorf("%d prompts, want at least 20", len(want.Prompts))
			}
			checkPrompts(t, r, want.Prompts)
			checkScores(t, r, want)
			checkBlocks(t, r, want)
		})
	}
}

// checkPrompts compares greedy ids up to the first undecided step that went the other way.
func checkPrompts(t *testing.T, r *rig, prompts []prompt) {
	t.Helper()
	checkPromptsUnder(t, r, prompts, tensor.ActF32)
}

func checkPromptsUnder(t *testing.T, r *rig, prompts []prompt, mode tensor.Activations) {
	t.Helper()
	var in [][]int32
	for _, p := range prompts {
		in = append(in, p.IDs)
	}
	out := r.greedyAll(mode, in, len(prompts[0].New))
	compared, all := 0, 0
	for i, p := range prompts {
		all += len(p.New)
		for j, got := range out[i] {
			if got != p.New[j] {
				if p.Margins[j] >= decided {
					t.Errorf("prompt %d: id %d is %d, the reference has %d by a margin of %g", i, j, got, p.New[j], p.Margins[j])
				}
				break
			}
			compared++
		}
	}
	if compared < all*9/10 {
		t.Errorf("only %d of %d ids were compared", compared, all)
	}
}

func checkScores(t *testing.T, r *rig, want ref) {
	t.Helper()
	if len(want.Scores) == 0 {
		t.Fatal("no scores to compare")
	}
	worst := 0.0
	for _, s := range want.Scores {
		for i, got := range r.score(tensor.ActF32, s.IDs) {
			worst = max(worst, math.Abs(got-*s.Logprobs[i+1]))
		}
	}
	if !(worst <= 1e-4) {
		t.Errorf("a logprob is off by %g, want at most 1e-4", worst)
	}
	t.Logf("logprobs: off by at most %.2g", worst)
}

// Both sides round every product and sum of a row's chain in float32 (unit 2^-24) in
// different orders. A sum of K terms is off by at most K*2^-24 of the sum of magnitudes and
// in practice by about sqrt(K); with K up to 256, some ten such sums a block, and residual
// rows that grow from block to block, 2^-24 * 16 * 10 = 1e-5 of the largest value of the
// row is a bound that a wrong angle, norm or scale (1e-3 and more) exceeds a hundredfold.
const blockTolerance = 1e-5

func checkBlocks(t *testing.T, r *rig, want ref) {
	t.Helper()
	checkBlocksUnder(t, r, want, tensor.ActF32)
}

func checkBlocksUnder(t *testing.T, r *rig, want ref, mode tensor.Activations) {
	t.Helper()
	h := r.hidden(mode, func(i int, rows []float32) {
		if diff := farthest(rows, want.Blocks.Rows[i]); !(diff <= blockTolerance) {
			t.Errorf("after block %d (0 is the embedding) rows are off by %g of their largest value", i, diff)
		}
	}, part{r.sequence(len(want.Blocks.IDs)), want.Blocks.IDs})
	if diff := farthest(r.logits(mode, h), want.Blocks.Logits); !(diff <= blockTolerance) {
		t.Errorf("logits are off by %g of their largest value", diff)
	}
}

// farthest is the largest difference, as a part of the largest value of the row.
func farthest(got []float32, want [][]float32) float64 {
	worst := 0.0
	for i, row := range want {
		var top, diff float64
		for j, w := range row {
			top = max(top, math.Abs(float64(w)))
			diff = max(diff, math.Abs(float64(got[i*len(row)+j]-w)))
		}
		worst = max(worst, diff/top)
	}
	return worst
}

func inRows(values []float32, width int) [][]float32 {
	return slices.Collect(slices.Chunk(values, width))
}

func TestToyEqualsReference(t *testing.T) {
	const toy = "../internal/swarmtest/testdata/toy"
	raw, err := os.ReadFile(filepath.Join(toy, "ref.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Prompts []struct {
			prompt
			Joined []int32 `json:"joined"`
			After  []int32 `json:"after"`
		} `json:"prompts"`
		Long prompt `json:"long"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, toy, openDevice(t, 2), model.LoadOptions{})
	var in, joined [][]int32
	for _, p := range want.Prompts {
		in = append(in, p.IDs)
		joined = append(joined, p.Joined)
	}
	out := r.greedyAll(tensor.Act8, in, len(want.Prompts[0].New))
	after := r.greedyAll(tensor.Act8, joined, len(want.Prompts[0].After))
	for i, p := range want.Prompts {
		if !slices.Equal(out[i], p.New) {
			t.Errorf("prompt %v: ids differ from the reference", p.IDs)
		}
		if !slices.Equal(after[i], p.After) {
			t.Errorf("prompt %v, continued: ids differ from the reference", p.IDs)
		}
	}
	if got := r.greedy(tensor.Act8, want.Long.IDs, len(want.Long.New)); !slices.Equal(got, want.Long.New) {
		t.Error("the long continuation differs from the reference")
	}
	if !slices.Equal(r.ck.EOS(), []int32{2}) {
		t.Errorf("end tokens %v, want [2]", r.ck.EOS())
	}
}
