package blocks

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/model"
	"whorl/tensor"
)

// Options of a Loader.
type Options struct {
	Load     model.LoadOptions
	StepRows int // most rows of one step
	Parallel int // blocks loaded at once; 0: one per processor
}

// Loader loads spans of one model onto one device. It owns neither. Safe for concurrent
// use.
type Loader struct {
	ck    *model.Checkpoint
	dev   tensor.Device
	opt   Options
	sizes Sizes
}

// NewLoader checks that the model can be had in the form that o asks for.
func NewLoader(ck *model.Checkpoint, dev tensor.Device, o Options) (*Loader, error) {
	if o.StepRows < 1 {
		return nil, fmt.Errorf("steps of %d rows: want at least 1", o.StepRows)
	}
	if o.Parallel < 1 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	l := &Loader{ck: ck, dev: dev, opt: o}
	for i := range ck.Config.Layers {
		n, err := ck.BlockBytes(i, o.Load)
		if err != nil {
			return nil, err
		}
		l.sizes.Block = max(l.sizes.Block, n)
	}
	// Devices pad rows and hold scales beside the values.
	l.sizes.Block += l.sizes.Block / 32
	c := &ck.Config
	kv, q := c.KVHeads*c.HeadDim, c.Heads*c.HeadDim
	l.sizes.Token = 4 * int64(2*kv)
	// The buffers of nn.Workspace, the prepared copies of three of them, and the rows in
	// host memory.
	l.sizes.Workspace = 4 * int64(o.StepRows) * int64(2*c.Hidden+2*q+2*kv+c.FFN+2*(c.Hidden+q+c.FFN)+2*c.Hidden)
	l.sizes.Shared = c.KVHeads < c.Heads
	return l, nil
}

// Sizes says what spans of this model take.
func (l *Loader) Sizes() Sizes { return l.sizes }

// Load loads blocks [start, end), several at once, and makes a KV pool of the given pages
// and a workspace. loaded, if not nil, hears of every block, from several goroutines.
func (l *Loader) Load(ctx context.Context, start, end, pages int, loaded func(Info)) (*Span, error) {
	if start < 0 || start >= end || end > l.ck.Config.Layers {
		return nil, fmt.Errorf("blocks %d:%d: %s has 0:%d", start, end, l.ck.Name, l.ck.Config.Layers)
	}
	n := end - start
	s := &Span{dev: l.dev, start: start, hidden: l.ck.Config.Hidden, pages: pages, blocks: make([]*model.Block, n), infos: make([]Info, n)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(l.opt.Parallel)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			began := time.Now()
			digest, err := l.ck.BlockDigest(start + i)
			if err != nil {
				return err
			}
			b, err := l.ck.LoadBlock(l.dev, start+i, l.opt.Load)
			if err != nil {
				return err
			}
			s.blocks[i] = b
			s.infos[i] = Info{Index: start + i, Bytes: b.Bytes(), Load: time.Since(began), Digest: digest}
			if loaded != nil {
				loaded(s.infos[i])
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var err error
	if s.ws, err = l.ck.Config.NewWorkspace(l.dev, l.opt.StepRows); err != nil {
		return nil, err
	}
	if s.kv, err = l.dev.NewKV(l.ck.Config.KVSpec(n, pages)); err != nil {
		return nil, fmt.Errorf("KV cache of %d pages for %d blocks: %w", pages, n, err)
	}
	return s, nil
}
