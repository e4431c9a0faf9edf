package route

import (
	"time"

	"whorl/swarm"
)

// queue is how long a token waits at a server until its blocks are computed, by the load
// that the server tells: as in any queue it grows without end as the server comes to have
// no time left, and is bounded here, since servers compute the rows of many sessions at once
// (ADR 0012). What this client opened there since, or is about to leave, is counted in.
func (q *Query) queue(r *swarm.Record, n int) time.Duration {
	busy := q.busy(r)
	if busy <= 0 {
		return 0
	}
	wait := q.Params.MaxQueue
	if busy < 1 {
		wait = min(busy/(1-busy), wait)
	}
	return time.Duration(wait * float64(q.compute(r, n)))
}

// busy is the share of its time that a server has no more, as far as is known.
func (q *Query) busy(r *swarm.Record) float64 {
	var busy, each float64
	if r.Load != nil {
		busy, each = r.Load.Busy, q.Params.SessionShare
		if r.Load.Sessions > 0 {
			each = r.Load.Busy / float64(r.Load.Sessions)
		}
		if r.Load.Waiting > 0 {
			busy = 1
		}
	}
	if q.Mine != nil && each > 0 {
		busy += each * float64(q.Mine(r.Peer))
	}
	return min(max(busy, 0), 1)
}

// spare is how many tokens per second a server has time for, through n blocks.
func (q *Query) spare(r *swarm.Record, n int) float64 {
	return q.believed(r) * max(1-q.busy(r), leastSpare) / float64(max(1, n))
}

// leastSpare is the share of its time that a server is thought to have: a busy one is a bad
// choice and no impossible one.
const leastSpare = 0.02

// taste is a number of [0, 1) that a draw gives to a server: the same for the same draw.
func taste(draw uint64, p swarm.PeerID) float64 {
	h := draw ^ 14695981039346656037
	for i := range len(p) {
		h = (h ^ uint64(p[i])) * 1099511628211
	}
	// Bytes at the end of a name must reach the high bits.
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return float64(h>>11) / (1 << 53)
}

// price is what the search weighs. Without a draw that is the true price. With one a server
// is a little dearer, and its queue counts for nothing up to twice as much: a view is some
// seconds old, and all who read it would run to the same idle servers and find each other
// there. That holds servers evenly loaded over views a quarter as old as sessions last,
// where the better of two draws runs in a herd again (TestNoHerd).
func (q *Query) price(r *swarm.Record, leg Leg) time.Duration {
	p := leg.total()
	if q.Draw != 0 {
		p += time.Duration(q.Params.Spread * taste(q.Draw, r.Peer) * float64(leg.Compute+leg.Link+q.Params.HopOverhead))
		p += time.Duration((2*taste(^q.Draw, r.Peer) - 1) * float64(leg.Queue))
	}
	return p
}

// room is the spare of a server as the search weighs it.
func (q *Query) room(r *swarm.Record, n int) float64 {
	if q.Draw == 0 {
		return q.spare(r, n)
	}
	free := max(1-q.busy(r)*2*taste(^q.Draw, r.Peer), leastSpare)
	return q.believed(r) * free / float64(max(1, n)) / (1 + q.Params.Spread*taste(q.Draw, r.Peer))
}
