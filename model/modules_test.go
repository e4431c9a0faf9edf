package model

import (
	"bytes"
	"slices"
	"testing"

	"whorl/model/nn"
	"whorl/model/weights"
	"whorl/tensor"
)

// Modules are matrices as transformers has them: a fused one gives each parameter its rows,
// in the order of the graph.
func TestModules(t *testing.T) {
	spec := nn.Spec{Hidden: 8, FFN: 3, Heads: 4, KVHeads: 2, HeadDim: 2, Activation: tensor.SiLU}
	names := DecoderNames()
	names.Fused = []Fused{
		{Tensor: "attn.qkv", Params: []nn.Param{nn.Q, nn.K, nn.V}, ByHead: true},
		{Tensor: "mlp.gate_up", Params: []nn.Param{nn.Gate, nn.Up}},
	}
	names.Interleaved = []nn.Param{nn.O}
	ck := &Checkpoint{Config: Config{Spec: spec, Layers: 1}, canon: names}
	list := ck.Modules(0)
	want := []struct {
		name       string
		rows, cols int
		parts      map[nn.Param][]byte // rows
	}{
		// Two key/value heads, each read by two query heads of two rows.
		{"attn.qkv", 16, 8, map[nn.Param][]byte{nn.Q: {0, 1, 2, 3, 8, 9, 10, 11}, nn.K: {4, 5, 12, 13}, nn.V: {6, 7, 14, 15}}},
		{"self_attn.o_proj", 8, 8, map[nn.Param][]byte{nn.O: {0, 1, 2, 3, 4, 5, 6, 7}}},
		{"mlp.gate_up", 6, 8, map[nn.Param][]byte{nn.Gate: {0, 1, 2}, nn.Up: {3, 4, 5}}},
		{"mlp.down_proj", 8, 3, map[nn.Param][]byte{nn.Down: {0, 1, 2, 3, 4, 5, 6, 7}}},
	}
	if len(list) != len(want) {
		t.Fatalf("%d modules, want %d: %+v", len(list), len(want), list)
	}
	for i, m := range list {
		w := want[i]
		if m.Name != w.name || m.Rows != w.rows || m.Cols != w.cols || len(m.Parts) != len(w.parts) || m.Choice {
			t.Errorf("module %+v, want %+v", m, w)
			continue
		}
		// A tensor of so many rows and three bytes in each, all of which name the row.
		rows := weights.Tensor{Info: weights.Info{Shape: []int{m.Rows, 3}}}
		for r := range m.Rows {
			rows.Data = append(rows.Data, byte(r), byte(r), byte(r))
		}
		for _, p := range m.Parts {
			var got []byte
			for row := range slices.Chunk(p.Pick(rows), 3) {
				got = append(got, row[2])
			}
			if !bytes.Equal(got, w.parts[p.Param]) || p.Rows != len(got) {
				t.Errorf("%s: the rows of %v are %v, want %v", m.Name, p.Param, got, w.parts[p.Param])
			}
		}
	}
}

func TestModulesOfExperts(t *testing.T) {
	spec := nn.Spec{Hidden: 4, FFN: 3, Heads: 2, KVHeads: 1, HeadDim: 2, Activation: tensor.SiLU, Experts: 2, TopK: 1}
	names := DecoderNames()
	names.Param[nn.Router] = "mlp.gate"
	for p, name := range map[nn.Param]string{nn.Gate: "mlp.experts.%d.w1", nn.Up: "mlp.experts.%d.w3", nn.Down: "mlp.experts.%d.w2"} {
		names.Expert[p] = name
	}
	ck := &Checkpoint{Config: Config{Spec: spec, Layers: 1}, canon: names}
	var choice []string
	for _, m := range ck.Modules(0) {
		if m.Choice {
			choice = append(choice, m.Name)
		}
	}
	if len(choice) != 7 || choice[0] != "mlp.gate" || choice[6] != "mlp.experts.1.w2" {
		t.Errorf("of the choice: %v", choice)
	}
}
