package server

import (
	"context"
	"fmt"
	"time"

	"whorl/server/admission"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// admit checks an Open and registers its session, which then waits for cache.
func (s *Server) admit(ctx context.Context, from swarm.PeerID, o *wire.Open, stream wire.Stream) (*session, error) {
	mode, err := s.checkOpen(o)
	if err != nil {
		return nil, err
	}
	claim := admission.Claim{Peer: string(from), Session: o.Session.String(), Prefix: wire.Net(stream), Tokens: o.MaxLength, Sequences: o.Sequences, Wait: time.Duration(o.WaitMillis) * time.Millisecond}
	rope, err := s.rope(from, o, claim)
	if err != nil {
		return nil, err
	}
	var book *ledger
	if !o.Receipts.IsZero() {
		if s.deps.Signer == nil {
			return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "server %s has no key to sign receipts with", s.deps.Self.Short())
		}
		book = &ledger{nonce: o.Receipts}
	}
	tables, err := s.promptsOf(o, s.hold(from, stream).Who)
	if err != nil {
		return nil, err
	}
	taken := false
	defer func() {
		if !taken {
			tables.give()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayServeLocked(from, o); err != nil {
		return nil, err
	}
	if tables != nil {
		tables.engine = s.engine.(prompter) // it may have moved meanwhile, to others of the same kind
	}
	adapter, err := s.adapterLocked(o.Adapter) // here, since its place may be another's later
	if err != nil {
		return nil, err
	}
	for _, x := range s.byID[o.Session] {
		if x.span.Start < o.Span.End && o.Span.Start < x.span.End {
			if x.client != from {
				return nil, swarm.Errorf(swarm.CodeUnauthorised, swarm.Caller, "session %s belongs to another client", o.Session)
			}
			// The client has given the old stream up before this server noticed.
			x.finishLocked(swarm.Errorf(swarm.CodeNoSession, swarm.Replay, "the session was opened anew"))
		}
	}
	now, key := time.Now(), s.keys+1
	park, err := s.admits.Ask(now, admission.ID(key), claim, s.doingLocked)
	if err != nil {
		return nil, refusal(s.deps.Self, err)
	}
	s.keys = key
	s.parkLocked(park)
	x := &session{
		srv: s, home: s.container, key: key, id: o.Session, client: from, span: o.Span, mode: mode, codec: codec.Of(mode.Residual), packs: o.Features&wire.FeaturePacked != 0, modeHash: o.Mode, adapter: adapter, maxLength: o.MaxLength, sequences: max(1, o.Sequences), hands: o.Features&wire.FeatureHandover != 0, tells: o.Features&wire.FeatureLoads != 0, background: o.Background,
		opened: now, active: now, control: stream, route: o.Route, wait: claim.Wait, view: tensor.KVView{Rope: rope}, ledger: book, prompts: tables,
	}
	taken = true
	x.out = newOutbox(x)
	s.byKey[x.key] = x
	x.home.count++
	s.byID[x.id] = append(s.byID[x.id], x)
	x.enterLocked(ctx)
	s.placeLocked(now)
	return x, nil
}

// rope is the rotation of a session that this server may take. The length fixes it for good:
// every stage and every replay is told the same. It takes time, so mu is not held meanwhile.
func (s *Server) rope(from swarm.PeerID, o *wire.Open, claim admission.Claim) (tensor.Rope, error) {
	s.mu.Lock()
	engine, err := s.engine, s.mayServeLocked(from, o)
	if err == nil {
		if no := s.admits.Never(claim); no != nil {
			err = refusal(s.deps.Self, no)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	rope, err := engine.SessionRope(o.MaxLength)
	if err != nil {
		s.log.Error("no rotation for a session", "max_length", o.MaxLength, "reason", err)
		return nil, swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to prepare a session of %d positions", s.deps.Self.Short(), o.MaxLength)
	}
	return rope, nil
}

// checkOpen checks what needs no lock: the frame itself.
func (s *Server) checkOpen(o *wire.Open) (mode tensor.Mode, err error) {
	if o.UID != s.uid {
		return mode, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "server %s serves %s (%s), not model %q", s.deps.Self.Short(), s.cfg.Manifest.Name, s.uid, o.UID)
	}
	if mode.Act, err = tensor.ParseActivations(o.Activations); err == nil {
		mode.Residual, err = tensor.ParseResidual(o.Residual)
	}
	if err != nil {
		return mode, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "%w", err)
	}
	if want := o.SessionMode().Hash(); o.Mode != want {
		return mode, swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "the client names the session's mode %s, and server %s makes %s of the same frame: it does not know all that the session asks for, or the client errs",
			o.Mode.Short(), s.deps.Self.Short(), want.Short())
	}
	if err := checkSequences(o); err != nil {
		return mode, err
	}
	if o.WaitMillis < 0 {
		return mode, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "wait_ms %d: want 0 or more", o.WaitMillis)
	}
	return mode, checkRoute(&o.Route, s.deps.Self)
}

// checkRoute refuses places in a chain that cannot be.
func checkRoute(r *wire.Route, self swarm.PeerID) error {
	switch {
	case r.Truncate < 0 || r.Resume < 0 || r.Skip < 0 || r.Journal < -1 || max(r.Truncate, r.Resume, r.Skip, r.Journal) > wire.MaxPosition:
		return fmt.Errorf("%w: route with truncate %d, skip %d, journal %d", wire.ErrFrame, r.Truncate, r.Skip, r.Journal)
	case r.Next == self || r.Prev == self:
		return fmt.Errorf("%w: route from %s to %s past %s itself", wire.ErrFrame, r.Prev.Short(), r.Next.Short(), self.Short())
	}
	return nil
}

// mayServeLocked tells whether this server takes the session at all.
func (s *Server) mayServeLocked(from swarm.PeerID, o *wire.Open) error {
	self := s.deps.Self.Short()
	if _, killed := s.killed[o.Session]; killed {
		return errKilled(s.deps.Self)
	}
	switch s.state {
	case swarm.Online:
		if s.memory.short != "" {
			return errLowMemory(s.deps.Self)
		}
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

// commitLocked makes the session run.
func (x *session) commitLocked() error {
	switch x.phase {
	case opening:
		return fmt.Errorf("%w: commit before the session was accepted", wire.ErrFrame)
	case leased:
		if x.lacksPrompts() {
			return fmt.Errorf("%w: commit before the prompts of the session's blocks", wire.ErrFrame)
		}
		x.phase, x.active = committed, time.Now()
		if x.push != nil {
			// All stages have accepted: the successor knows the session.
			x.push.earlyLocked()
		}
		x.settleLocked()
	}
	return nil
}
