package share

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// floorShare of the rate is given even while this node computes for users: else busy
	// swarms would never share.
	floorShare = 0.05
	// freeRate stands for the rate of a node that names none, in bytes a second: more than
	// its links carry, so that only the floor is felt.
	freeRate = 512 << 20
)

// Pace spreads bytes over time. A nil Pace does not.
type Pace struct {
	rate atomic.Int64 // bytes a second; 0 for no limit but while busy
	busy func() bool  // computing for users; nil for never

	mu   sync.Mutex // guards next
	next time.Time  // when what was let through so far is over
}

// NewPace lets rate bytes a second through, 0 for any number, and a twentieth of that while
// busy, if not nil, says that this node computes for users.
func NewPace(rate int64, busy func() bool) *Pace {
	p := &Pace{busy: busy}
	p.rate.Store(rate)
	return p
}

// Set lets another rate through from now on.
func (p *Pace) Set(rate int64) { p.rate.Store(rate) }

// now is the rate of the moment; 0 for any.
func (p *Pace) now() float64 {
	rate := float64(p.rate.Load())
	if p.busy != nil && p.busy() {
		if rate == 0 {
			rate = freeRate
		}
		rate *= floorShare
	}
	return rate
}

// Wait returns when n more bytes may go, or ctx ended.
func (p *Pace) Wait(ctx context.Context, n int) error {
	if p == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	rate := p.now()
	if rate == 0 {
		return ctx.Err()
	}
	took := time.Duration(float64(n) / rate * float64(time.Second))
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(took)
	p.mu.Unlock()
	t := time.NewTimer(max(at.Sub(now), 1)) // no timer of 0: scripts/check.sh says why
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
