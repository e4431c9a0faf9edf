// Package backoff says how long to wait between attempts that fail: each wait twice the
// one before up to a limit, and none in step with those of other nodes. A policy is pure: draws are
// passed in. Wait waits, for whoever has nothing else to listen to meanwhile.
package backoff

import (
	"context"
	"time"
)

// Policy of waits. First must be positive and at most Max.
type Policy struct {
	First time.Duration // after the first failure
	Max   time.Duration
	// Jitter is the share of a wait that is drawn, 0 to 1: with 0.5 a wait of 8 s becomes
	// one of 4 to 8 s, so that nodes which failed together do not return together.
	Jitter float64
}

// After is the wait after so many failures in a row (1 or more). draw is uniform in [0, 1).
func (p Policy) After(failures int, draw float64) time.Duration {
	wait := p.First
	for i := 1; i < failures && wait < p.Max; i++ {
		wait *= 2
	}
	wait = min(wait, p.Max)
	return wait - time.Duration(p.Jitter*draw*float64(wait))
}

// Wait waits; false if ctx ended first.
func Wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
