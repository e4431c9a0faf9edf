package client

import (
	"context"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// RowOptions opens a session of rows.
type RowOptions struct {
	// Blocks is the range that rows go through; empty for all.
	Blocks swarm.Span
	// MaxLength is the budget in positions.
	MaxLength   int
	Activations tensor.Activations
	// Prompt is how many rows at the start of the session prompts are added to, in front of each
	// block; 0: there are none. Prompts is [blocks of the range][Prompt][hidden].
	Prompt  int
	Prompts []float32
	// Wait is how long servers may keep the open waiting for cache; 0 for the default.
	Wait time.Duration
	// Adapter names a LoRA adapter, as NAME or NAME@DIGEST.
	Adapter string
	// Beside is how many sessions like it are open for the same user: they share the memory for
	// journals. 0 counts as 1.
	Beside int
}

// RowSession is a session that is given hidden states in place of ids, and through some blocks
// only: what embeds and what reads its outputs is the user's. It survives the loss of servers as
// every Session does, since it keeps the rows that it was given. One goroutine uses it at a
// time; ID, Route, Reroutes and Close may be called from anywhere.
type RowSession struct{ s *Session }

// OpenRows starts a session of rows: a route is found and cache is reserved on every stage of it.
func (e *Engine) OpenRows(ctx context.Context, o RowOptions) (*RowSession, error) {
	if o.Blocks == (swarm.Span{}) {
		o.Blocks = e.all()
	}
	if err := e.checkSpan(o.Blocks); err != nil {
		return nil, err
	}
	opt := SessionOptions{MaxLength: o.MaxLength, Activations: o.Activations, Wait: o.Wait, Adapter: o.Adapter, beside: o.Beside}
	if opt.MaxLength < 1 || opt.MaxLength > e.cfg.MaxLength {
		return nil, errNoRoom(opt.MaxLength, e.cfg.MaxLength)
	}
	switch values := o.Blocks.Len() * o.Prompt * e.cfg.Manifest.Hidden; {
	case o.Prompt < 0 || o.Prompt > min(wire.MaxPrompt, o.MaxLength):
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts of %d rows in a session of %d: want at most %d", o.Prompt, o.MaxLength, min(wire.MaxPrompt, o.MaxLength))
	case len(o.Prompts) != values:
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts of %d values, want %d blocks of %d rows of %d", len(o.Prompts), o.Blocks.Len(), o.Prompt, e.cfg.Manifest.Hidden)
	case !codec.Finite(o.Prompts):
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts with values that are not finite")
	case o.Prompt > 0:
		opt.Prompts = &Prompts{Tokens: o.Prompt, Deep: o.Prompts, rowless: o.Blocks}
	}
	view, adapter, err := e.viewFor(ctx, opt)
	if err != nil {
		return nil, err
	}
	if most := e.room(view, o.Blocks, opt); opt.MaxLength > most {
		return nil, errNoRoom(opt.MaxLength, most)
	}
	s := e.newSession(opt, o.Blocks, adapter)
	s.inputs = &journal{hidden: e.cfg.Manifest.Hidden}
	s.audited = false // what would be audited is the user's own rows: nobody else has them
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return &RowSession{s}, nil
}

// checkSpan refuses what is no run of the model's blocks.
func (e *Engine) checkSpan(span swarm.Span) error {
	if span.Start < 0 || span.Start >= span.End || span.End > e.cfg.Manifest.Blocks {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "blocks %v: %s has blocks 0:%d", span, e.cfg.Manifest.Name, e.cfg.Manifest.Blocks)
	}
	return nil
}

// Step runs rows, [n][hidden], through the blocks behind those that the session holds, and returns
// what comes out, [n][hidden], valid until the next call. On an error the session is as it was.
func (r *RowSession) Step(ctx context.Context, rows []float32) ([]float32, error) {
	s, hidden := r.s, r.s.e.cfg.Manifest.Hidden
	n := len(rows) / hidden
	switch {
	case n == 0 || n*hidden != len(rows):
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a step of %d values, want rows of %d", len(rows), hidden)
	case !codec.Finite(rows):
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "rows with values that are not finite")
	}
	if s.e.cfg.Residual == tensor.ResidualBF16 { // as every row between blocks in this gateway's sessions
		rows = slices.Clone(rows)
		if codec.Round(rows); !codec.Finite(rows) {
			return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "rows beyond what bfloat16 holds, in which this node's sessions have their rows")
		}
	}
	s.mu.Lock()
	before := len(s.ids)
	if before+n > s.opt.MaxLength {
		s.mu.Unlock()
		return nil, errTooLong(before, n, s.opt.MaxLength)
	}
	s.inputs.put(before, rows)
	s.mu.Unlock()
	return s.advance(ctx, make([]int32, n), 0)
}

// Truncate cuts the session back to the given number of rows, at most Position.
func (r *RowSession) Truncate(pos int) error { return r.s.Truncate(pos) }

// Position is the number of rows in the session.
func (r *RowSession) Position() int { return r.s.Position() }

// ID names the session in logs and APIs.
func (r *RowSession) ID() string { return r.s.ID() }

// Route is the present chain.
func (r *RowSession) Route() []swarm.Hop { return r.s.Route() }

// Reroutes counts the fail-overs.
func (r *RowSession) Reroutes() int { return r.s.rerouted() }

// Close ends the session: every stage frees what it holds. It is safe to call twice.
func (r *RowSession) Close() error { return r.s.Close() }

// Head is what the engine embeds and makes logits with.
func (e *Engine) Head() Head { return e.cfg.Head }
