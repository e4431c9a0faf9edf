package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"whorl/swarm"
)

// stall counts the re-routes of an advance that brought it no further.
type stall struct {
	most  int // rows computed and outputs received, at best
	tries int
	since time.Time
}

// stallTries is how often servers that take a session and then fail may do so before the
// time that it costs counts.
const stallTries = 5

// patience is asked before each re-route of an advance. Servers that accept a session and
// fail at its rows would have it go round as fast as the network is: each round without
// progress waits longer, and once they have taken Timeouts.Recover the reason of the last
// one is the answer.
func (s *Session) patience(ctx context.Context, u *stall) error {
	s.mu.Lock()
	have, last := s.got, error(nil)
	if n := len(s.stages); n > 0 {
		have += s.stages[n-1].position
	}
	for _, st := range s.stages {
		if st.err != nil {
			last = st.err
		}
	}
	s.mu.Unlock()
	if have > u.most {
		*u = stall{most: have, since: time.Now()}
		return nil
	}
	if u.tries++; u.tries == 1 {
		return nil
	}
	if last != nil && u.tries >= stallTries && time.Since(u.since) > s.e.cfg.Timeouts.Recover {
		e := *swarm.AsError(last)
		e.Message = fmt.Sprintf("no progress over %d routes: %s", u.tries, e.Message)
		return &e
	}
	s.pause(ctx, min(s.e.cfg.Timeouts.Backoff<<min(u.tries-2, 5), 2*time.Second))
	return nil
}

// rolledBack are stages that could not cut their history where the plan wanted: their beams
// had moved on, and they went back to where those parted. The next plan knows.
type rolledBack []*stage

func (r rolledBack) Error() string {
	return fmt.Sprintf("%d stages went back further than planned", len(r))
}

// wentBack tells whether an attempt failed for nothing but stages that went back further than
// planned, so that the next one may follow at once. A stage does so once: it is then where
// its beams parted, and can be cut anywhere. One that does it again makes its positions up,
// and would hold the session up row by row: it is lost.
func (s *Session) wentBack(err error, before map[*stage]bool) bool {
	var r rolledBack
	if !errors.As(err, &r) {
		return false
	}
	ok := true
	for _, st := range r {
		if before[st] {
			ok = false
			s.fail(st, &swarm.Error{Code: swarm.CodeBadOutput, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
				Message: fmt.Sprintf("server %s with blocks %v went back further than asked twice in a row", st.hop.Peer.Short(), st.hop.Span)})
		}
		before[st] = true
	}
	return ok
}
