package model_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/internal/fixture"
	"whorl/internal/golden"
	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// gradientFixtures are what testdata/make_grad.py wrote: every family with weights as floats
// and in a quantised format, and models that have what those lack.
var gradientFixtures = []string{
	"bloom", "cohere", "falcon", "gemma2", "gemma3", "granite", "scaled", "mistral", "mixtral", "olmo2", "phi3", "qwen2", "qwen3", "qwen3moe", "smollm3",
	"falcon11", "falcon40", "falconrw", "mistralwindow", "mixtralwindow", "qwen3moestep", "qwen3biased", "dynamic", "yarnfull",
	"bloomq", "cohereq", "gemma2q", "gemma3q", "graniteq", "olmo2q", "phi3q", "smollm3q", "qwen3moe@q4_1", "bloomq/model.gguf", "falcon11/model.gguf",
	"llamawide", "mistralwide", "mixtralwide", "qwen2wide", "qwen3wide", "falconwide",
}

type gradients struct {
	Lengths []int          `json:"lengths"`
	Prompts int            `json:"prompts"`
	Quant   string         `json:"quant"`
	Rows    fixture.Floats `json:"rows"`
	Table   fixture.Floats `json:"table"`
}

// Gradients by rows and by prompts are those of torch in float32, as near as that is to torch
// in float64 ([fixture.Floats.Compare]).
func TestGradientsAreThoseOfTorch(t *testing.T) {
	dev := openDevice(t, 2)
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %-9s %-12s %-22s %-12s %s\n", "model", "family", "weights", "by rows, of greatest", "of allowed", "by prompts, of greatest, of allowed")
	for _, name := range gradientFixtures {
		t.Run(name, func(t *testing.T) {
			name, kind, again := strings.Cut(name, "@")
			folder, _, _ := strings.Cut(name, "/")
			path, file := "testdata/"+name, "grad.json.gz"
			if again {
				file = "grad." + kind + ".json.gz"
			}
			want := fixture.JSON[gradients](t, filepath.Join("testdata", folder, file))
			if slices.Contains(wide, folder) {
				path = writeWide(t, folder)
			}
			r := newGradientRig(t, path, dev, want)
			rows, prompts := r.run(want.Lengths, want.Prompts)
			class, err := r.ck.Class(model.LoadOptions{Quant: want.Quant})
			if err != nil {
				t.Fatal(err)
			}
			weights := class.Quant
			if weights == "none" {
				weights = class.DType
			}
			line := fmt.Sprintf("%-20s %-9s %-12s", strings.TrimSuffix(name, "/model.gguf"), r.ck.Config.Family, weights)
			for _, c := range []struct {
				what string
				got  []float32
				want fixture.Floats
			}{{"gradients by rows", rows, want.Rows}, {"gradients by prompts", prompts, want.Table}} {
				ofGreatest, ofAllowed := c.want.Compare(t, c.what, c.got)
				line += fmt.Sprintf(" %-22.1e %-12.2f", ofGreatest, ofAllowed)
			}
			table.WriteString(strings.TrimRight(line, " ") + "\n")
		})
	}
	golden.Check(t, "testdata/gradients.txt", table.String())
}

// gradientRig goes back through all blocks of a model.
type gradientRig struct {
	*rig
	space *nn.BackSpace
}

func newGradientRig(t *testing.T, path string, dev tensor.Device, g gradients) *gradientRig {
	t.Helper()
	r := &gradientRig{rig: newRig(t, path, dev, model.LoadOptions{Quant: g.Quant})}
	var specs []nn.Spec
	for _, b := range r.blocks {
		specs = append(specs, b.Spec())
	}
	var err error
	if r.space, err = nn.NewBackSpace(dev, slices.Max(g.Lengths), specs...); err != nil {
		t.Fatal(err)
	}
	return r
}

// run gives the gradients by rows of all sequences, and by the prompts of each.
func (r *gradientRig) run(lengths []int, prompts int) (rows, table []float32) {
	h, layers := r.ck.Config.Hidden, len(r.blocks)
	for i, n := range lengths {
		seq := r.sequence(n)
		b := &tensor.Batch{Seqs: []tensor.KVView{seq.view}}
		for pos := range n {
			b.Rows = append(b.Rows, tensor.Row{Pos: int32(pos)})
		}
		x, p, d := fixture.Counted(uint64(8*i+1), n*h), fixture.Counted(uint64(8*i+2), layers*prompts*h), fixture.Counted(uint64(8*i+3), n*h)
		inputs := make([][]float32, layers)
		for l, block := range r.blocks {
			for j, v := range p[l*prompts*h : (l+1)*prompts*h] {
				x[j] += v / 2
			}
			inputs[l] = slices.Clone(x)
			r.dev.Upload(r.ws.X, 0, x)
			block.Forward(r.ws, b, r.ws.X, r.kv, 0, tensor.ActF32)
			r.dev.Download(x, r.ws.X, 0)
		}
		grads := make([]float32, layers*prompts*h)
		r.dev.Upload(r.space.D, 0, d)
		for l := layers - 1; l >= 0; l-- {
			r.dev.Upload(r.space.X, 0, inputs[l])
			r.blocks[l].Backward(r.space, b, r.kv, nil)
			r.dev.Download(d, r.space.D, 0)
			copy(grads[l*prompts*h:], d[:prompts*h])
		}
		if err := r.dev.Sync(); err != nil {
			r.t.Fatal(err)
		}
		rows, table = append(rows, d...), append(table, grads...)
	}
	return rows, table
}
