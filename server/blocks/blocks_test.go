package blocks_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/content"
	"whorl/model"
	"whorl/model/families"
	"whorl/server/blocks"
	"whorl/tensor"
	"whorl/tensor/cpu"
	"whorl/tensor/quant"
)

const stepRows = 48

func open(t *testing.T, path string) (*blocks.Loader, *model.Checkpoint) {
	t.Helper()
	ck, err := families.Open("../../model/testdata/" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	l, err := blocks.NewLoader(ck, dev, blocks.Options{StepRows: stepRows})
	if err != nil {
		t.Fatal(err)
	}
	return l, ck
}

func load(t *testing.T, l *blocks.Loader, start, end int) *blocks.Span {
	t.Helper()
	s, err := l.Load(t.Context(), start, end, 8, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoad(t *testing.T) {
	for _, path := range []string{"pair", "pair/model.gguf", "quants/model.gguf"} {
		t.Run(path, func(t *testing.T) {
			l, ck := open(t, path)
			n := ck.Config.Layers
			var mu sync.Mutex
			var heard []int
			s, err := l.Load(t.Context(), 0, n, 3, nil, func(b blocks.Info) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, b.Index)
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(heard)
			for i, b := range s.Blocks() {
				if b.Index != i || heard[i] != i || b.Root != "" || b.Bytes <= 0 || b.Load <= 0 {
					t.Errorf("block %d: %+v, heard %v", i, b, heard)
				}
				if b.Bytes > l.Sizes().Block {
					t.Errorf("block %d takes %d bytes, planned were %d", i, b.Bytes, l.Sizes().Block)
				}
			}
			if per := s.PageBytes() / int64(n*tensor.PageTokens); per > l.Sizes().Token {
				t.Errorf("a token takes %d bytes of cache in a block, planned were %d", per, l.Sizes().Token)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A span of other weights than the manifest's is not loaded, and the error says what differs,
// from what, and what to do.
func TestLoadChecksContents(t *testing.T) {
	_, ck := open(t, "pair")
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	want, err := ck.Contents(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	load := func(roots []content.Hash) (*blocks.Span, error) {
		l, err := blocks.NewLoader(ck, dev, blocks.Options{KV: tensor.F32, StepRows: 8, Roots: roots})
		if err != nil {
			t.Fatal(err)
		}
		return l.Load(t.Context(), 1, 2, 1, nil, nil)
	}
	s, err := load(want.Blocks)
	if err != nil || s.Blocks()[0].Root != want.Blocks[1].String() {
		t.Fatalf("%+v %v", s, err)
	}
	s.Close()
	other := slices.Clone(want.Blocks)
	other[0][0]++ // not of the span
	if s, err := load(other); err != nil {
		t.Errorf("a block outside of the span is compared: %v", err)
	} else {
		s.Close()
	}
	other[1][0]++
	if _, err := load(other); !errors.Is(err, model.ErrContents) {
		t.Errorf("another root is taken: %v", err)
	} else {
		for _, part := range []string{"block 1", ck.Path, want.Blocks[1].String(), other[1].String(), "--model-name"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in %q", part, err)
			}
		}
	}
	if _, err := blocks.NewLoader(ck, dev, blocks.Options{KV: tensor.F32, StepRows: 8, Roots: want.Blocks[1:]}); err == nil {
		t.Error("roots of fewer blocks than the model has are taken")
	}
}

// Rows give the same bits whether a span is stepped as one or in parts, in one chunk or
// many, alone or with others, and from whichever pages.
func TestStepKeepsBits(t *testing.T) {
	for _, path := range []string{"pair", "quants/model.gguf"} {
		l, ck := open(t, path)
		n, hidden := ck.Config.Layers, ck.Config.Hidden
		const rows = 40
		in := make([]float32, rows*hidden)
		for i := range in {
			in[i] = float32((i*i*7+i*3)%29)/16 - 0.9
		}
		for _, mode := range []tensor.Mode{{}, {Act: tensor.ActF32}, {Residual: tensor.ResidualBF16}} {
			whole := load(t, l, 0, n)
			want := make([]float32, len(in))
			step(t, whole, 0, n, mode, in, want, hidden, 0, rows, 0)
			if rounded := slices.Clone(want); mode.Residual == tensor.ResidualBF16 {
				for i, v := range rounded {
					rounded[i] = quant.BF16ToF32(quant.F32ToBF16(v))
				}
				same(t, path+" rounded once more", rounded, want)
			}

			parts := load(t, l, 0, n)
			got := slices.Clone(in)
			for b := range n {
				step(t, parts, b, b+1, mode, got, got, hidden, 0, rows, 3)
			}
			same(t, path+" block by block", got, want)

			got = make([]float32, len(in))
			for from := 0; from < rows; from += 7 {
				step(t, whole, 0, n, mode, in, got, hidden, from, min(from+7, rows), 5)
			}
			same(t, path+" in chunks", got, want)

			// Two sequences in one batch, from pages of their own.
			b := &tensor.Batch{Seqs: []tensor.KVView{{Pages: []int32{2}}, {Pages: []int32{7}}}}
			var both []float32
			for s := range 2 {
				for p := range 20 {
					b.Rows = append(b.Rows, tensor.Row{Seq: int32(s), Pos: int32(p)})
				}
				both = append(both, in[:20*hidden]...)
			}
			out := make([]float32, len(both))
			if err := whole.Step(b, nil, 0, n, mode, both, out); err != nil {
				t.Fatal(err)
			}
			same(t, path+" first of two", out[:20*hidden], want[:20*hidden])
			same(t, path+" second of two", out[20*hidden:], want[:20*hidden])
		}
	}
}

// step runs positions [from, to) of a sequence that starts at the given page.
func step(t *testing.T, s *blocks.Span, first, end int, mode tensor.Mode, in, out []float32, hidden, from, to int, page int32) {
	t.Helper()
	b := &tensor.Batch{Seqs: []tensor.KVView{{Pages: []int32{page}}}}
	for p := from; p < to; p++ {
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(p)})
	}
	if err := s.Step(b, nil, first, end, mode, in[from*hidden:to*hidden], out[from*hidden:to*hidden]); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

func TestRefusals(t *testing.T) {
	l, ck := open(t, "pair")
	n, hidden := ck.Config.Layers, ck.Config.Hidden
	for _, span := range [][2]int{{-1, 1}, {1, 1}, {0, n + 1}} {
		if _, err := l.Load(t.Context(), span[0], span[1], 1, nil, nil); err == nil {
			t.Errorf("loaded %v", span)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Load(ctx, 0, n, 1, nil, nil); err == nil {
		t.Error("loaded on a cancelled context")
	}
	s := load(t, l, 1, n)
	b := &tensor.Batch{Rows: make([]tensor.Row, 1), Seqs: []tensor.KVView{{Pages: []int32{0}}}}
	row, many := make([]float32, hidden), make([]float32, (stepRows+1)*hidden)
	for name, f := range map[string]func() error{
		"before the span": func() error { return s.Step(b, nil, 0, n, tensor.Mode{}, row, row) },
		"empty":           func() error { return s.Step(b, nil, 1, 1, tensor.Mode{}, row, row) },
		"short rows":      func() error { return s.Step(b, nil, 1, n, tensor.Mode{}, row[1:], row) },
		"short out":       func() error { return s.Step(b, nil, 1, n, tensor.Mode{}, row, row[1:]) },
		"too many rows": func() error {
			return s.Step(&tensor.Batch{Rows: make([]tensor.Row, stepRows+1), Seqs: b.Seqs}, nil, 1, n, tensor.Mode{}, many, many)
		},
		"no rows": func() error { return s.Step(&tensor.Batch{}, nil, 1, n, tensor.Mode{}, nil, nil) },
	} {
		if f() == nil {
			t.Errorf("stepped: %s", name)
		}
	}
	if _, err := blocks.NewLoader(ck, nil, blocks.Options{}); err == nil {
		t.Error("a loader for steps of no rows")
	}
	if _, err := blocks.NewLoader(ck, nil, blocks.Options{StepRows: 1, Load: model.LoadOptions{Quant: "q1"}}); err == nil {
		t.Error("a loader of an unknown format")
	}
}

func TestMeasure(t *testing.T) {
	l, ck := open(t, "pair")
	s := load(t, l, 0, ck.Config.Layers)
	start := time.Now()
	r, err := s.Measure(t.Context(), 20*time.Millisecond)
	if err != nil || !(r.Inference > 0) || !(r.Forward > 0) {
		t.Errorf("%+v, %v", r, err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Measure(ctx, time.Hour); err == nil {
		t.Error("a cancelled measurement has a result")
	}
}
