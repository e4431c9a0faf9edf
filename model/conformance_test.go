package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/fixture"
	"whorl/model"
	"whorl/tensor"
	float64s "whorl/tensor/ref"
)

// TestConformance holds every fixture, and every way to load it, against its reference: the
// library's record where weights stay as they are stored, and the float64 oracle on the
// same weights where they are rounded or quantised on load. Prefill and steps must have
// equal bits in both activation modes. `make conformance` prints the table.
func TestConformance(t *testing.T) {
	table := []string{fmt.Sprintf("%-28s %-9s %-6s %-6s %-9s %-9s %-9s %-9s %s",
		"model", "family", "dtype", "quant", "prefill", "tolerance", "step", "ids", "prompts")}
	dev := openDevice(t, 2)
	for _, f := range fixtures {
		lines, _ := conform(t, dev, f.name, f.path, f.ref)
		table = append(table, lines...)
	}
	for _, name := range wide {
		lines, prompts := conform(t, dev, name, writeWide(t, name), filepath.Join("testdata", name, "ref.json.gz"))
		if prompts < 50 {
			t.Errorf("%s: only %d prompts whose ids are all decided, want 50", name, prompts)
		}
		if want := 1 + 2 + len(model.Quantisers()); len(lines) != want {
			t.Errorf("%s: %d ways to load, want %d", name, len(lines), want)
		}
		table = append(table, lines...)
	}
	if path := os.Getenv("CONFORMANCE_TABLE"); path != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(table, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// conform gives the lines of a model, and the number of its prompts whose new ids are all
// decided: they equal transformers', or the test fails.
func conform(t *testing.T, dev tensor.Device, name, path, reference string) (lines []string, prompts int) {
	t.Helper()
	want := fixture.JSON[ref](t, reference)
	r := newRig(t, path, dev, model.LoadOptions{})
	ids := idsOf(r, want.Prompts)
	lines = []string{line(t, r, model.LoadOptions{}, name, outOfLibrary(r, want), steps(r, want.Blocks.IDs), &ids)}
	if r.ck.TokenizerDir == "" { // GGUF: as it is stored and no other
		return lines, ids.prompts
	}
	for _, o := range loads(r.ck) {
		lines = append(lines, onLoad(t, dev, name, path, o, want.Blocks.IDs))
	}
	return lines, ids.prompts
}

// loads are the ways to load a float model other than as it is stored that its widths
// permit.
func loads(ck *model.Checkpoint) []model.LoadOptions {
	stored, _ := ck.Class(model.LoadOptions{})
	var out []model.LoadOptions
	for _, d := range []string{"f32", "bf16", "f16"} {
		if d != stored.DType {
			out = append(out, model.LoadOptions{DType: d})
		}
	}
	for _, q := range model.Quantisers() {
		o := model.LoadOptions{Quant: q}
		if _, err := ck.Class(o); err == nil {
			out = append(out, o)
		}
	}
	return out
}

// onLoad compares a way of loading with the oracle.
func onLoad(t *testing.T, dev tensor.Device, name, path string, o model.LoadOptions, ids []int32) string {
	r, oracle := newRig(t, path, dev, o), newRig(t, path, float64s.New(), o)
	got := r.logits(tensor.ActF32, r.hidden(tensor.ActF32, nil, part{r.sequence(len(ids)), ids}))
	want := oracle.logits(tensor.ActF32, oracle.hidden(tensor.ActF32, nil, part{oracle.sequence(len(ids)), ids}))
	return line(t, r, o, name, farthest(got, inRows(want, r.ck.Config.Vocab)), steps(r, ids), nil)
}

// outOfLibrary is how far the outputs of blocks and the logits are from transformers'.
func outOfLibrary(r *rig, want ref) float64 {
	worst := 0.0
	h := r.hidden(tensor.ActF32, func(i int, rows []float32) {
		worst = max(worst, farthest(rows, want.Blocks.Rows[i]))
	}, part{r.sequence(len(want.Blocks.IDs)), want.Blocks.IDs})
	return max(worst, farthest(r.logits(tensor.ActF32, h), want.Blocks.Logits))
}

// counts are of greedy ids by which transformers' two best logits differ enough.
type counts struct {
	equal, decided int
	prompts, all   int // those all of whose ids are decided and equal
}

// idsOf compares greedy ids with transformers', of each prompt up to the first that is not
// decided.
func idsOf(r *rig, prompts []prompt) counts {
	var in [][]int32
	for _, p := range prompts {
		in = append(in, p.IDs)
	}
	c := counts{all: len(prompts)}
	for i, out := range r.greedyAll(tensor.ActF32, in, len(prompts[0].New)) {
		equal, sure := 0, 0
		for j, id := range out {
			if prompts[i].Margins[j] < decided {
				break
			}
			if sure++; id == prompts[i].New[j] {
				equal++
			}
		}
		c.equal, c.decided = c.equal+equal, c.decided+sure
		if equal == len(out) {
			c.prompts++
		}
	}
	return c
}

// steps tells whether single steps have the bits of one prefill, in both modes.
func steps(r *rig, ids []int32) bool {
	for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
		whole := r.hidden(mode, nil, part{r.sequence(len(ids)), ids})
		if !sameBits(inChunks(r, mode, ids, 1), whole) {
			return false
		}
	}
	return true
}

// line checks a result and writes it down. Ids are compared with transformers', so there
// are none where weights are not as they are stored.
func line(t *testing.T, r *rig, o model.LoadOptions, name string, prefill float64, same bool, ids *counts) string {
	t.Helper()
	class, err := r.ck.Class(o)
	if err != nil {
		t.Fatal(err)
	}
	step, equal, prompts := "same bits", "-", "-"
	if !same {
		step = "differs"
	}
	if ids != nil {
		equal, prompts = fmt.Sprintf("%d/%d", ids.equal, ids.decided), fmt.Sprintf("%d/%d", ids.prompts, ids.all)
	}
	s := fmt.Sprintf("%-28s %-9s %-6s %-6s %-9.1e %-9.0e %-9s %-9s %s",
		name, r.ck.Config.Family, class.DType, class.Quant, prefill, blockTolerance, step, equal, prompts)
	if !(prefill <= blockTolerance) || !same || ids != nil && ids.equal != ids.decided {
		t.Errorf("out of tolerance:\n%s", s)
	}
	return s
}
