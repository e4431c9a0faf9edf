package swarmtest

import (
	"context"
	"sync"
	"time"

	"whorl/client/sample"
	"whorl/content"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/tensor"
)

// The fake model: four columns; every block mixes a row with the mean of all rows before
// it, so that a lost, doubled or misplaced row changes everything after it.
const (
	FakeBlocks = 6
	fakeHidden = 4
	FakeVocab  = 23
)

// FakeManifest is the fake model's.
var FakeManifest = swarm.Manifest{Name: "fake", Blocks: FakeBlocks, Hidden: fakeHidden,
	Class: swarm.Class{ConfigHash: "h", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "fake"},
	Roots: make(swarm.Roots, FakeBlocks), Head: content.Sum([]byte("fake"))}

// FakeLoader loads spans of the fake model, whose steps take Delay. Lengths, if not nil,
// hears of the length of every session that is opened. Lie, if not nil, alters the rows that
// a step gives; it is not called by two steps at a time.
type FakeLoader struct {
	Delay   time.Duration
	Lengths func(int)
	Lie     func(rows []float32, hidden int)
}

// Sizes are small.
func (FakeLoader) Sizes() blocks.Sizes {
	return blocks.Sizes{Block: 1 << 10, Token: 4 * fakeHidden, Workspace: 1 << 10}
}

// Adapters are none.
func (FakeLoader) Adapters() []blocks.Adapter { return nil }

// Load makes a span.
func (l FakeLoader) Load(_ context.Context, start, end, pages int, _ server.Engine, loaded func(blocks.Info)) (server.Engine, error) {
	e := &fakeEngine{start: start, delay: l.Delay, lengths: l.Lengths, lie: l.Lie, seen: make([][][fakeHidden]float32, end-start)}
	for b := start; b < end; b++ {
		e.infos = append(e.infos, blocks.Info{Index: b, Bytes: 1 << 10})
		e.seen[b-start] = make([][fakeHidden]float32, pages*tensor.PageTokens)
		loaded(e.infos[b-start])
	}
	return e, nil
}

// fakeEngine keeps the inputs of every position where a real one keeps keys and values.
type fakeEngine struct {
	start   int
	delay   time.Duration
	lengths func(int)
	lie     func([]float32, int)
	infos   []blocks.Info
	mu      sync.Mutex // guards seen: [block][page*PageTokens+slot]
	seen    [][][fakeHidden]float32
}

// Strip lets go of what was seen: nothing of it is shared.
func (e *fakeEngine) Strip(int, int) { e.seen = nil }

func (e *fakeEngine) Step(b *tensor.Batch, _ []int, from, to int, mode tensor.Mode, in, out []float32) error {
	if e.delay > 0 {
		<-time.After(e.delay)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	copy(out, in)
	for block := from; block < to; block++ {
		cache := e.seen[block-e.start]
		for i, r := range b.Rows {
			row := (*[fakeHidden]float32)(out[i*fakeHidden:])
			pages := b.Seqs[r.Seq].Pages
			at := func(pos int32) *[fakeHidden]float32 {
				return &cache[int(pages[pos/tensor.PageTokens])*tensor.PageTokens+int(pos%tensor.PageTokens)]
			}
			*at(r.Pos) = *row
			var sum [fakeHidden]float32
			for p := int32(0); p <= r.Pos; p++ {
				for c, v := range at(p) {
					sum[c] += v
				}
			}
			for c := range row {
				row[c] = row[c]*0.75 + sum[(c+1)%fakeHidden]/float32(r.Pos+1)*0.5 + float32(block%3)*0.125
			}
			if mode.Residual == tensor.ResidualBF16 {
				codec.Round(row[:])
			}
		}
	}
	if e.lie != nil {
		e.lie(out[:len(b.Rows)*fakeHidden], fakeHidden)
	}
	return nil
}

// SessionRope is none: the fake model rotates nothing.
func (e *fakeEngine) SessionRope(length int) (tensor.Rope, error) {
	if e.lengths != nil {
		e.lengths(length)
	}
	return nil, nil
}

func (e *fakeEngine) CopyPages(dst, src []int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cache := range e.seen {
		for i := range dst {
			copy(cache[dst[i]*tensor.PageTokens:][:tensor.PageTokens], cache[src[i]*tensor.PageTokens:])
		}
	}
	return nil
}

func (e *fakeEngine) Blocks() []blocks.Info { return e.infos }
func (e *fakeEngine) PageBytes() int64 {
	return 4 * fakeHidden * tensor.PageTokens * int64(len(e.infos))
}
func (e *fakeEngine) Close() error { return nil }

func (e *fakeEngine) Measure(context.Context, time.Duration) (blocks.Rates, error) {
	return blocks.Rates{Inference: 1000, Forward: 10000}, nil
}

// FakeHead embeds and scores for the fake model.
type FakeHead struct{}

// Embed writes the rows of ids.
func (FakeHead) Embed(dst []float32, ids []int32) error {
	for i, id := range ids {
		for c := range fakeHidden {
			dst[i*fakeHidden+c] = float32((int(id)*7+c*3)%11) - 5
		}
	}
	return nil
}

// Logits scores hidden rows.
func (FakeHead) Logits(dst, rows []float32, n int, _ tensor.Activations) error {
	for i := range n {
		for v := range FakeVocab {
			s := float32(0)
			for c := range fakeHidden {
				s += rows[i*fakeHidden+c] * float32((v*5+c*c)%13-6)
			}
			dst[i*FakeVocab+v] = s
		}
	}
	return nil
}

// fakeLogits computes all positions of a sequence in one place and scores the last one.
func fakeLogits(ids []int32, residual tensor.Residual) []float32 {
	pages := len(ids)/tensor.PageTokens + 1
	e, _ := FakeLoader{}.Load(context.Background(), 0, FakeBlocks, pages, nil, func(blocks.Info) {})
	b := &tensor.Batch{Seqs: make([]tensor.KVView, 1)}
	for i := range pages {
		b.Seqs[0].Pages = append(b.Seqs[0].Pages, int32(i))
	}
	rows, logits := make([]float32, len(ids)*fakeHidden), make([]float32, FakeVocab)
	FakeHead{}.Embed(rows, ids)
	for p := range ids {
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(p)})
	}
	if residual == tensor.ResidualBF16 {
		codec.Round(rows)
	}
	e.Step(b, nil, 0, FakeBlocks, tensor.Mode{Residual: residual}, rows, rows)
	FakeHead{}.Logits(logits, rows[(len(ids)-1)*fakeHidden:], 1, 0)
	return logits
}

// FakeGreedy is the reference: n greedy ids after a prompt, computed in one place.
func FakeGreedy(prompt []int32, n int) []int32 { return fakeGreedy(prompt, n, tensor.ResidualF32) }

func fakeGreedy(prompt []int32, n int, residual tensor.Residual) []int32 {
	ids := append([]int32(nil), prompt...)
	for range n {
		best, logits := 0, fakeLogits(ids, residual)
		for v := range logits {
			if logits[v] > logits[best] {
				best = v
			}
		}
		ids = append(ids, int32(best))
	}
	return ids[len(prompt):]
}

// FakeBeams is the reference of a beam search: every sequence of every step is computed
// from its ids, in one place.
func FakeBeams(prompt []int32, n int, b sample.BeamParams, p sample.Params, end ...int32) []sample.Answer {
	var search interface {
		Next() ([]int32, []uint8)
		Step([]float32) error
		Done() bool
		Answers() []sample.Answer
	} = sample.NewBeams(p, b, prompt, n, end, nil)
	if b.Groups > 1 {
		search = sample.NewGroups(p, b, prompt, n, end, nil)
	}
	seqs := [][]int32{prompt}
	for !search.Done() {
		ids, parents := search.Next()
		next := seqs
		if ids != nil {
			next = nil
		}
		for i, id := range ids {
			next = append(next, append(append([]int32(nil), seqs[parents[i]]...), id))
		}
		seqs = next
		var logits []float32
		for _, s := range seqs {
			logits = append(logits, fakeLogits(s, tensor.ResidualF32)...)
		}
		if err := search.Step(logits); err != nil {
			panic(err)
		}
	}
	return search.Answers()
}
