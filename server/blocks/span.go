package blocks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"whorl/model"
	"whorl/tensor"
)

// Span is loaded blocks with their KV pool and workspace. One goroutine uses it at a time; another
// may change its adapters (Loader.AddAdapter).
type Span struct {
	dev    tensor.Device
	start  int
	hidden int
	pages  int
	blocks []*model.Block
	infos  []Info
	ws     *model.Workspace
	kv     tensor.KV
	ck     *model.Checkpoint

	turn     sync.Mutex // held for a step, and while adapters change between two
	adapters adapters
}

// Grain is of how many rows pieces of prompts are multiples where they can be; see
// [tensor.RowGrouper].
func (s *Span) Grain() int {
	if d, ok := s.dev.(tensor.RowGrouper); ok {
		spec := s.ck.Config.Block(s.start)
		return d.RowGroup(spec.Heads, spec.KVHeads)
	}
	return 1
}

// share takes over the blocks that another span holds, and lists the runs [from, to) of those
// that neither has.
func (s *Span) share(keep *Span) (lack [][2]int) {
	for i := range s.blocks {
		b := s.start + i
		if keep != nil && keep.start <= b && b < keep.start+len(keep.blocks) && keep.blocks[b-keep.start] != nil {
			s.blocks[i], s.infos[i] = keep.blocks[b-keep.start], keep.infos[b-keep.start]
			for a := range s.adapters.parts {
				s.adapters.parts[a][i] = keep.adapters.parts[a][b-keep.start]
			}
			continue
		}
		if n := len(lack); n > 0 && lack[n-1][1] == b {
			lack[n-1][1]++
		} else {
			lack = append(lack, [2]int{b, b + 1})
		}
	}
	return lack
}

// Strip lets go of cache and buffers, and of all blocks but [start, end): a Load that keeps
// the span shares those. It computes nothing any more.
func (s *Span) Strip(start, end int) {
	s.ws, s.kv = nil, nil
	blocks := make([]*model.Block, len(s.blocks)) // others may read the old list
	for i := range blocks {
		if b := s.start + i; b >= start && b < end {
			blocks[i] = s.blocks[i]
			continue
		}
		for a := range s.adapters.parts {
			s.adapters.parts[a][i] = nil
		}
	}
	s.blocks = blocks
}

// SessionRope is the rotation of sessions of a length, nil where the model's does not
// depend on it. Safe for concurrent use, also with Step.
func (s *Span) SessionRope(length int) (tensor.Rope, error) { return s.ck.SessionRope(s.dev, length) }

// Blocks describes the blocks in order.
func (s *Span) Blocks() []Info { return s.infos }

// PageBytes is the memory of one KV page over all layers.
func (s *Span) PageBytes() int64 { return s.kv.PageBytes() }

// Step runs the rows of a batch through blocks [from, to): in and out are
// [len(b.Rows)][hidden] and may be the same. The batch's pages are pages of this span's
// pool; blocks write keys and values there at each row's position. use says which adapter,
// as the Loader lists them, each of b.Seqs has: -1 for none; nil: none has any.
func (s *Span) Step(b *tensor.Batch, use []int, from, to int, mode tensor.Mode, in, out []float32) error {
	return s.StepPrompted(b, use, nil, from, to, mode, in, out)
}

// StepPrompted is Step where sequences have prompts: those of each of b.Seqs, nil for none. The
// rows at their positions get them added before each block, whichever step they come in.
func (s *Span) StepPrompted(b *tensor.Batch, use []int, prompts []*Prompts, from, to int, mode tensor.Mode, in, out []float32) error {
	n := len(b.Rows)
	switch {
	case from < s.start || from >= to || to > s.start+len(s.blocks):
		return fmt.Errorf("step through blocks %d:%d: %d:%d are loaded", from, to, s.start, s.start+len(s.blocks))
	case n < 1 || n > s.ws.MaxRows:
		return fmt.Errorf("step of %d rows, want 1 to %d", n, s.ws.MaxRows)
	case len(in) != n*s.hidden || len(out) != n*s.hidden:
		return fmt.Errorf("step of %d rows with %d values in and %d out, want %d", n, len(in), len(out), n*s.hidden)
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.adapters.group(b, use); err != nil {
		return err
	}
	some, err := prompted(b, prompts, from, to)
	if err != nil {
		return err
	}
	s.dev.Upload(s.ws.X, 0, in)
	for i := from - s.start; i < to-s.start; i++ {
		for j := range some {
			some[j].add(s, i+s.start)
		}
		s.blocks[i].Forward(s.ws, b, s.ws.X, s.kv, i, mode.Act, s.adapters.of(i)...)
		if mode.Residual == tensor.ResidualBF16 {
			s.dev.Round(s.ws.X, n)
		}
	}
	s.dev.Download(out, s.ws.X, 0)
	return s.dev.Sync()
}

// CopyPages copies pages of the pool, all layers of them: src[i] to dst[i].
func (s *Span) CopyPages(dst, src []int32) error {
	s.dev.CopyPages(s.kv, dst, src)
	return s.dev.Sync()
}

// FreePages gives the memory of pages of the pool back to the system, where the device can. Nobody
// may use these pages meanwhile; Step on others may go on.
func (s *Span) FreePages(pages []int32) {
	if d, ok := s.dev.(tensor.PageFreer); ok {
		d.FreePages(s.kv, pages)
	}
}

// Close lets go of everything. The device stays open.
func (s *Span) Close() error {
	s.blocks, s.ws, s.kv = nil, nil, nil
	return nil
}

// Sizes of a measurement.
const (
	decodeContext = 256 // positions a measured decode grows to before it starts over
	prefillRows   = 256
)

// Measure runs decode steps and then prefill steps through all blocks, each for about the
// given time but at least one step, after one that is not timed. It writes to the first
// pages of the pool: nobody may hold cache meanwhile.
func (s *Span) Measure(ctx context.Context, each time.Duration) (Rates, error) {
	room := min(s.pages*tensor.PageTokens, decodeContext)
	rows := min(s.ws.MaxRows, s.pages*tensor.PageTokens, prefillRows)
	view := tensor.KVView{}
	for p := range (max(room, rows) + tensor.PageTokens - 1) / tensor.PageTokens {
		view.Pages = append(view.Pages, int32(p))
	}
	in := make([]float32, rows*s.hidden)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range in {
		in[i] = float32(rng.NormFloat64())
	}
	out := make([]float32, len(in))
	b := &tensor.Batch{Seqs: []tensor.KVView{view}}
	timed := func(n int, place func(step int)) (float64, error) {
		var began time.Time
		for step := 0; ; step++ {
			if step == 1 {
				began = time.Now()
			}
			place(step)
			if err := s.Step(b, nil, s.start, s.start+len(s.blocks), tensor.Mode{}, in[:n*s.hidden], out[:n*s.hidden]); err != nil {
				return 0, err
			}
			if err := ctx.Err(); err != nil {
				return 0, context.Cause(ctx)
			}
			if took := time.Since(began); step > 0 && took >= each && took > 0 {
				return float64(n*step*len(s.blocks)) / took.Seconds(), nil
			}
		}
	}
	var r Rates
	var err error
	b.Rows = make([]tensor.Row, 1, rows)
	if r.Inference, err = timed(1, func(step int) { b.Rows[0].Pos = int32(step % room) }); err != nil {
		return r, err
	}
	b.Rows = b.Rows[:rows]
	for i := range b.Rows {
		b.Rows[i] = tensor.Row{Pos: int32(i)}
	}
	r.Forward, err = timed(rows, func(int) {})
	return r, err
}
