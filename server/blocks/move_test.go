package blocks_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"whorl/server/blocks"
	"whorl/tensor"
)

// A span that is loaded beside another shares its blocks, loads only the others, and computes
// the bits of one that was loaded alone: while the other one lives, after it was stripped, and
// after it is gone.
func TestLoadShares(t *testing.T) {
	l, ck := open(t, "smollm3")
	n, hidden := ck.Config.Layers, ck.Config.Hidden
	if n < 3 {
		t.Fatalf("%d blocks are too few", n)
	}
	rows := 5
	in := make([]float32, rows*hidden)
	for i := range in {
		in[i] = float32(i%17)/8 - 1
	}
	run := func(s *blocks.Span, from, to int) []float32 {
		out := make([]float32, len(in))
		step(t, s, from, to, tensor.Mode{}, in, out, hidden, 0, rows, 1)
		return out
	}
	want := run(load(t, l, 1, n), 1, n)
	for _, strip := range []bool{false, true} {
		old := load(t, l, 0, n-1)
		if strip {
			old.Strip(1, n)
		}
		before := time.Now()
		var mu sync.Mutex
		heard := map[int]blocks.Info{}
		s, err := l.Load(t.Context(), 1, n, 8, old, func(b blocks.Info) {
			mu.Lock()
			defer mu.Unlock()
			heard[b.Index] = b
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); len(heard) != n-1 || heard[1] != old.Blocks()[1] || heard[n-1].Load > took {
			t.Errorf("heard of %v", heard)
		}
		if !strip {
			run(old, 0, n-1) // it writes to its own pool
		}
		if got := run(s, 1, n); !slices.Equal(got, want) {
			t.Errorf("stripped %v: another result beside the old span", strip)
		}
		old.Close()
		if got := run(s, 1, n); !slices.Equal(got, want) {
			t.Errorf("stripped %v: another result after it", strip)
		}
		s.Close()
	}
}

// Memory of spans that were left comes back, huge pages included: ten moves with a cache of
// tens of MiB in use end with the memory of the first span.
func TestMovesGiveMemoryBack(t *testing.T) {
	l, ck := open(t, "pair")
	sizes, n := l.Sizes(), ck.Config.Layers
	const cache = 48 << 20
	pages := int(cache / (sizes.Token * tensor.PageTokens * int64(n-1)))
	fill := func(s *blocks.Span, start int) {
		in := make([]float32, stepRows*ck.Config.Hidden)
		b := &tensor.Batch{}
		for p := 0; p < pages; p += stepRows {
			b.Rows, b.Seqs = b.Rows[:0], b.Seqs[:0]
			for r := range min(stepRows, pages-p) {
				b.Rows = append(b.Rows, tensor.Row{Seq: int32(r)})
				b.Seqs = append(b.Seqs, tensor.KVView{Pages: []int32{int32(p + r)}})
			}
			m := len(b.Rows) * ck.Config.Hidden
			if err := s.Step(b, nil, start, start+n-1, tensor.Mode{}, in[:m], in[:m]); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func(i int, keep *blocks.Span) *blocks.Span {
		s, err := l.Load(t.Context(), i%2, i%2+n-1, pages, keep, nil)
		if err != nil {
			t.Fatal(err)
		}
		fill(s, i%2)
		return s
	}
	s := next(0, nil)
	first := resident(t)
	var most int64
	for i := 1; i <= 10; i++ {
		old := s
		s = next(i, old)
		most = max(most, resident(t))
		old.Close()
	}
	last := resident(t)
	t.Logf("%d MiB after the first load, %d MiB while two are there, %d MiB after ten moves", first>>20, most>>20, last>>20)
	if most-first < cache/2 {
		t.Errorf("the cache was not in use: this test shows nothing")
	}
	if last-first > 8<<20 {
		t.Errorf("%d MiB more than before the moves", (last-first)>>20)
	}
	s.Close()
}

// resident is the memory of the process that is in use, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	for range 3 { // what is out of reach is unmapped by goroutines of the runtime
		debug.FreeOSMemory()
		<-time.After(20 * time.Millisecond)
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("not proven: memory comes back after moves (no /proc/self/statm)")
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
