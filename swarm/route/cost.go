package route

import (
	"errors"
	"time"

	"whorl/swarm"
)

// Params price a route. This file is the only place where a millisecond is charged.
type Params struct {
	// HopOverhead is charged per server visited: encode, decode, queue hand-off. No ping
	// sees it.
	HopOverhead time.Duration
	// UnknownRTT stands for a round trip nobody has measured.
	UnknownRTT time.Duration
	// MaxDelay caps what one message may cost, so that an unreachable peer is a bad
	// choice and not an impossible one.
	MaxDelay time.Duration
	// DefaultRPS stands for an inference rate that was not measured, in tokens per second
	// through one block.
	DefaultRPS float64
	// NoCache is charged for a server whose free cache is too small now: about what one
	// waits until another session ends.
	NoCache time.Duration
	// Banned is charged for a server that failed lately, so that it is used only when
	// nobody else holds a block.
	Banned time.Duration
}

// DefaultParams prices as measured on loopback where we measured, as Petals does elsewhere.
func DefaultParams() Params {
	return Params{
		HopOverhead: 300 * time.Microsecond, UnknownRTT: 100 * time.Millisecond, MaxDelay: 5 * time.Second,
		DefaultRPS: 300, NoCache: 10 * time.Second, Banned: time.Hour,
	}
}

// Validate refuses parameters that make no sense.
func (p Params) Validate() error {
	if p.HopOverhead < 0 || p.UnknownRTT < 0 || p.MaxDelay <= 0 || p.DefaultRPS <= 0 || p.NoCache < 0 || p.Banned < 0 {
		return errors.New("route: parameters must not be negative, and MaxDelay and DefaultRPS must be positive")
	}
	return nil
}

// delay is the one-way time of a message over a link with this round trip.
func (p Params) delay(rtt time.Duration, known bool) time.Duration {
	if !known {
		rtt = p.UnknownRTT
	}
	return min(rtt/2, p.MaxDelay)
}

// enter is charged once per server: overhead, and what its state makes likely.
func (q *Query) enter(r *swarm.Record) time.Duration {
	c := q.Params.HopOverhead
	if r.CacheLeft < int64(q.Tokens) {
		c += q.Params.NoCache
	}
	if last, banned := q.Avoid[r.Peer]; banned {
		// The longer ago the failure, the cheaper: the least recently failed goes first.
		c += q.Params.Banned + max(0, q.Params.Banned-q.View.At.Sub(last))
	}
	return c
}

// compute is the time of n blocks for one token.
func (q *Query) compute(r *swarm.Record, n int) time.Duration {
	rps := q.Params.DefaultRPS
	if r.Rates.InferenceRPS != nil && *r.Rates.InferenceRPS > 0 {
		rps = *r.Rates.InferenceRPS
	}
	return time.Duration(float64(n) / rps * float64(time.Second))
}

// fromClient is a message between the client and a server.
func (q *Query) fromClient(p swarm.PeerID) time.Duration {
	if q.RTT == nil {
		return q.Params.delay(0, false)
	}
	return q.Params.delay(q.RTT(p))
}

// link is a message from one server to another.
func (q *Query) link(from, to swarm.PeerID) time.Duration {
	if r, ok := q.View.Server(from); ok {
		if ms, ok := r.NextRTT[to]; ok {
			return q.Params.delay(time.Duration(ms*float64(time.Millisecond)), true)
		}
	}
	return q.Params.delay(0, false)
}
