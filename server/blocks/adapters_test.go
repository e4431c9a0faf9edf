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

// An adapter that comes while a span computes gives the bits that it would have from the start, and
// takes none from others; what is loaded after holds it too, and gives it up with it.
func TestAddAdapter(t *testing.T) {
	const hidden, n = 64, 5
	in := make([]float32, n*hidden)
	for i := range in {
		in[i] = float32(i*7%29)/16 - 0.9
	}
	step := func(s *blocks.Span, page int32, use []int) []float32 {
		b := &tensor.Batch{Seqs: []tensor.KVView{{Pages: []int32{page}}}}
		for p := range n {
			b.Rows = append(b.Rows, tensor.Row{Pos: int32(p)})
		}
		out := make([]float32, len(in))
		if err := s.Step(b, use, 1, 4, tensor.Mode{}, in, out); err != nil {
			t.Error(err)
		}
		return out
	}
	from := toyLoader(t, "toy-list", "toy-regex")
	held := load(t, from, 1, 4)
	plain, list, regex := step(held, 0, nil), step(held, 0, []int{0}), step(held, 0, []int{1})

	l := toyLoader(t)
	before := l.Sizes()
	span := load(t, l, 1, 4)
	files := map[string]*lora.Adapter{}
	ck, err := families.Open("../../internal/swarmtest/testdata/toy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	for _, name := range []string{"toy-list", "toy-regex"} {
		if files[name], err = lora.Open(filepath.Join("../../model/lora/testdata", name), ck); err != nil {
			t.Fatal(err)
		}
	}
	stop, steps := make(chan struct{}), make(chan []float32, 1)
	go func() { // a session that computes meanwhile
		for {
			select {
			case <-stop:
				close(steps)
				return
			case steps <- step(span, 1, nil):
			}
		}
	}()
	add := func(name string) (use int) {
		use, err := l.AddAdapter(t.Context(), span, files[name], func(bytes int64) error {
			if bytes <= 0 {
				t.Errorf("%s takes %d bytes", name, bytes)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return use
	}
	if a, b := add("toy-list"), add("toy-regex"); a != 0 || b != 1 {
		t.Errorf("places %d and %d", a, b)
	}
	for range 3 {
		same(t, "a session beside", <-steps, plain)
	}
	same(t, "the first", step(span, 0, []int{0}), list)
	same(t, "the second", step(span, 0, []int{1}), regex)
	if a, b := l.Sizes(), from.Sizes(); a != b {
		t.Errorf("sizes %+v, want %+v", a, b)
	}
	later := load(t, l, 1, 4)
	same(t, "a span that is loaded after", step(later, 0, []int{1}), regex)

	if l.RemoveAdapter(span, 0) <= 0 {
		t.Error("it took no memory")
	}
	files["toy-list"].Close()
	if list := l.Adapters(); list[0].Name != "" || list[1].Name != "toy-regex" {
		t.Errorf("left %v", list)
	}
	same(t, "the second, alone", step(span, 0, []int{1}), regex)
	same(t, "a span without the first", step(load(t, l, 1, 4), 0, []int{1}), regex)
	l.RemoveAdapter(span, 1)
	if use := add("toy-regex"); use != 0 {
		t.Errorf("it comes back at %d", use)
	}
	same(t, "in the place of another", step(span, 0, []int{0}), regex)
	l.RemoveAdapter(span, 0)
	if after := l.Sizes(); after.Adapters != before.Adapters || after.Block != before.Block {
		t.Errorf("sizes %+v, before any adapter %+v", after, before)
	}
	close(stop)
	for range steps {
	}
}
