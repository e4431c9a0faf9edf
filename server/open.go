package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"whorl/server/kvcache"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// admit checks an Open and registers its session, which then waits for cache.
func (s *Server) admit(ctx context.Context, from swarm.PeerID, o *wire.Open, stream wire.Stream) (*session, error) {
	mode, err := s.checkOpen(o)
	if err != nil {
		return nil, err
	}
	adapter, err := s.adapterOf(o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayServe(from, o); err != nil {
		return nil, err
	}
	for _, x := range s.byID[o.Session] {
		if x.span.Start < o.Span.End && o.Span.Start < x.span.End {
			if x.client != from {
				return nil, swarm.Errorf(swarm.CodeUnauthorised, swarm.Caller, "session %s belongs to another client", o.Session)
			}
			// The client has given the old stream up before this server noticed.
			x.finish(swarm.Errorf(swarm.CodeNoSession, swarm.Replay, "the session was opened anew"))
		}
	}
	if err := s.haveRoom(from); err != nil {
		return nil, err
	}
	now := time.Now()
	s.keys++
	x := &session{
		srv: s, key: s.keys, id: o.Session, client: from, span: o.Span, mode: mode, modeHash: o.Mode, adapter: adapter, maxLength: o.MaxLength, sequences: max(1, o.Sequences),
		opened: now, active: now, control: stream, route: o.Route,
	}
	x.out = newOutbox(x)
	s.byKey[x.key] = x
	s.byID[x.id] = append(s.byID[x.id], x)
	epoch, engine, cache := x.enter(ctx), s.engine, s.cache
	x.tasks.Go(func() { x.reserve(epoch, engine, cache, time.Duration(o.WaitMillis)*time.Millisecond) })
	return x, nil
}

// checkOpen checks what needs no lock: the frame itself.
func (s *Server) checkOpen(o *wire.Open) (tensor.Activations, error) {
	if o.UID != s.uid {
		return 0, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "server %s serves %s (%s), not model %q", s.deps.Self.Short(), s.cfg.Manifest.Name, s.uid, o.UID)
	}
	mode, err := tensor.ParseActivations(o.Activations)
	if err != nil {
		return 0, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "%w", err)
	}
	if want := o.SessionMode().Hash(); o.Mode != want {
		return 0, swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "the client names the session's mode %s, and server %s makes %s of the same frame: it does not know all that the session asks for, or the client errs",
			o.Mode.Short(), s.deps.Self.Short(), want.Short())
	}
	if err := checkSequences(o); err != nil {
		return 0, err
	}
	if o.WaitMillis < 0 {
		return 0, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "wait_ms %d: want 0 or more", o.WaitMillis)
	}
	return mode, checkRoute(&o.Route, s.deps.Self)
}

// adapterOf finds the adapter that a session asks for, -1 if none.
func (s *Server) adapterOf(o *wire.Open) (int, error) {
	if o.Adapter == nil {
		return -1, nil
	}
	if err := o.Adapter.Validate(); err != nil {
		return -1, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a session asks for an adapter that cannot be (%w): %s", err, s.holds())
	}
	asked := fmt.Sprintf("a session asks for the adapter %q with digest %.12q", o.Adapter.Name, o.Adapter.Digest)
	for i, a := range s.adapters {
		switch {
		case a == *o.Adapter:
			return i, nil
		case a.Name == o.Adapter.Name:
			return -1, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "%s, and server %s holds another of this name, with digest %.12q: ask for that one, or start a server with the same files",
				asked, s.deps.Self.Short(), a.Digest)
		}
	}
	return -1, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "%s: %s", asked, s.holds())
}

// holdsMost is how many adapters a refusal lists.
const holdsMost = 8

// holds says which adapters there are, and what may be done.
func (s *Server) holds() string {
	self := s.deps.Self.Short()
	if len(s.adapters) == 0 {
		return fmt.Sprintf("server %s holds none: ask a server that was started with --adapters", self)
	}
	var names []string
	for _, a := range s.adapters[:min(len(s.adapters), holdsMost)] {
		names = append(names, fmt.Sprintf("%q", a.Name))
	}
	if more := len(s.adapters) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("server %s holds %s: ask for one of these, or start a server with --adapters", self, strings.Join(names, ", "))
}

// checkRoute refuses places in a chain that cannot be.
func checkRoute(r *wire.Route, self swarm.PeerID) error {
	switch {
	case r.Truncate < 0 || r.Skip < 0 || r.Journal < -1 || max(r.Truncate, r.Skip, r.Journal) > wire.MaxPosition:
		return fmt.Errorf("%w: route with truncate %d, skip %d, journal %d", wire.ErrFrame, r.Truncate, r.Skip, r.Journal)
	case r.Next == self || r.Prev == self:
		return fmt.Errorf("%w: route from %s to %s past %s itself", wire.ErrFrame, r.Prev.Short(), r.Next.Short(), self.Short())
	}
	return nil
}

// mayServe tells whether this server takes the session at all; mu is held.
func (s *Server) mayServe(from swarm.PeerID, o *wire.Open) error {
	self := s.deps.Self.Short()
	if _, killed := s.killed[o.Session]; killed {
		return errKilled(s.deps.Self)
	}
	switch s.state {
	case swarm.Online:
	case swarm.Draining:
		return errDraining(s.deps.Self)
	default:
		return swarm.Errorf(swarm.CodeNotLoaded, swarm.Elsewhere, "server %s is %s, not online", self, s.state)
	}
	if o.Span.Start >= o.Span.End || !s.span.Contains(o.Span) {
		return swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "server %s holds blocks %v, not %v", self, *s.span, o.Span)
	}
	return nil
}

// haveRoom keeps the number of sessions in bounds; mu is held.
func (s *Server) haveRoom(from swarm.PeerID) error {
	mine := 0
	for _, x := range s.byKey {
		if x.client == from {
			mine++
		}
	}
	switch self := s.deps.Self.Short(); {
	case mine >= s.cfg.PeerSessions:
		return swarm.Errorf(swarm.CodeTooMany, swarm.Elsewhere, "server %s has %d sessions of this peer, the most it takes", self, mine)
	case len(s.byKey) >= s.cfg.MaxSessions:
		return swarm.Errorf(swarm.CodeTooMany, swarm.Elsewhere, "server %s has %d sessions, the most it takes", self, len(s.byKey))
	}
	return nil
}

// reserve waits for the session's cache and answers its Open. It ends early when the
// session does.
func (x *session) reserve(ctx context.Context, engine Engine, cache *kvcache.Cache, wait time.Duration) {
	s := x.srv
	// The length fixes the rotation for good: every stage and every replay is told the same.
	rope, err := engine.SessionRope(x.maxLength)
	if err != nil {
		s.log.Error("no rotation for a session", "max_length", x.maxLength, "reason", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		x.finish(swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to prepare a session of %d positions", s.deps.Self.Short(), x.maxLength))
		return
	}
	// Other stages may wait for theirs as long as this one was told to.
	hold := s.cfg.Timeouts.Lease + max(0, min(wait, s.cfg.Timeouts.Cache))
	lease, err := cache.Reserve(ctx, kvcache.Request{
		Peer: string(x.client), Tokens: x.maxLength, Sequences: x.sequences, Wait: wait, Lease: hold, Expired: func() { x.lapsed(hold) },
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			x.finish(refusal(s.deps.Self, err))
		}
		return
	}
	if x.phase == ended {
		lease.Release()
		return
	}
	x.phase, x.lease, x.view = leased, lease, lease.View()
	x.view.Rope = rope
	s.queue.Open(x.key, string(x.client), sched.Key{Start: x.span.Start, End: x.span.End, Mode: uint8(x.mode)})
	s.queue.Ready(x.key, false)
	x.out.report(true)
	s.changed.wake()
	poke(s.publish)
}

// lapsed ends a session whose Commit did not come in time.
func (x *session) lapsed(hold time.Duration) {
	x.srv.mu.Lock()
	defer x.srv.mu.Unlock()
	x.finish(swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the session was not committed within %v and its cache was freed", hold))
}

// commit makes the session run; mu is held.
func (x *session) commit() error {
	switch x.phase {
	case opening:
		return fmt.Errorf("%w: commit before the session was accepted", wire.ErrFrame)
	case leased:
		if x.lease.Commit() != nil {
			return nil // lapsed is on its way
		}
		x.phase, x.active = committed, time.Now()
		if x.push != nil {
			// All stages have accepted: the successor knows the session.
			x.push.early()
		}
		x.settle()
	}
	return nil
}

// refusal translates why there is no cache.
func refusal(self swarm.PeerID, err error) *swarm.Error {
	code := swarm.CodeCacheFull
	switch {
	case errors.Is(err, kvcache.ErrTooLong), errors.Is(err, kvcache.ErrNever):
		code = swarm.CodeTooLong
	case errors.Is(err, kvcache.ErrShare):
		code = swarm.CodeTooMany
	}
	return swarm.Errorf(code, swarm.Elsewhere, "server %s: %w", self.Short(), err)
}
