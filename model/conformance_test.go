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
	table := []string{
		fmt.Sprintf("%-28s %-9s %-6s %-6s %-9s %-9s %-9s %s", "model", "family", "dtype", "quant", "prefill", "tolerance", "step", "ids"),
	}
	dev := openDevice(t, 2)
	for _, f := range fixtures {
		want := fixture.JSON[ref](t, f.ref)
		r := newRig(t, f.path, dev, model.LoadOptions{})
		prefill := outOfLibrary(r, want)
		equal, all := idsOf(r, want.Prompts)
		table = append(table, line(t, r, model.LoadOptions{}, f.name, prefill, steps(r, want.Blocks.IDs), fmt.Sprintf("%d/%d", equal, all)))
		if r.ck.TokenizerDir == "" { // GGUF: as it is stored and no other
			continue
		}
		for _, o := range loads(r.ck) {
			table = append(table, onLoad(t, dev, f.name, f.path, o, want.Blocks.IDs))
		}
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
	return line(t, r, o, name, farthest(got, inRows(want, r.ck.Config.Vocab)), steps(r, ids), "-")
}

// outOfLibrary is how far the outputs of blocks and the logits are from the library's.
func outOfLibrary(r *rig, want ref) float64 {
	worst := 0.0
	h := r.hidden(tensor.ActF32, func(i int, rows []float32) {
		worst = max(worst, farthest(rows, want.Blocks.Rows[i]))
	}, part{r.sequence(len(want.Blocks.IDs)), want.Blocks.IDs})
	return max(worst, farthest(r.logits(tensor.ActF32, h), want.Blocks.Logits))
}

// idsOf counts greedy ids that equal the library's, and the decided ones in all.
func idsOf(r *rig, prompts []prompt) (equal, all int) {
	var in [][]int32
	for _, p := range prompts {
		in = append(in, p.IDs)
	}
	for i, out := range r.greedyAll(tensor.ActF32, in, len(prompts[0].New)) {
		for j, id := range out {
			if prompts[i].Margins[j] < decided {
				break
			}
			if all++; id == prompts[i].New[j] {
				equal++
			}
		}
	}
	return equal, all
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

// line checks a result and writes it down.
func line(t *testing.T, r *rig, o model.LoadOptions, name string, prefill float64, same bool, ids string) string {
	t.Helper()
	class, err := r.ck.Class(o)
	if err != nil {
		t.Fatal(err)
	}
	step := "same bits"
	if !same {
		step = "differs"
	}
	s := fmt.Sprintf("%-28s %-9s %-6s %-6s %-9.1e %-9.0e %-9s %s",
		name, r.ck.Config.Family, class.DType, class.Quant, prefill, blockTolerance, step, ids)
	equal, all, counted := strings.Cut(ids, "/")
	if !(prefill <= blockTolerance) || !same || counted && equal != all {
		t.Errorf("out of tolerance:\n%s", s)
	}
	return s
}
