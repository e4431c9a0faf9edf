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
	// ClaimedRPS is the fastest rate that is believed of a server that this client reached
	// and has not seen at work, ObservedTimes how many times as fast as it was seen to be
	// another is believed to be now. Of one never reached, DefaultRPS is believed.
	ClaimedRPS    float64
	ObservedTimes float64
	// Hearsay is charged for a server that was never reached where others were: a chain
	// enters as few of them as it can.
	Hearsay time.Duration
	// ClaimedLink is how many times as fast as an assumed link one is believed to be at most.
	ClaimedLink float64
	// MinRPS is the slowest rate that is believed; it keeps sums finite whatever a record
	// claims.
	MinRPS float64
	// NoCache is charged for a server whose free cache is too small now: about what one
	// waits until another session ends.
	NoCache time.Duration
	// Apart is charged for a link that is to be kept out of chains.
	Apart time.Duration
	// MaxQueue is how many times its own work a token waits at most where a server is busy.
	MaxQueue float64
	// SessionShare is the share of a server's time that a session takes, where its record
	// tells of none.
	SessionShare float64
	// Spread is the share by which a draw makes servers dearer at most: holders whose prices
	// are nearer to each other than this share the sessions.
	Spread float64
	// Around is charged for a hop that goes through the client, beside its two messages: it takes
	// the client's bandwidth both ways, and ties of chains go to those without.
	Around time.Duration
	// RelayRate is what a relay passes on of a peer, in bytes a second: a server that is reached
	// through relays alone has its rows go in and out at it.
	RelayRate float64
	// Banned is charged for a server that failed lately, on top of being considered only
	// where nobody else holds a block: a chain enters as few of them as it can.
	Banned time.Duration
}

// DefaultParams prices as measured where we measured, and as Petals does elsewhere.
func DefaultParams() Params {
	return Params{
		HopOverhead:   300 * time.Microsecond, // one hop on loopback, 65-170 us, and a queue hand-off; Petals measured 18 ms of its own
		UnknownRTT:    100 * time.Millisecond, // between two continents: a measured neighbour is preferred
		MaxDelay:      5 * time.Second,        // Petals' figure: the time-out of a dial
		DefaultRPS:    300,                    // Petals' figure: a consumer GPU
		ClaimedRPS:    20000,                  // 50 us for a block of a 7B model: at 4 bits what the fastest memory gives
		ObservedTimes: 2,                      // it was seen beside the work of others
		ClaimedLink:   10,                     // 1 Gbit/s: what is faster changes no prompt
		Hearsay:       time.Minute,            // above any chain of servers that answer, below one that failed
		MinRPS:        0.001,                  // a block in a quarter of an hour is no server
		NoCache:       10 * time.Second,       // Petals' figure
		Apart:         time.Minute,            // above any chain of other links
		MaxQueue:      8,                      // a step of eight rows takes about as long as two of one
		SessionShare:  0.1,                    // ten sessions keep a server of a short chain busy
		Spread:        0.25,                   // docs/sim.md
		Around:        20 * time.Millisecond,  // a row of 16 KiB twice over the line of a home (10 Mbit/s up)
		RelayRate:     8 << 20,                // --relay-peer-rate by default
		Banned:        time.Hour,              // above any chain of healthy servers
	}
}

// Validate refuses parameters that make no sense.
func (p Params) Validate() error {
	if p.HopOverhead < 0 || p.UnknownRTT < 0 || p.MaxDelay <= 0 || p.DefaultRPS <= 0 || p.MinRPS <= 0 || p.NoCache < 0 || p.Banned < 0 ||
		!(p.MaxQueue >= 0) || !(p.SessionShare >= 0) || !(p.Spread >= 0) || p.ClaimedRPS <= 0 || p.ClaimedLink <= 0 || p.ObservedTimes <= 0 || p.Hearsay < 0 || p.Apart < 0 || p.Around < 0 || p.RelayRate <= 0 {
		return errors.New("route: parameters must not be negative, and MaxDelay, the rates and ObservedTimes must be positive")
	}
	return nil
}

// delay is the one-way time of a message over a link with this round trip.
func (p Params) delay(rtt time.Duration, known bool) time.Duration {
	if !known || rtt < 0 {
		rtt = p.UnknownRTT
	}
	return min(rtt/2, p.MaxDelay)
}

// enter is charged once per server: overhead, and what its state makes likely.
func (q *Query) enter(r *swarm.Record) time.Duration {
	c := q.Params.HopOverhead
	if r.CacheLeft < q.cache() {
		c += q.Params.NoCache
	}
	c += q.prompt(r)
	if r.Relay { // the round trip is measured through the relay; this is for the bytes
		const row = 2 * 4 // of a value, in and out
		c += time.Duration(float64(row*q.View.Manifest.Hidden) / q.Params.RelayRate * float64(time.Second))
	}
	if _, banned := q.Avoid[r.Peer]; banned {
		c += q.Params.Banned
	}
	if len(q.View.Reached) > 0 && q.View.Hearsay(r.Peer) {
		c += q.Params.Hearsay
	}
	return c
}

// prompt is what each token of the answer bears of the time that the prompt's rows take to pass
// a server's link. A claim counts up to what fast lines have; of who was never reached, what is assumed.
func (q *Query) prompt(r *swarm.Record) time.Duration {
	answer := q.Tokens - q.Prompt
	if q.Prompt <= 0 || answer <= 0 {
		return 0
	}
	assumed := swarm.AssumedLink.RPS(q.View.Manifest.Hidden)
	rps, most := assumed, q.Params.ClaimedLink*assumed
	if n := r.Rates.NetworkRPS; n != nil {
		if rps = *n; q.View.Hearsay(r.Peer) {
			most = assumed
		}
	}
	rps = max(min(rps, most), q.Params.MinRPS)
	seconds := float64(q.Prompt) / float64(answer) / rps
	return min(time.Duration(min(seconds, q.Params.MaxDelay.Seconds())*float64(time.Second)), q.Params.MaxDelay)
}

// believed is how much of a server's rate counts, in tokens per second through one block:
// a claim costs nothing.
func (q *Query) believed(r *swarm.Record) float64 {
	p := &q.Params
	if r.Rates.InferenceRPS == nil || *r.Rates.InferenceRPS <= 0 {
		return p.DefaultRPS
	}
	most := p.ClaimedRPS
	if q.View.Hearsay(r.Peer) {
		most = p.DefaultRPS
	} else if q.Observed != nil {
		if seen, ok := q.Observed(r.Peer); ok {
			most = p.ObservedTimes * seen
		}
	}
	return max(min(*r.Rates.InferenceRPS, most), p.MinRPS)
}

// compute is the time of n blocks for one token.
func (q *Query) compute(r *swarm.Record, n int) time.Duration {
	return time.Duration(float64(n) / q.believed(r) * float64(time.Second))
}

// fromClient is a message between the client and a server.
func (q *Query) fromClient(p swarm.PeerID) time.Duration {
	if q.RTT == nil {
		return q.Params.delay(0, false)
	}
	return q.Params.delay(q.RTT(p))
}

// link is a message from one server, of which there may be no record, to another. Only the
// sender has measured the way.
func (q *Query) link(from *swarm.Record, to swarm.PeerID) time.Duration {
	if from == nil {
		return q.Params.delay(0, false)
	}
	if q.Around != nil && q.Around(from.Peer, to) { // two messages, and the client's hand in between
		return q.fromClient(from.Peer) + q.Params.HopOverhead + q.fromClient(to) + q.Params.Around
	}
	ms, known := from.NextRTT[to]
	// In milliseconds first: a record may claim more than a Duration holds.
	ms = min(ms, 2*swarm.Millis(q.Params.MaxDelay))
	way := q.Params.delay(time.Duration(ms*float64(time.Millisecond)), known)
	if q.Apart != nil && q.Apart(from.Peer, to) {
		way += q.Params.Apart
	}
	return way
}
