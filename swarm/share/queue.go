package share

import (
	"slices"
	"time"

	"whorl/swarm"
)

// queue decides who is asked for which piece: the one that the fewest holders have, and of
// those the first. When all are asked for, who is quick may be given what a slow one owes. It
// is pure: the clock is passed in. Not for concurrent use.
type queue struct {
	wanted []int // pieces that are not there, sorted
	state  map[int]*pieceState
	have   map[swarm.PeerID]func(piece int) bool
	mean   map[swarm.PeerID]time.Duration // between asking and getting a piece, smoothed
}

type pieceState struct {
	holders int // of those in have
	asked   map[swarm.PeerID]time.Time
	came    bool // it is being written down
}

const (
	// maxAsked is how many peers may be asked for one piece at a time.
	maxAsked = 2
	// overdue is how many times longer than a free peer needs for a piece another may take
	// before the free one is asked too, and overdueLeast the least of that.
	overdue      = 4
	overdueLeast = 2 * time.Second
	// smoothing weighs a new time against the mean of the earlier ones.
	smoothing = 0.3
)

func newQueue(want []int) *queue {
	q := &queue{wanted: slices.Clone(want), state: map[int]*pieceState{}, have: map[swarm.PeerID]func(int) bool{}, mean: map[swarm.PeerID]time.Duration{}}
	slices.Sort(q.wanted)
	q.wanted = slices.Compact(q.wanted)
	for _, p := range q.wanted {
		q.state[p] = &pieceState{asked: map[swarm.PeerID]time.Time{}}
	}
	return q
}

// done tells whether nothing is wanted any more.
func (q *queue) done() bool { return len(q.wanted) == 0 }

// join notes what a peer has; told again it replaces that.
func (q *queue) join(p swarm.PeerID, has func(piece int) bool) {
	q.count(p, -1)
	q.have[p] = has
	q.count(p, 1)
}

// leave forgets a peer, with what was asked of it.
func (q *queue) leave(p swarm.PeerID) {
	q.count(p, -1)
	delete(q.have, p)
	for _, s := range q.state {
		delete(s.asked, p)
	}
}

func (q *queue) count(p swarm.PeerID, n int) {
	has := q.have[p]
	if has == nil {
		return
	}
	for _, i := range q.wanted {
		if has(i) {
			q.state[i].holders += n
		}
	}
}

// lacks notes that a peer has not a piece that it said it had.
func (q *queue) lacks(p swarm.PeerID, piece int) {
	has := q.have[p]
	s := q.state[piece]
	if has == nil {
		return
	}
	if s != nil {
		delete(s.asked, p)
		if has(piece) {
			s.holders--
		}
	}
	q.have[p] = func(i int) bool { return i != piece && has(i) }
}

// next is the piece to ask a peer for, which is noted; false if there is none for it now.
func (q *queue) next(p swarm.PeerID, now time.Time) (int, bool) {
	has := q.have[p]
	if has == nil {
		return 0, false
	}
	best, late := -1, -1
	for _, i := range q.wanted {
		s := q.state[i]
		switch {
		case s.came || !has(i):
		case len(s.asked) == 0:
			if best < 0 || s.holders < q.state[best].holders {
				best = i
			}
		case best < 0 && late < 0 && q.overdue(s, p, now):
			late = i
		}
	}
	if best < 0 {
		best = late
	}
	if best < 0 {
		return 0, false
	}
	q.state[best].asked[p] = now
	return best, true
}

// overdue tells whether a piece that others owe should be asked of a peer too.
func (q *queue) overdue(s *pieceState, p swarm.PeerID, now time.Time) bool {
	if _, mine := s.asked[p]; mine || len(s.asked) >= maxAsked {
		return false
	}
	limit := max(overdueLeast, overdue*q.mean[p])
	for _, at := range s.asked {
		if now.Sub(at) < limit {
			return false
		}
	}
	return true
}

// useful tells whether a peer has anything that is wanted.
func (q *queue) useful(p swarm.PeerID) bool {
	has := q.have[p]
	return has != nil && slices.ContainsFunc(q.wanted, has)
}

// asked are the pieces that a peer owes.
func (q *queue) asked(p swarm.PeerID) (out []int) {
	for _, i := range q.wanted {
		if _, ok := q.state[i].asked[p]; ok {
			out = append(out, i)
		}
	}
	return out
}

// claim notes that a piece came and is right; false if another peer's came before.
func (q *queue) claim(piece int) bool {
	s := q.state[piece]
	if s == nil || s.came {
		return false
	}
	s.came = true
	return true
}

// got notes that a piece of a peer is written down.
func (q *queue) got(p swarm.PeerID, piece int, now time.Time) {
	s := q.state[piece]
	if s == nil {
		return
	}
	if at, ok := s.asked[p]; ok {
		took := now.Sub(at)
		if old, ok := q.mean[p]; ok {
			took = time.Duration(smoothing*float64(took) + (1-smoothing)*float64(old))
		}
		q.mean[p] = took
	}
	delete(q.state, piece)
	i, _ := slices.BinarySearch(q.wanted, piece)
	q.wanted = slices.Delete(q.wanted, i, i+1)
}

// orphans are the pieces that none of the peers has.
func (q *queue) orphans() (out []int) {
	for _, i := range q.wanted {
		if q.state[i].holders == 0 {
			out = append(out, i)
		}
	}
	return out
}
