package sched

import "slices"

// Class is what kind of work an item is.
type Class uint8

// The classes, in order of service.
const (
	Decode  Class = iota // a row, or one for each beam: somebody waits for a token
	Prefill              // more rows: a chunk of a prompt or of a replay
)

// Key tells what may share an iteration: items with equal keys.
type Key struct {
	Start, End int   // blocks
	Mode       uint8 // activation mode
}

// Session names a session to the queue.
type Session uint64

// Grant is a part of an item that the next iteration computes: its next Rows rows.
type Grant struct {
	Session Session
	Item    uint64 // as given to Push
	Rows    int
	Last    bool // the item is used up

	class Class
}

// quantum is the number of prefill rows a peer gets before the next peer's turn: small
// enough that two prompts advance side by side, large enough to keep chunks whole.
const quantum = 64

// keep is the inverse of the share of the budget that waiting prefill, and the oldest item,
// are sure of.
const keep = 8

type item struct {
	id    uint64
	order uint64 // of arrival
	class Class
	left  int // rows not yet granted
}

type session struct {
	id      Session
	peer    *peer
	key     Key
	stopped bool // not ready
	items   []item
	turn    uint64 // of the last iteration that took from it
	grant   int    // index of its grant in that iteration
}

type peer struct {
	name     string
	sessions int
	waiting  int   // sessions with items
	served   int64 // rows, raised to the present level after idleness
}

// Queue holds the waiting items of all sessions. Not for concurrent use.
type Queue struct {
	sessions map[Session]*session
	peers    map[string]*peer
	order    uint64
	turn     uint64
	level    int64 // service level of the peer that was last chosen
	items    int
	rows     int
	grants   []Grant
	ready    []*session // scratch
}

// New makes an empty queue.
func New() *Queue {
	return &Queue{sessions: map[Session]*session{}, peers: map[string]*peer{}}
}

// Len is the number of items waiting and of their rows.
func (q *Queue) Len() (items, rows int) { return q.items, q.rows }

// Open adds a session, ready, with nothing to do. Opening it twice panics.
func (q *Queue) Open(id Session, peerName string, k Key) {
	if q.sessions[id] != nil {
		panic("sched: session opened twice")
	}
	p := q.peers[peerName]
	if p == nil {
		p = &peer{name: peerName}
		q.peers[peerName] = p
	}
	p.sessions++
	q.sessions[id] = &session{id: id, peer: p, key: k}
}

// Close forgets a session and its items; unknown ones are ignored.
func (q *Queue) Close(id Session) {
	s := q.sessions[id]
	if s == nil {
		return
	}
	q.Clear(id)
	delete(q.sessions, id)
	if s.peer.sessions--; s.peer.sessions == 0 {
		delete(q.peers, s.peer.name)
	}
}

// Clear drops the items of a session.
func (q *Queue) Clear(id Session) {
	s := q.sessions[id]
	if s == nil || len(s.items) == 0 {
		return
	}
	for _, it := range s.items {
		q.items--
		q.rows -= it.left
	}
	s.items = s.items[:0]
	s.peer.waiting--
}

// Ready tells the queue whether a session's output has room.
func (q *Queue) Ready(id Session, ready bool) {
	if s := q.sessions[id]; s != nil {
		s.stopped = !ready
	}
}

// Push puts an item of at least one row behind the session's others.
func (q *Queue) Push(id Session, itemID uint64, rows int, class Class) {
	s := q.sessions[id]
	if s == nil || rows < 1 {
		panic("sched: an item without session or rows")
	}
	if len(s.items) == 0 {
		if s.peer.waiting++; s.peer.waiting == 1 {
			// An idle peer saves no credit.
			s.peer.served = max(s.peer.served, q.level)
		}
	}
	q.order++
	s.items = append(s.items, item{id: itemID, order: q.order, class: class, left: rows})
	q.items++
	q.rows += rows
}

// Next chooses at most budget rows, at least 2, and takes them out of the queue. The
// result, decodes first, is valid until the next call; it is empty if nothing is ready.
func (q *Queue) Next(budget int) []Grant {
	q.turn++
	q.grants = q.grants[:0]
	waiting := q.candidates()
	if len(waiting) == 0 {
		return nil
	}
	share := max(1, budget/keep)
	budget -= q.takeOldest(waiting, share)
	decodes := budget
	for _, s := range waiting {
		if s.items[0].class == Prefill && s.turn != q.turn {
			decodes = budget - share
			break
		}
	}
	budget -= q.fill(waiting, Decode, decodes)
	budget -= q.fill(waiting, Prefill, budget)
	q.fill(waiting, Decode, budget)
	q.prune(waiting)
	slices.SortStableFunc(q.grants, func(a, b Grant) int { return int(a.class) - int(b.class) })
	return q.grants
}

// candidates lists the ready sessions whose key is that of the oldest ready item.
func (q *Queue) candidates() []*session {
	var oldest *session
	for _, s := range q.sessions {
		if !s.stopped && len(s.items) > 0 && (oldest == nil || s.items[0].order < oldest.items[0].order) {
			oldest = s
		}
	}
	q.ready = q.ready[:0]
	if oldest == nil {
		return nil
	}
	for _, s := range q.sessions {
		if !s.stopped && len(s.items) > 0 && s.key == oldest.key {
			q.ready = append(q.ready, s)
		}
	}
	return q.ready
}

// takeOldest grants up to n rows of the oldest item: whatever the others do, it moves on.
func (q *Queue) takeOldest(waiting []*session, n int) int {
	oldest := waiting[0]
	for _, s := range waiting {
		if s.items[0].order < oldest.items[0].order {
			oldest = s
		}
	}
	n = min(n, oldest.items[0].left)
	q.take(oldest, n)
	return n
}

// fill grants rows of one class and returns how many.
func (q *Queue) fill(waiting []*session, c Class, budget int) int {
	given := 0
	for given < budget {
		s := q.pick(waiting, c)
		if s == nil {
			break
		}
		n := min(s.items[0].left, quantum, budget-given)
		q.take(s, n)
		given += n
	}
	return given
}

// pick finds the session of a class whose peer has received the least; the oldest item
// breaks ties. Orders are unique, so the result does not depend on the order of waiting.
func (q *Queue) pick(waiting []*session, c Class) *session {
	var best *session
	for _, s := range waiting {
		if s.items[0].class != c || s.items[0].left == 0 {
			continue
		}
		if best == nil || s.peer.served < best.peer.served ||
			s.peer.served == best.peer.served && s.items[0].order < best.items[0].order {
			best = s
		}
	}
	return best
}

// take grants n rows of the session's first item.
func (q *Queue) take(s *session, n int) {
	it := &s.items[0]
	if s.turn != q.turn {
		s.turn, s.grant = q.turn, len(q.grants)
		q.grants = append(q.grants, Grant{Session: s.id, Item: it.id, class: it.class})
	}
	it.left -= n
	g := &q.grants[s.grant]
	g.Rows += n
	g.Last = it.left == 0
	q.rows -= n
	q.level = max(q.level, s.peer.served)
	s.peer.served += int64(n)
}

// prune removes items that are used up.
func (q *Queue) prune(waiting []*session) {
	for _, s := range waiting {
		if s.items[0].left > 0 {
			continue
		}
		q.items--
		s.items = s.items[:copy(s.items, s.items[1:])]
		if len(s.items) == 0 {
			s.peer.waiting--
		}
	}
}
