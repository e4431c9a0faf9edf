package cpu_test

import (
	"math"
	"testing"

	"whorl/tensor"
)

// Operands that do not fit are the caller's bug, and are told before anything is written.
func TestAttendRefuses(t *testing.T) {
	d := open(t, "auto", 2)
	rope := func(headDim int) tensor.Rope {
		return check(d.NewRope(tensor.RopeSpec{HeadDim: headDim, RotaryDim: 2, InvFreq: []float32{1}, Scale: 1}))
	}
	kv := check(d.NewKV(tensor.KVSpec{Layers: 1, KVHeads: 2, HeadDim: 16, Pages: 1}))
	q, k := check(d.NewBuffer(1, 64)), check(d.NewBuffer(1, 32))
	for _, c := range []struct {
		name  string
		spoil func(s *tensor.AttendSpec, b *tensor.Batch)
		fits  bool
	}{
		{"nothing wrong", func(*tensor.AttendSpec, *tensor.Batch) {}, true},
		{"a window below zero", func(s *tensor.AttendSpec, _ *tensor.Batch) { s.Window = -1 }, false},
		{"a cap below zero", func(s *tensor.AttendSpec, _ *tensor.Batch) { s.Softcap = -1 }, false},
		{"a cap that is no number", func(s *tensor.AttendSpec, _ *tensor.Batch) { s.Softcap = float32(math.NaN()) }, false},
		{"slopes of fewer heads", func(s *tensor.AttendSpec, _ *tensor.Batch) {
			s.Alibi = &tensor.AlibiSpec{Slopes: check(d.LoadVector(make([]float32, 2)))}
		}, false},
		{"no slopes", func(s *tensor.AttendSpec, _ *tensor.Batch) { s.Alibi = &tensor.AlibiSpec{} }, false},
		{"a rope over other heads", func(s *tensor.AttendSpec, _ *tensor.Batch) { s.Rope = rope(32) }, false},
		{"a sequence's rope over other heads", func(_ *tensor.AttendSpec, b *tensor.Batch) { b.Seqs[0].Rope = rope(32) }, false},
		{"a sequence's rope in place of a wrong one", func(s *tensor.AttendSpec, b *tensor.Batch) { s.Rope, b.Seqs[0].Rope = rope(32), rope(16) }, true},
		{"a wrong rope where nothing rotates", func(s *tensor.AttendSpec, b *tensor.Batch) { s.Rope, b.Seqs[0].Rope = nil, rope(32) }, true},
		{"a position past the pages", func(_ *tensor.AttendSpec, b *tensor.Batch) { b.Rows[0].Pos = 64 }, false},
		{"a page past the pool", func(_ *tensor.AttendSpec, b *tensor.Batch) { b.Seqs[0].Pages[0] = 1 }, false},
	} {
		s := tensor.AttendSpec{Heads: 4, KVHeads: 2, HeadDim: 16, Scale: 1, Rope: rope(16)}
		b := &tensor.Batch{Rows: []tensor.Row{{}}, Seqs: []tensor.KVView{{Pages: []int32{0}}}}
		c.spoil(&s, b)
		refused := func() (refused bool) {
			defer func() { refused = recover() != nil }()
			d.Attend(q, q, k, k, kv, b, s)
			return
		}()
		if refused == c.fits {
			t.Errorf("%s: refused is %v", c.name, refused)
		}
	}
}

// Windows, biases, caps, ropes of sequences and caches of bfloat16 allocate nothing either.
func TestAttendVariantsAllocateNothing(t *testing.T) {
	for _, cache := range []tensor.DType{tensor.F32, tensor.BF16} {
		if n := attendAllocations(t, cache); n != 0 {
			t.Errorf("%v allocations a step with a cache of %v", n, cache)
		}
	}
}

func attendAllocations(t *testing.T, cache tensor.DType) float64 {
	d := open(t, "auto", 2)
	const pages = 10
	kv := check(d.NewKV(tensor.KVSpec{Layers: 1, KVHeads: 2, HeadDim: 16, Pages: pages, DType: cache}))
	q, k := check(d.NewBuffer(1, 64)), check(d.NewBuffer(1, 32))
	rope := check(d.NewRope(tensor.RopeSpec{HeadDim: 16, RotaryDim: 2, InvFreq: []float32{1}, Scale: 1}))
	b := &tensor.Batch{Rows: []tensor.Row{{Pos: 64*pages - 1}}, Seqs: []tensor.KVView{{Rope: rope}}}
	for p := range pages {
		b.Seqs[0].Pages = append(b.Seqs[0].Pages, int32(p))
	}
	s := tensor.AttendSpec{Heads: 4, KVHeads: 2, HeadDim: 16, Scale: 1, Rope: rope, Window: 400, Softcap: 5,
		Alibi: &tensor.AlibiSpec{Slopes: check(d.LoadVector(make([]float32, 4))), BF16: true}}
	step := func() { d.Attend(q, q, k, k, kv, b, s) }
	step()
	return testing.AllocsPerRun(10, step)
}
