package blocks_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/fixture"
	"whorl/internal/golden"
	"whorl/tensor/cpu"
)

// adaptedGradients are what model/lora/testdata/make_gradients.py wrote of one adapted model.
type adaptedGradients struct {
	Lengths []int          `json:"lengths"`
	Prompts int            `json:"prompts"`
	Rows    fixture.Floats `json:"rows"`
	Table   fixture.Floats `json:"table"` // [sequence][block][position][hidden]
}

// lesson has the rows, prompts and gradients that the script took.
func (g *adaptedGradients) lesson(layers, hidden int) lesson {
	l := newLesson(layers, hidden, g.Prompts, g.Lengths...)
	l.Adapter, l.in, l.dout = 0, nil, nil
	table, seqs := g.Prompts*hidden, len(g.Lengths)
	for i, n := range g.Lengths {
		l.in = append(l.in, fixture.Counted(uint64(8*i+1), n*hidden)...)
		l.dout = append(l.dout, fixture.Counted(uint64(8*i+3), n*hidden)...)
		for at, v := range fixture.Counted(uint64(8*i+2), layers*table) {
			l.Prompts[(at/table*seqs+i)*table+at%table] = v / 2
		}
	}
	return l
}

// toy lies elsewhere than the other models.
const toy = "../../internal/swarmtest/testdata/toy"

// Gradients through blocks with an adapter are those that torch and the PEFT library have: of every kind of
// projection that adapters change, and of those that are stored as one.
func TestGradientsThroughAdaptersAreThoseOfTorch(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-18s %-22s %-12s %s\n", "adapter", "by rows, of greatest", "of allowed", "by prompts, of greatest, of allowed")
	for _, s := range []student{
		{toy, "toy-list"}, {toy, "toy-regex"}, {"scaled", "scaled-patterns"}, {"qwen2", "qwen2-layers"}, {"quants/model.gguf", "quants-all"},
		{"bloom", "bloom-fused"}, {"falcon40", "falcon40-all"}, {"phi3", "phi3-all"}, {"gemma2", "gemma2-all"}, {"mixtral", "mixtral-attention"},
	} {
		t.Run(s.adapter, func(t *testing.T) {
			want := fixture.JSON[adaptedGradients](t, filepath.Join("../../model/lora/testdata", s.adapter, "grad.json.gz"))
			l, ck := s.open(t, cpu.Options{Threads: 2})
			layers, hidden := ck.Config.Layers, ck.Config.Hidden
			lesson := want.lesson(layers, hidden)
			_, din, dprompts := lesson.back(t, trainer(t, load(t, l, 0, layers), 64), layers)
			size, seqs := want.Prompts*hidden, len(want.Lengths)
			var sorted []float32
			for i := range seqs {
				for b := range layers {
					sorted = append(sorted, dprompts[(b*seqs+i)*size:][:size]...)
				}
			}
			line := fmt.Sprintf("%-18s", s.adapter)
			for _, c := range []struct {
				what string
				got  []float32
				want fixture.Floats
			}{{"gradients by rows", din, want.Rows}, {"gradients by prompts", sorted, want.Table}} {
				ofGreatest, ofAllowed := c.want.Compare(t, c.what, c.got)
				line += fmt.Sprintf(" %-22.1e %-12.2f", ofGreatest, ofAllowed)
			}
			table.WriteString(strings.TrimRight(line, " ") + "\n")
		})
	}
	golden.Check(t, "testdata/adapted.txt", table.String())
}
