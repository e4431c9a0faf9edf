package server

import "whorl/swarm"

// Tune changes what of the configuration may change while the server runs: caps of sessions and
// cache, timeouts of sessions, the public name and the throughput that is declared. What else
// change alters is left as it was; an error changes nothing. Sessions that are over a lower cap
// stay.
func (s *Server) Tune(change func(*Config)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cfg
	change(&c)
	if err := c.Validate(); err != nil {
		return err
	}
	t, to := &s.cfg, &c
	t.MaxSessions, t.PeerSessions, t.PrefixSessions = to.MaxSessions, to.PeerSessions, to.PrefixSessions
	t.PeerCache, t.PrefixCache, t.PublicName = to.PeerCache, to.PrefixCache, to.PublicName
	a, b := &t.Timeouts, &to.Timeouts
	a.Cache, a.Lease, a.Rest, a.Idle, a.Session = b.Cache, b.Lease, b.Rest, b.Idle, b.Session
	for _, held := range s.containersLocked() {
		if held.admits == nil {
			continue
		}
		tokens := int(held.cache.Stats().TotalTokens)
		if err := held.admits.Configure(s.admissionLocked(tokens)); err != nil {
			return err // of values that Validate has seen
		}
	}
	if t.Measuring != to.Measuring || t.Throughput != to.Throughput {
		t.Measuring, t.Throughput = to.Measuring, to.Throughput
		s.declareLocked()
	}
	s.reviseLocked()
	return nil
}

// declareLocked announces the throughput that the configuration says, or what was measured; where
// nothing was, what stands stays until it is.
func (s *Server) declareLocked() {
	switch {
	case s.span == nil:
	case s.cfg.Measuring == MeasureNever:
		s.rates, s.offered = swarm.Rates{}, s.cfg.Throughput
	case s.found != nil:
		s.rateLocked(*s.found)
	}
}

// Measured tells whether the speed of this server's blocks is known.
func (s *Server) Measured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found != nil
}
