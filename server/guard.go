package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"whorl/internal/backoff"
	"whorl/swarm"
)

// A container whose compute loop failed is left as a whole: its sessions are told to go
// elsewhere, and the blocks are loaded anew after a wait. One that fails again and again is
// given up: the server says that it is offline, and why, until its operator restarts it. The
// process goes on, since a gateway and a directory live in it as well.

const (
	// faultsMost is how many iterations in a row may fail before the container is left. A
	// panic leaves it at once, since nobody knows what state it is in.
	faultsMost = 3
	// crashesMost in crashWindow is a crash loop.
	crashesMost = 5
	crashWindow = 10 * time.Minute
	// hangLeast is how long any iteration may take. Beyond that it may take hangFactor times
	// what was measured for its rows.
	hangLeast  = time.Minute
	hangFactor = 10
)

// revival is the wait before blocks are loaded anew.
var revival = backoff.Policy{First: time.Second, Max: time.Minute}

// panicked is a panic of the compute loop.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guarded runs an iteration; a panic is an error.
func (c *computer) guarded(x *session) error { return caught(func() error { return c.compute(x) }) }

// caught runs f; a panic is an error.
func caught(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return f()
}

// judgeLocked counts how iterations ended, and leaves the container if too many failed.
func (c *computer) judgeLocked(err error) {
	if err == nil {
		c.faults = 0
		return
	}
	if p := new(panicked); errors.As(err, &p) {
		c.s.log.Error("the compute loop panicked", "reason", p.value, "stack", string(p.stack))
	} else if c.faults++; c.faults < faultsMost {
		return
	}
	c.s.breakLocked(c.home, err)
}

// breakLocked leaves a container that cannot go on.
func (s *Server) breakLocked(c *container, why error) {
	if c.broken != nil {
		return
	}
	c.broken = why
	s.refusePassesLocked(c, errBroken(s.deps.Self))
	if c == s.container && s.state != swarm.Offline && !s.stopping {
		s.state = swarm.Joining // it will serve these blocks again
		if c.hung {
			s.state = swarm.Offline
		}
		s.trouble = fmt.Sprintf("the compute loop failed: %v", why)
	}
	for _, x := range s.byKey {
		if x.home == c {
			x.finishLocked(errBroken(s.deps.Self))
		}
	}
	s.metrics.restarts.Inc()
	poke(s.publish)
	poke(s.broke)
}

func errBroken(self swarm.PeerID) *swarm.Error {
	e := swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to compute and loads its blocks anew", self.Short())
	e.Peer = self
	return e
}

// watchLocked leaves containers whose iteration hangs. Nobody can end an iteration from
// outside: the blocks are loaded anew when it has come to an end by itself.
func (s *Server) watchLocked(now time.Time) {
	for _, c := range s.containersLocked() {
		if c.since.IsZero() || c.broken != nil || now.Sub(c.since) < s.hangs(c.span.Len(), c.rows) {
			continue
		}
		c.hung = true
		s.breakLocked(c, fmt.Errorf("an iteration of %d rows hangs since %s", c.rows, c.since.Format(time.RFC3339)))
		s.log.Error("an iteration hangs", "blocks", c.span.String(), "rows", c.rows, "since", c.since)
	}
}

// hangs is how long an iteration of so many rows may take.
func (s *Server) hangs(blocks, rows int) time.Duration {
	limit := max(hangLeast, s.cfg.Timeouts.Hang)
	if r := s.rates.InferenceRPS; r != nil && *r > 0 {
		limit = max(limit, time.Duration(hangFactor*float64(rows*blocks) / *r * float64(time.Second)))
	}
	return limit
}

// revive loads the blocks of a broken container anew. It returns when they are served, when
// that is given up, or with ctx.
func (s *Server) revive(ctx, work context.Context, wait bool) {
	c := s.container
	if !s.ended(ctx, c) {
		return
	}
	for ctx.Err() == nil {
		now := time.Now()
		s.crashes = append(s.crashes, now)
		for len(s.crashes) > 0 && now.Sub(s.crashes[0]) > crashWindow {
			s.crashes = s.crashes[1:]
		}
		if len(s.crashes) > crashesMost && wait {
			s.giveUp()
			return
		}
		if wait && !backoff.Wait(ctx, revival.After(len(s.crashes), 0)) {
			return
		}
		s.mu.Lock()
		s.state = swarm.Joining
		s.mu.Unlock()
		poke(s.publish)
		span, plan := *c.span, s.room
		s.unload(c)
		s.forget(span, swarm.Span{}) // they are loading from now on
		fresh, err := s.load(ctx, span, plan, nil)
		if err == nil {
			s.log.Info("the blocks are loaded anew", "blocks", span.String())
			s.take(work, fresh, plan)
			s.discard(c)
			s.mu.Lock()
			if s.state == swarm.Joining {
				s.openLocked()
				s.trouble = ""
			}
			s.mu.Unlock()
			poke(s.publish)
			return
		}
		s.log.Error("the blocks could not be loaded anew", "blocks", span.String(), "reason", err)
		s.mu.Lock()
		s.trouble = fmt.Sprintf("the blocks could not be loaded anew: %v", err)
		s.mu.Unlock()
		wait = true
	}
}

// ended waits until the compute loop of a broken container has ended: false if ctx did first.
func (s *Server) ended(ctx context.Context, c *container) bool {
	over := make(chan struct{})
	c.stop()
	go func() {
		c.loops.Wait()
		close(over)
	}()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveUp says that the server is offline, and why.
func (s *Server) giveUp() {
	s.mu.Lock()
	s.state = swarm.Offline
	s.trouble = fmt.Sprintf("given up after %d failures within %v: %s", len(s.crashes), crashWindow, s.trouble)
	why := s.trouble
	s.mu.Unlock()
	poke(s.publish)
	s.log.Error("the server stays offline until it is restarted (POST /api/v1/node/restart, or the process)", "reason", why)
}

// Trouble is why the server does not serve, "" if nothing is wrong.
func (s *Server) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// Restart loads the blocks anew, and returns when they are served: sessions go elsewhere
// first, as in a move. It is also how a server that has given up begins again. An end of ctx
// while sessions still go leaves all as it was.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	state, hung := s.state, s.container.hung && s.container.broken != nil && !s.container.since.IsZero()
	s.mu.Unlock()
	switch {
	case hung:
		return swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "an iteration hangs and nobody can end it: restart the process")
	case state != swarm.Online && state != swarm.Offline:
		return notThere(state)
	}
	return s.orderAndTell(ctx, order{restart: true, why: "the operator asked for it"})
}

// restart carries that out.
func (s *Server) restart(ctx, work context.Context, o order) error {
	s.crashes = nil
	c := s.container
	if c.broken == nil {
		s.mu.Lock()
		s.state = swarm.Joining
		s.leaveLocked(c, time.Now().Add(s.cfg.Timeouts.Drain))
		s.mu.Unlock()
		poke(s.publish)
		trip, stop := o.within(ctx)
		defer stop()
		if !s.empty(trip, c) {
			s.mu.Lock()
			if s.state == swarm.Joining { // as it was: also for the drain of a server that ends
				s.openLocked()
				c.leaves = time.Time{}
			}
			s.mu.Unlock()
			poke(s.publish)
			return context.Cause(trip)
		}
	}
	s.revive(ctx, work, false)
	if why := s.Trouble(); why != "" {
		return swarm.Errorf(swarm.CodeInternal, swarm.Again, "%s", why)
	}
	return nil
}
