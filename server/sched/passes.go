package sched

import (
	"math"
	"time"
)

// Soon is how long from now the next row of a running answer is likely to come; false if none is
// expected. Work that would keep it waiting is better not begun.
func (q *Queue) Soon(now time.Duration) (soon time.Duration, ok bool) {
	for _, s := range q.sessions {
		if in, expected := s.pace.expected(now); expected && len(s.items) == 0 && !s.stopped && !s.behind && (!ok || in < soon) {
			soon, ok = in, true
		}
	}
	return soon, ok
}

// Passes is the queue of work without a session: forward and backward passes of those who
// train. Sessions come before all of it (who computes when is decided between the two by the
// caller), and one pass is computed at a time. Pure, as Queue: not for concurrent use.
//
//   - Forward passes come before backward ones: they are shorter, and who waits for one holds
//     less memory.
//   - Of a class the peer that has received the least time of late goes first, its oldest pass
//     first.
//   - A pass that has waited for [PassPatience] comes before all of those that have not, so that
//     none starves.
type Passes struct {
	waiting []Pass
	peers   map[string]*received
	order   uint64
}

// Pass is one that waits.
type Pass struct {
	ID       uint64
	Peer     string
	Backward bool

	at    time.Duration
	order uint64
}

// PassPatience is how long a pass waits behind those of a better class or of poorer peers.
const PassPatience = 20 * time.Second

const (
	// passMemory is how long it takes until half of what a peer received is forgotten.
	passMemory = time.Minute
	// maxPassPeers bounds the peers that are remembered.
	maxPassPeers = 1024
)

// received is the time that a peer's passes took, decayed.
type received struct {
	sum float64 // seconds
	at  time.Duration
}

func (r *received) now(now time.Duration) float64 {
	if r == nil {
		return 0
	}
	return r.sum * math.Exp2(-(now-r.at).Seconds()/passMemory.Seconds())
}

// NewPasses makes an empty queue.
func NewPasses() *Passes { return &Passes{peers: map[string]*received{}} }

// Len is how many wait.
func (q *Passes) Len() int { return len(q.waiting) }

// Push adds a pass. now is the time since any moment, the same in all calls.
func (q *Passes) Push(now time.Duration, p Pass) {
	q.order++
	p.at, p.order = now, q.order
	q.waiting = append(q.waiting, p)
}

// Drop takes a pass out that nobody wants any more; unknown ones are ignored.
func (q *Passes) Drop(id uint64) {
	for i := range q.waiting {
		if q.waiting[i].ID == id {
			q.remove(i)
			return
		}
	}
}

func (q *Passes) remove(i int) {
	n := copy(q.waiting[i:], q.waiting[i+1:])
	q.waiting[i+n] = Pass{}
	q.waiting = q.waiting[:i+n]
}

// Next takes the pass out that is to be computed now; false if none waits.
func (q *Passes) Next(now time.Duration) (Pass, bool) {
	if len(q.waiting) == 0 {
		return Pass{}, false
	}
	best := 0
	for i := range q.waiting[1:] {
		if q.first(now, &q.waiting[i+1], &q.waiting[best]) {
			best = i + 1
		}
	}
	p := q.waiting[best]
	q.remove(best)
	return p, true
}

// first tells whether a goes before b.
func (q *Passes) first(now time.Duration, a, b *Pass) bool {
	late, other := now-a.at >= PassPatience, now-b.at >= PassPatience
	switch {
	case late != other:
		return late
	case late:
		return a.order < b.order
	case a.Backward != b.Backward:
		return !a.Backward
	}
	if x, y := q.peers[a.Peer].now(now), q.peers[b.Peer].now(now); x != y {
		return x < y
	}
	return a.order < b.order
}

// Ahead is how many would be computed before a waiting pass if nothing came meanwhile; 0 for one
// that does not wait.
func (q *Passes) Ahead(now time.Duration, id uint64) (n int) {
	for i := range q.waiting {
		if q.waiting[i].ID != id {
			continue
		}
		for j := range q.waiting {
			if j != i && q.first(now, &q.waiting[j], &q.waiting[i]) {
				n++
			}
		}
		return n + 1 // and the one that is computed
	}
	return 0
}

// Computed notes that a peer's pass took some of the server's time.
func (q *Passes) Computed(now time.Duration, peer string, took time.Duration) {
	r := q.peers[peer]
	if r == nil {
		if len(q.peers) >= maxPassPeers {
			q.forget(now)
		}
		r = &received{}
		q.peers[peer] = r
	}
	r.sum, r.at = r.now(now)+took.Seconds(), now
}

// forget makes room: whoever received the least has the least to lose.
func (q *Passes) forget(now time.Duration) {
	var least string
	sum := math.Inf(1)
	for p, r := range q.peers {
		if s := r.now(now); s < sum || s == sum && p < least {
			least, sum = p, s
		}
	}
	delete(q.peers, least)
}
