package server

import (
	"errors"
	"time"

	"whorl/server/admission"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/tensor"
)

// admissionLocked is the policy for a cache of so many tokens.
func (s *Server) admissionLocked(cacheTokens int) admission.Config {
	c, t := &s.cfg, &s.cfg.Timeouts
	pages := cacheTokens / tensor.PageTokens
	share := func(of float64) int { return max(1, int(of*float64(pages))) } // 0 would be no cap
	return admission.Config{
		Pages: pages, MaxTokens: s.maxLength(cacheTokens), Sessions: c.MaxSessions, Own: string(s.deps.Self),
		Peer:   admission.Cap{Sessions: c.PeerSessions, Pages: share(c.PeerCache)},
		Prefix: admission.Cap{Sessions: c.PrefixSessions, Pages: share(c.PrefixCache)},
		Wait:   t.Cache, Patience: t.Patience, Lease: t.Lease, Service: t.Service, Rest: t.Rest,
	}
}

// place carries out what admission decides.
func (s *Server) place(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placeLocked(now)
}

func (s *Server) placeLocked(now time.Time) {
	for _, c := range s.containersLocked() {
		s.placeInLocked(c, now)
	}
}

func (s *Server) placeInLocked(c *container, now time.Time) {
	for c.admits != nil && !c.borrowed {
		switch d := c.admits.Next(now, s.doingLocked); {
		case d.Grant != 0:
			s.byKey[sched.Session(d.Grant)].grantedLocked(now)
		case len(d.Park) > 0:
			s.parkLocked(d.Park)
		case d.Refuse != 0:
			s.byKey[sched.Session(d.Refuse)].finishLocked(refusal(s.deps.Self, d.Why))
		default:
			return
		}
	}
}

// doingLocked tells admission what a session does.
func (s *Server) doingLocked(id admission.ID) admission.Activity {
	x := s.byKey[sched.Session(id)]
	switch {
	case x == nil || x.run != nil: // one that has ended gives its pages back after its iteration
		return admission.Running
	case x.phase == committed && len(x.frames) > 0:
		return admission.Queued
	}
	return admission.Quiet
}

// parkLocked ends sessions because others need their cache. Their clients open them
// again, here or elsewhere, and replay them.
func (s *Server) parkLocked(ids []admission.ID) {
	for _, id := range ids {
		x := s.byKey[sched.Session(id)]
		if x.phase == opening { // it only stood in line
			x.finishLocked(swarm.Errorf(swarm.CodeCacheFull, swarm.Elsewhere, "server %s: too many sessions wait for cache", s.deps.Self.Short()))
			continue
		}
		s.metrics.parked.Inc()
		x.finishLocked(swarm.Errorf(swarm.CodeNoSession, swarm.Replay, "server %s parked the session: others need its cache", s.deps.Self.Short()))
	}
}

// grantedLocked gives the session its pages and answers its Open.
func (x *session) grantedLocked(now time.Time) {
	s := x.srv
	n := admission.Claim{Tokens: x.maxLength, Sequences: x.sequences}
	x.pages = x.home.cache.Take(n.Pages())
	x.view.Pages = x.pages
	// Other stages may wait for theirs as long as this one was told to.
	x.phase, x.expires = leased, now.Add(s.cfg.Timeouts.Lease+max(0, min(x.wait, s.cfg.Timeouts.Cache)))
	x.home.queue.Open(x.key, string(x.client), sched.Key{
		Start: x.span.Start, End: x.span.End, Mode: uint8(x.mode.Act) | uint8(x.mode.Residual)<<4, Whole: x.span.Len() == s.cfg.Manifest.Blocks,
	})
	x.home.queue.Ready(x.key, false)
	if x.background {
		x.home.queue.Background(x.key)
	}
	x.out.reportLocked(true)
	s.changed.wake()
	poke(s.publish)
}

// refusal translates why there is no place.
func refusal(self swarm.PeerID, err error) *swarm.Error {
	code := swarm.CodeCacheFull
	switch {
	case errors.Is(err, admission.ErrTooLong), errors.Is(err, admission.ErrNever):
		code = swarm.CodeTooLong
	case !errors.Is(err, admission.ErrFull):
		code = swarm.CodeTooMany
	}
	return swarm.Errorf(code, swarm.Elsewhere, "server %s: %w", self.Short(), err)
}
