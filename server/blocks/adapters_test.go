package blocks_test

import (
	"path/filepath"
	"slices"
	"testing"

	"whorl/model/families"
	"whorl/model/lora"
	"whorl/server/blocks"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// toyLoader loads TOY with adapters.
func toyLoader(t *testing.T, names ...string) *blocks.Loader {
	t.Helper()
	ck, err := families.Open("../../internal/swarmtest/testdata/toy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	o := blocks.Options{StepRows: stepRows}
	for _, name := range names {
		a, err := lora.Open(filepath.Join("../../model/lora/testdata", name), ck)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		o.Adapters = append(o.Adapters, a)
	}
	l, err := blocks.NewLoader(ck, dev, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// One step serves sequences of two adapters and of none; the one without has the bits of a
// span without adapters.
func TestStepMixesAdapters(t *testing.T) {
	plain, with := toyLoader(t), toyLoader(t, "toy-list", "toy-regex")
	list := with.Adapters()
	if len(list) != 2 || list[0].Name != "toy-list" || list[1].Name != "toy-regex" || list[0].Digest == "" {
		t.Fatalf("adapters %v", list)
	}
	if a, b := plain.Sizes(), with.Sizes(); b.Block != a.Block || b.Adapters <= a.Adapters || b.Workspace <= a.Workspace {
		t.Errorf("adapters take no memory: %+v, %+v", a, b)
	}
	const hidden, n = 64, 5
	in := make([]float32, 3*n*hidden)
	for i := range in {
		in[i] = float32(i%(n*hidden)*7%29)/16 - 0.9 // the same rows three times
	}
	b := &tensor.Batch{}
	for s := range 3 {
		b.Seqs = append(b.Seqs, tensor.KVView{Pages: []int32{int32(s)}})
		for p := range n {
			b.Rows = append(b.Rows, tensor.Row{Seq: int32(s), Pos: int32(p)})
		}
	}
	span := load(t, with, 1, 4)
	for _, info := range span.Blocks() {
		if planned := with.Sizes().Block + with.Sizes().Adapters; info.Bytes > planned {
			t.Errorf("block %d takes %d bytes, planned were %d", info.Index, info.Bytes, planned)
		}
	}
	out := make([]float32, len(in))
	if err := span.Step(b, []int{1, -1, 0}, 1, 4, tensor.Mode{}, in, out); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(in))
	if err := load(t, plain, 1, 4).Step(b, nil, 1, 4, tensor.Mode{}, in, want); err != nil {
		t.Fatal(err)
	}
	part := func(rows []float32, s int) []float32 { return rows[s*n*hidden : (s+1)*n*hidden] }
	same(t, "without adapter", part(out, 1), part(want, 1))
	if slices.Equal(part(out, 0), part(want, 0)) || slices.Equal(part(out, 2), part(want, 2)) || slices.Equal(part(out, 0), part(out, 2)) {
		t.Error("an adapter changes nothing")
	}
	for what, use := range map[string][]int{"too few": {0}, "unknown": {0, 1, 2}} {
		if err := span.Step(b, use, 1, 4, tensor.Mode{}, in, out); err == nil {
			t.Errorf("stepped with adapters %v: %s", use, what)
		}
	}
	step := func() {
		if err := span.Step(b, []int{1, -1, 0}, 1, 4, tensor.Mode{}, in, out); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(10, step); n != 0 {
		t.Errorf("a step with adapters makes %v allocations", n)
	}
}
