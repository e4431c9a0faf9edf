package server

import (
	"errors"
	"fmt"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// checkPass checks what needs no lock: the frame itself.
func (s *Server) checkPass(p *pass) (err error) {
	self := s.deps.Self
	if p.ask.UID != s.uid {
		return swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "server %s serves %s (%s), not model %q", self.Short(), s.cfg.Manifest.Name, s.uid, p.ask.UID)
	}
	if !s.takesPasses() {
		return swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "server %s computes sessions only: ask one that takes passes", self.Short())
	}
	if want := p.ask.PassMode().Hash(); p.ask.Mode != want {
		return swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "the client names the pass's mode %s, and server %s makes %s of the same frame: it does not know all that the pass asks for, or the client errs",
			p.ask.Mode.Short(), self.Short(), want.Short())
	}
	if err := p.ask.Validate(); err != nil {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "%w", err)
	}
	s.mu.Lock()
	_, err = s.adapterLocked(p.ask.Adapter)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	budgets := s.passing.Load()
	switch n := p.ask.Rows(); {
	case n > s.cfg.Passes.Rows:
		return swarm.Errorf(swarm.CodeTooLong, swarm.Elsewhere, "a pass of %d rows, and server %s takes %d at once: send fewer sequences, or ask a server with a larger --max-pass-rows", n, self.Short(), s.cfg.Passes.Rows)
	case p.bytes(s.cfg.Manifest.Hidden) > mostOf(budgets.rows.Total()) || s.trainerBytes(longestOf(p.ask), p.ask.Span.Len()) > budgets.work.Total():
		return errPassTooLong(self, p.ask)
	}
	return nil
}

// mostOf is what one peer gets of a budget that nobody else uses.
func mostOf(total int64) int64 { return total * 38 / 100 }

func errPassTooLong(self swarm.PeerID, p *wire.Pass) error {
	return swarm.Errorf(swarm.CodeTooLong, swarm.Elsewhere, "server %s has no memory for a pass of %d rows in sequences of up to %d: send less at once, or ask a server with a larger --pass-memory", self.Short(), p.Rows(), longestOf(p))
}

func errPassTime(self swarm.PeerID, limit time.Duration) error {
	return swarm.Errorf(swarm.CodeTimeout, swarm.Elsewhere, "server %s did not compute the pass within %v", self.Short(), limit)
}

// errPassGone ends a pass whose client has left.
var errPassGone = errors.New("the client is gone")

// mayPassLocked tells whether this server computes the pass now.
func (s *Server) mayPassLocked(p *pass) error {
	self := s.deps.Self
	switch {
	case s.state == swarm.Draining || s.state == swarm.Online && p.home != s.container:
		return errDraining(self)
	case s.state != swarm.Online:
		return swarm.Errorf(swarm.CodeNotLoaded, swarm.Elsewhere, "server %s is %s, not online", self.Short(), s.state)
	case p.home.broken != nil:
		return errBroken(self)
	case !p.home.span.Contains(p.ask.Span):
		return swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "server %s holds blocks %v, not %v", self.Short(), *p.home.span, p.ask.Span)
	}
	return nil
}

// passError is what a client is told of a pass that failed; nil if it did not, or if nobody is
// there to be told.
func (s *Server) passError(err error) *swarm.Error {
	if err == nil {
		return nil
	}
	if e := frameError(err); e != nil {
		return e
	}
	if errors.Is(err, blocks.ErrTraining) {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "%w", err)
	}
	s.log.Error("a pass failed", "reason", err)
	e := swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to compute a pass", s.deps.Self.Short())
	e.Peer = s.deps.Self
	return e
}

// validate refuses bounds that mean nothing.
func (p *Passes) validate() error {
	if !p.Off && (p.Rows < 1 || p.Rows > wire.MaxPassRows || p.Most < 1 || p.Memory < 0) {
		return fmt.Errorf("server: passes of %d rows (1 to %d), %d at once (at least 1), %d bytes of memory", p.Rows, wire.MaxPassRows, p.Most, p.Memory)
	}
	return nil
}

// takesPasses tells whether the server computes passes at all.
func (s *Server) takesPasses() bool {
	_, ok := s.deps.Loader.(TrainLoader)
	return ok && !s.cfg.Passes.Off
}

// features are what the server says that it can do.
func (s *Server) features() swarm.Features {
	if s.takesPasses() {
		return wire.Features
	}
	return wire.Features &^ (wire.FeaturePasses | wire.FeaturePrompts)
}
