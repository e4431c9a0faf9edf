package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/swarm"
)

// Batch is whole sequences of hidden states that go through blocks without a session: each from
// position 0 on, seeing itself and what is before it.
type Batch struct {
	Lengths []int     // rows of each sequence
	Rows    []float32 // [rows of all sequences][hidden]
	// Prompt is how many rows at the start of each sequence prompts are added to, in front of
	// each block; 0: there are none.
	Prompt int
	// Prompts is [blocks of the range][sequences][Prompt][hidden], or with Shared
	// [blocks][Prompt][hidden] for all of them.
	Prompts []float32
	Shared  bool
}

// RemoteOptions say how passes are made; the zero value will do.
type RemoteOptions struct {
	// Rows is the most rows of one pass, unless one sequence is longer; 0: 1024, as in Petals.
	Rows int
	// Parallel is how many passes are under way at once, on routes of their own; 0: 8.
	Parallel int
	// Length is the number of positions that rotations are made for where they depend on it, as a
	// session's MaxLength; 0: those of each sequence.
	Length int
	// Limit is how long one server may take for a pass; 0: three minutes.
	Limit time.Duration
	// Recover is how long to look for servers before the call fails; 0: Timeouts.Recover.
	Recover time.Duration
	// Adapter names a LoRA adapter, as NAME or NAME@DIGEST.
	Adapter string
	// Keep, if not nil, is asked before the call keeps so many bytes of rows for its way back; an
	// error ends the call. It may be called by several goroutines.
	Keep func(bytes int64) error
	// Hops, if not nil, hears of the servers of each part of a batch once they have computed it
	// forward. It may be called by several goroutines.
	Hops func([]swarm.Hop)
}

// Defaults of RemoteOptions.
const (
	remoteRows     = 1024
	remoteParallel = 8
	remoteLimit    = 3 * time.Minute
)

// Remote is a run of blocks of the swarm that a client computes with as with a layer of its own:
// forward, and backward for gradients. It holds no connection and no state: safe for concurrent
// use. What it gives does not depend on servers, routes, or how a batch is cut.
type Remote struct {
	e    *Engine
	span swarm.Span
	opt  RemoteOptions
}

// Remote is the blocks of a span.
func (e *Engine) Remote(span swarm.Span, o RemoteOptions) (*Remote, error) {
	if err := e.checkSpan(span); err != nil {
		return nil, err
	}
	if o.Rows < 0 || o.Parallel < 0 || o.Length < 0 || o.Limit < 0 || o.Recover < 0 {
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a negative number of rows, passes, positions or seconds")
	}
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	or(&o.Rows, remoteRows)
	or(&o.Parallel, remoteParallel)
	if o.Limit == 0 {
		o.Limit = remoteLimit
	}
	if o.Recover == 0 {
		o.Recover = e.cfg.Timeouts.Recover
	}
	return &Remote{e: e, span: span, opt: o}, nil
}

// Span is the run of blocks.
func (r *Remote) Span() swarm.Span { return r.span }

// Forwarded is a batch that went forward, with what a backward pass needs.
type Forwarded struct {
	// Outputs are the rows behind the last block, [rows][hidden].
	Outputs []float32
	why     purpose
	r       *Remote
	adapter *swarm.Adapter
	b       Batch
	parts   []*part
}

// Hops are the servers that computed the parts of the batch.
func (f *Forwarded) Hops() (all [][]swarm.Hop) {
	for _, p := range f.parts {
		all = append(all, p.hops())
	}
	return all
}

// check refuses batches that fit neither themselves nor the model.
func (r *Remote) check(b *Batch) error {
	hidden := r.e.cfg.Manifest.Hidden
	rows := 0
	for i, n := range b.Lengths {
		if n < 1 || n < b.Prompt {
			return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "sequence %d has %d rows, and prompts for %d: each needs at least one row, and one for each of its prompts", i, n, b.Prompt)
		}
		if most := r.e.cfg.MaxLength; n > most || r.opt.Length > 0 && n > r.opt.Length {
			return swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "sequence %d has %d rows: at most %d", i, n, most)
		}
		rows += n
	}
	tables := len(b.Lengths)
	if b.Shared {
		tables = 1
	}
	switch {
	case rows == 0:
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a batch without sequences")
	case len(b.Rows) != rows*hidden:
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a batch of %d values, want %d rows of %d", len(b.Rows), rows, hidden)
	case b.Prompt < 0 || len(b.Prompts) != r.span.Len()*tables*b.Prompt*hidden:
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts of %d values, want %d blocks of %d tables of %d rows of %d", len(b.Prompts), r.span.Len(), tables, b.Prompt, hidden)
	}
	return nil
}

// begin checks a batch and cuts it into parts.
func (r *Remote) begin(ctx context.Context, b *Batch) (*Forwarded, error) {
	if err := r.check(b); err != nil {
		return nil, err
	}
	f := &Forwarded{r: r, b: *b}
	if r.opt.Adapter != "" {
		view, err := r.e.cfg.Directory.View(ctx, r.e.uid)
		if err != nil {
			return nil, err
		}
		if f.adapter, err = r.e.adapter(view, r.opt.Adapter); err != nil {
			return nil, err
		}
	}
	f.parts = r.cut(f)
	return f, nil
}

// Forward computes a batch. The batch must stay as it is as long as the result is used.
func (r *Remote) Forward(ctx context.Context, b *Batch) (*Forwarded, error) {
	return r.forward(ctx, b, forBackward)
}

// Outputs are the rows behind the last block, [rows][hidden], of a batch that does not go back.
func (r *Remote) Outputs(ctx context.Context, b *Batch) ([]float32, error) {
	f, err := r.forward(ctx, b, forOutputs)
	if err != nil {
		return nil, err
	}
	return f.Outputs, nil
}

// Gradients are what Forward and then Backward give, without what is behind the last block: the
// last server of each part computes forward on the way back alone.
func (r *Remote) Gradients(ctx context.Context, b *Batch, grads []float32) (rows, prompts []float32, err error) {
	f, err := r.forward(ctx, b, forGradients)
	if err != nil {
		return nil, nil, err
	}
	return f.Backward(ctx, grads)
}

// purpose says what a forward pass is made for.
type purpose uint8

const (
	forBackward  purpose = iota // outputs, and to go back
	forOutputs                  // these alone: what servers were given is not kept
	forGradients                // to go back alone: the last server is not asked
)

func (r *Remote) forward(ctx context.Context, b *Batch, why purpose) (*Forwarded, error) {
	f, err := r.begin(ctx, b)
	if err != nil {
		return nil, err
	}
	if why != forGradients {
		f.Outputs = make([]float32, len(b.Rows))
	}
	f.why = why
	done, err := eachPart(ctx, r.opt.Parallel, f.parts, func(ctx context.Context, p *part) error {
		if err := p.forward(ctx); err != nil {
			return err
		}
		if r.opt.Hops != nil {
			r.opt.Hops(p.hops())
		}
		return nil
	})
	if f.parts = done; err != nil {
		return nil, err
	}
	return f, nil
}

// Backward computes the gradients of a loss by the batch's rows and by its prompts, from those by
// Outputs, [rows][hidden]. Those of prompts are of each sequence for itself, also where all
// have the same: [blocks of the range][sequences][Prompt][hidden]; nil if there are none. It may
// be called again.
func (f *Forwarded) Backward(ctx context.Context, grads []float32) (rows, prompts []float32, err error) {
	if len(grads) != len(f.b.Rows) {
		return nil, nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "gradients of %d values, want %d", len(grads), len(f.b.Rows))
	}
	hidden := f.r.e.cfg.Manifest.Hidden
	rows = make([]float32, len(grads))
	prompts = make([]float32, f.r.span.Len()*len(f.b.Lengths)*f.b.Prompt*hidden)
	parts := make([]*part, len(f.parts))
	for i, p := range f.parts {
		q := *p
		q.stretches = slices.Clone(p.stretches)
		q.grads, q.rows, q.prompts = grads, rows, prompts
		parts[i] = &q
	}
	if _, err := eachPart(ctx, f.r.opt.Parallel, parts, func(ctx context.Context, p *part) error { return p.backward(ctx) }); err != nil {
		return nil, nil, err
	}
	if f.b.Prompt == 0 {
		prompts = nil
	}
	return rows, prompts, nil
}

// eachPart does something to all parts, some at a time. A part that is too large for the servers of
// its blocks is halved. The parts that were done come back in order.
func eachPart(ctx context.Context, parallel int, parts []*part, do func(context.Context, *part) error) ([]*part, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	done := make([][]*part, len(parts))
	for i, p := range parts {
		g.Go(func() error {
			for left := []*part{p}; len(left) > 0; {
				p := left[0]
				err := do(ctx, p)
				if err == errHalve {
					a, b := p.halve()
					left = append([]*part{a, b}, left[1:]...)
					continue
				}
				if err != nil {
					return err
				}
				done[i], left = append(done[i], p), left[1:]
			}
			return nil
		})
	}
	err := g.Wait()
	return slices.Concat(done...), err
}

// String names the blocks in logs.
func (r *Remote) String() string {
	return fmt.Sprintf("blocks %v of %s", r.span, r.e.cfg.Manifest.Name)
}
