package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"whorl/server/blocks"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// TrainLoader is a Loader whose engines compute passes: forward and backward without a session.
// What FromBlocks makes is one.
type TrainLoader interface {
	// TrainerBytes is the memory of a Trainer for sequences of up to so many rows, TrainingBytes what
	// a backward pass through so many blocks takes beside it.
	TrainerBytes(longest int) int64
	TrainingBytes(longest, blocks int) int64
	// NewTrainer makes one. It keeps the engine's blocks alive and does not touch its cache, so
	// that it may be used beside Step.
	NewTrainer(e Engine, longest int) (Trainer, error)
}

// Trainer computes passes, one at a time. *blocks.Trainer is one.
type Trainer interface {
	Forward(r *blocks.Training, from, to int, in, out, inputs []float32) error
	Backward(r *blocks.Training, from, to int, in, inputs, dout, din, dprompts []float32) error
}

// pass is one pass that a client asked for.
type pass struct {
	id      uint64
	from    swarm.PeerID
	home    *container
	ask     *wire.Pass
	adapter int
	ctx     context.Context // ends when nobody wants it any more
	cancel  context.CancelCauseFunc

	in, grads, prompts []float32 // as they came; results take their place
	dprompts           []float32

	done chan struct{} // closed when it is computed, or will not be
	err  error         // once it is
}

// trainer is the workspace of a container's passes.
type trainer struct {
	Trainer
	longest int
	adapted int // it knows the adapters as they were then
	bytes   int64
	of      *budget.Pool // that they were taken from; nil if there is no workspace
}

// leastLongest is how many rows a workspace has room for at least: short sequences are computed
// in groups.
const leastLongest = 256

// queueLocked puts a pass behind the others of its container.
func (s *Server) queueLocked(p *pass) {
	s.ids++
	p.id = s.ids
	p.home.trains[p.id] = p
	p.home.passes.Push(s.clock(), sched.Pass{ID: p.id, Peer: string(p.from), Backward: p.ask.Backward})
	poke(p.home.train)
}

// dropLocked ends a pass that is not computed yet, or has just been.
func (s *Server) dropLocked(p *pass, err error) {
	if p.home.trains[p.id] != p {
		return
	}
	delete(p.home.trains, p.id)
	p.home.passes.Drop(p.id)
	p.err = err
	close(p.done)
	s.changed.wake()
}

// refusePassesLocked ends the passes of a container that wait. The one that is computed ends with
// its own context.
func (s *Server) refusePassesLocked(c *container, err error) {
	for _, p := range c.trains {
		if p != c.training {
			s.dropLocked(p, err)
		}
	}
}

// runPasses computes the passes of a container, one after another, until ctx ends.
func (s *Server) runPasses(ctx context.Context, c *container) {
	var w trainer
	defer func() {
		w.free()
		s.mu.Lock()
		c.training = nil
		s.refusePassesLocked(c, errDraining(s.deps.Self))
		s.mu.Unlock()
	}()
	for ctx.Err() == nil {
		s.mu.Lock()
		if c.broken != nil {
			s.mu.Unlock()
			return
		}
		next, ok := c.passes.Next(s.clock())
		p := c.trains[next.ID]
		c.training = p
		s.mu.Unlock()
		if !ok {
			select {
			case <-ctx.Done():
			case <-c.train:
			}
			continue
		}
		began := time.Now()
		worked, err := s.computePass(ctx, c, &w, p)
		s.metrics.passes.WithLabelValues(kindOf(p.ask)).Inc()
		s.metrics.passRows.Add(float64(p.ask.Rows() * p.ask.Span.Len()))
		s.metrics.passTime.Observe(time.Since(began).Seconds())
		s.mu.Lock()
		c.training = nil
		c.passes.Computed(s.clock(), string(p.from), worked)
		s.busy.add(time.Now(), worked)
		s.dropLocked(p, err)
		if bad := new(panicked); errors.As(err, &bad) {
			s.log.Error("a pass panicked", "reason", bad.value, "stack", string(bad.stack))
			s.breakLocked(c, err)
		}
		s.mu.Unlock()
	}
}

func kindOf(p *wire.Pass) string {
	if p.Backward {
		return "backward"
	}
	return "forward"
}

// computePass computes a pass in pieces between iterations; worked is the time that the pieces took.
func (s *Server) computePass(ctx context.Context, c *container, w *trainer, p *pass) (worked time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
	if err := s.workspace(ctx, c, w, p); err != nil {
		return 0, err
	}
	var since time.Time
	inside := false
	enter := func() error {
		if err := s.turns.enter(ctx); err != nil {
			return err
		}
		since, inside = time.Now(), true
		return nil
	}
	leave := func() {
		if inside {
			worked += time.Since(since)
			inside = false
			s.turns.leave()
		}
	}
	defer func() {
		leave()
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	if err := enter(); err != nil {
		return worked, err
	}
	r := blocks.Training{Lengths: p.ask.Lengths, PromptRows: p.ask.Prompt, Prompts: p.prompts, Adapter: p.adapter, Length: p.ask.Length, Yield: func() error {
		leave()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return enter()
	}}
	if p.ask.Backward {
		err = w.Backward(&r, p.ask.Span.Start, p.ask.Span.End, p.in, nil, p.grads, p.grads, p.dprompts)
	} else {
		err = w.Forward(&r, p.ask.Span.Start, p.ask.Span.End, p.in, p.in, nil)
	}
	return worked, err
}

// workspace makes room for the sequences of a pass, unless there is.
func (s *Server) workspace(ctx context.Context, c *container, w *trainer, p *pass) error {
	longest := longestOf(p.ask)
	s.mu.Lock()
	adapted := s.adapted
	s.mu.Unlock()
	if w.Trainer != nil && w.longest >= longest && w.adapted == adapted {
		return nil
	}
	l, work := s.deps.Loader.(TrainLoader), s.passing.Load().work
	w.free()
	better := max(longest, min(leastLongest, s.cfg.Passes.Rows))
	if bytes := s.trainerBytes(better, c.span.Len()); bytes <= work.Total() {
		longest = better
	}
	bytes := s.trainerBytes(longest, c.span.Len())
	if err := work.Wait(ctx, bytes, budget.Who{}); err != nil { // while blocks are moved there may be two
		return err
	}
	t, err := l.NewTrainer(c.engine, longest)
	if err != nil {
		work.Give(bytes, budget.Who{})
		return fmt.Errorf("workspace for sequences of %d rows: %w", longest, err)
	}
	*w = trainer{Trainer: t, longest: longest, adapted: adapted, bytes: bytes, of: work}
	return nil
}

// trainerBytes is the memory of a Trainer, with what a backward pass through so many blocks keeps.
func (s *Server) trainerBytes(longest, blocks int) int64 {
	l := s.deps.Loader.(TrainLoader)
	return l.TrainerBytes(longest) + l.TrainingBytes(longest, blocks)
}

// free lets go of the workspace.
func (w *trainer) free() {
	if w.of != nil {
		w.of.Give(w.bytes, budget.Who{})
	}
	*w = trainer{}
}

func longestOf(p *wire.Pass) (n int) {
	for _, l := range p.Lengths {
		n = max(n, l)
	}
	return n
}
