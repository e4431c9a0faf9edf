package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// order is something to be done to what the server holds. One is carried out at a time.
type order struct {
	restart bool                            // load the blocks anew
	do      func(ctx context.Context) error // something else, while nothing is moved or loaded
	to      swarm.Span
	why     string
	cause   string          // for the metric: alarm, throughput or operator
	gone    <-chan struct{} // closed when whoever gave it gives it up
	done    chan error      // of capacity one
}

// Errors of moves that were not made; nothing has changed.
var (
	errPinned   = swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "the operator of this server chose its blocks (--block-indices): it does not move")
	errNotThere = swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "the server is not online: it can move once it is")
	errDrained  = swarm.Errorf(swarm.CodeDraining, swarm.Again, "the server is draining: resume it first (POST /api/v1/node/resume), or wait if it moves")
	errBusy     = swarm.Errorf(swarm.CodeTooMany, swarm.Again, "the server is moving already")
)

// Move has the server hold another span in the place of its present one, and returns when the
// old one is freed. Sessions go elsewhere meanwhile, and new ones find the new blocks as soon
// as these are loaded. Where memory has no room for both, the old blocks are given up first.
// After an error the server holds what it held before; an end of ctx is one, until the new
// blocks are served.
func (s *Server) Move(ctx context.Context, to swarm.Span, why string) error {
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	switch {
	case s.cfg.Span != nil:
		return errPinned
	case to.Start < 0 || to.Start >= to.End || to.End > s.cfg.Manifest.Blocks:
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "blocks %v: %s has blocks 0:%d", to, s.cfg.Manifest.Name, s.cfg.Manifest.Blocks)
	case state != swarm.Online:
		return notThere(state)
	}
	return s.orderAndTell(ctx, order{to: to, why: why, cause: "operator"})
}

// notThere is why a server in a state other than ONLINE cannot do what its operator wants.
func notThere(state swarm.State) error {
	if state == swarm.Draining {
		return errDrained
	}
	return errNotThere
}

// order has something done, and waits until it is. An end of ctx asks to give it up.
func (s *Server) order(ctx context.Context, o order) error {
	o.gone, o.done = ctx.Done(), make(chan error, 1)
	select {
	case s.orders <- o:
		return <-o.done // whoever takes an order answers
	default:
		return errBusy
	}
}

// orderAndTell is order, which ends once others may have heard what the server is then: who waited for it
// may use the server at once.
func (s *Server) orderAndTell(ctx context.Context, o order) error {
	err := s.order(ctx, o)
	if err == nil {
		s.Tell(ctx)
	}
	return err
}

// keep carries orders out until ctx ends. Compute loops run until work does.
func (s *Server) keep(ctx, work context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-s.orders:
			switch {
			case o.restart:
				o.done <- s.restart(ctx, work, o)
			case o.do != nil:
				trip, stop := o.within(ctx)
				o.done <- o.do(trip)
				stop()
			default:
				o.done <- s.move(ctx, work, o)
			}
		case <-s.broke:
			s.mu.Lock()
			broken := s.container.broken != nil
			s.mu.Unlock()
			if broken {
				s.revive(ctx, work, true)
			}
		}
	}
}

// move carries an order out.
func (s *Server) move(ctx, work context.Context, o order) error {
	old, from := s.container, *s.container.span
	if o.to == from {
		return nil
	}
	plan, beside, err := s.roomFor(o.to)
	if err != nil {
		return err
	}
	trip, stop := o.within(ctx)
	defer stop()
	began := time.Now()
	s.log.Info("moving", "from", from.String(), "to", o.to.String(), "why", o.why, "beside", beside)
	s.intend(&swarm.Intent{Span: o.to})
	if !beside {
		if err := s.vacate(trip, old, o.to); err != nil {
			s.stay(old)
			return err
		}
	}
	c, err := s.load(trip, o.to, plan, old.engine)
	if err != nil {
		if beside {
			s.stay(old)
			return err
		}
		back, again := s.load(ctx, from, s.room, old.engine)
		if again != nil {
			err = fmt.Errorf("%w; and the old blocks: %w", err, again)
			s.mu.Lock()
			s.vacating, s.next = false, nil
			s.breakLocked(old, err)
			s.mu.Unlock()
			return err
		}
		s.take(work, back, s.room)
		s.discard(old)
		return err
	}
	s.take(work, c, plan)
	s.metrics.moves.WithLabelValues(o.cause).Inc()
	s.moved(swarm.Move{At: time.Now().UTC(), From: from.String(), To: o.to.String(), Reason: o.why})
	s.log.Info("moved: the new blocks are served", "from", from.String(), "to", o.to.String(), "took", time.Since(began).Round(time.Millisecond).String())
	if !s.empty(ctx, old) {
		return nil // the server ends, and looks after both
	}
	s.discard(old)
	s.log.Info("the old blocks are freed", "blocks", from.String(), "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// moved remembers a move, for who asks.
func (s *Server) moved(m swarm.Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves = append(s.moves, m)
	s.moves = s.moves[max(0, len(s.moves)-swarm.MaxMoves):]
}

// roomFor is the plan for a span, and whether it can be loaded beside the present one.
func (s *Server) roomFor(to swarm.Span) (plan MemoryPlan, beside bool, err error) {
	cfg := s.cfg
	cfg.NumBlocks, cfg.CacheToken, cfg.Memory, cfg.MemoryFrom = to.Len(), s.room.CacheToken, s.room.Total, s.room.Source
	z := s.deps.Loader.Sizes()
	if plan, err = cfg.Plan(z, cfg.Manifest.Blocks); err != nil {
		return plan, false, err
	}
	shared := int64(max(0, min(to.End, s.span.End)-max(to.Start, s.span.Start)))
	more := plan.Weights + plan.Adapters + plan.Cache + plan.Buffers - shared*(z.Block+z.Adapters)
	return plan, more <= s.room.Spare-s.cfg.Spare, nil
}

// intend announces where the server means to go.
func (s *Server) intend(next *swarm.Intent) {
	s.mu.Lock()
	s.next = next
	s.mu.Unlock()
	poke(s.publish)
}

// vacate has the sessions of a container go elsewhere, and frees all of it that another span
// does not share.
func (s *Server) vacate(ctx context.Context, c *container, to swarm.Span) error {
	e, ok := c.engine.(stripper)
	if !ok {
		return errors.New("this server's blocks cannot be given up one by one")
	}
	s.mu.Lock()
	if s.state == swarm.Online {
		s.state, s.vacating = swarm.Draining, true
	}
	s.leaveLocked(c, time.Now().Add(s.cfg.Timeouts.Drain))
	s.mu.Unlock()
	poke(s.publish)
	if !s.empty(ctx, c) {
		return context.Cause(ctx)
	}
	c.stop()
	c.loops.Wait()
	e.Strip(to.Start, to.End)
	s.forget(*c.span, to)
	return nil
}

// forget drops the blocks of a span from the list of those held, but for those of another.
func (s *Server) forget(old, but swarm.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := old.Start; b < old.End; b++ {
		if !but.Holds(b) {
			delete(s.loading, b)
		}
	}
}

// stay goes on with a container after a move that failed.
func (s *Server) stay(c *container) {
	s.mu.Lock()
	s.next = nil
	s.vacatedLocked()
	c.leaves = time.Time{}
	for b := range s.loading {
		if !c.span.Holds(b) {
			delete(s.loading, b)
		}
	}
	s.mu.Unlock()
	poke(s.publish)
}

// take serves with a new container, and has the sessions of the old one go elsewhere.
func (s *Server) take(work context.Context, c *container, plan MemoryPlan) {
	s.compute(work, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.container
	s.left = append(s.left, old)
	s.container, s.room, s.next = c, plan, nil
	if s.rates.ForwardRPS != nil {
		s.offered, s.figures = balance.Offer(*s.rates.ForwardRPS, c.span.Len()), figures{}
	}
	s.vacatedLocked()
	if old.leaves.IsZero() {
		s.leaveLocked(old, time.Now().Add(s.cfg.Timeouts.Drain))
	}
	poke(s.publish)
}

// vacatedLocked takes sessions again after vacate, unless the server is being stopped.
func (s *Server) vacatedLocked() {
	if s.vacating && s.state == swarm.Draining && !s.stopping && !s.drained {
		s.state = swarm.Online
	}
	s.vacating = false
}

// discard frees a container that has been left.
func (s *Server) discard(c *container) {
	s.unload(c)
	s.mu.Lock()
	for i := range s.left {
		if s.left[i] == c {
			s.left = append(s.left[:i:i], s.left[i+1:]...)
			break
		}
	}
	here := *s.span
	s.mu.Unlock()
	s.forget(*c.span, here)
}
