package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

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
	Whole      bool  // these are all blocks: nobody else computes for its sessions
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

const (
	// backgroundRows is the most rows that an iteration of background work takes: whoever comes
	// meanwhile waits for about as long as for one row.
	backgroundRows = 8
	// overdue is how long background work waits for a moment in which nobody else is ready. Then
	// it has its turn like any other.
	overdue = 5 * time.Second
)

type item struct {
	id    uint64
	at    time.Duration // of arrival
	order uint64        // likewise
	class Class
	left  int // rows not yet granted
}

type session struct {
	id      Session
	peer    *peer
	lane    *lane
	stopped bool // not ready
	behind  bool // background
	items   []item
	rows    int  // of its last decode
	long    bool // its prompt has more than a few rows
	pace    pace
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
	now      time.Duration // of the present Next
	level    int64         // service level of the peer that was last chosen
	items    int
	rows     int
	grants   []Grant
	ready    []*session    // scratch
	guests   []guest       // scratch
	decodes  []*session    // scratch
	came     time.Duration // the last decode
	filled   time.Duration // what iterations of prompts alone took, all of them
	filler   bool          // the present one is such
	began    time.Duration // the present iteration
	piece    time.Duration // what the rows of a long prompt are likely to add to the next iteration
	lanes    map[Key]*lane
	grain    int

	whole  bool          // the present iteration is of all who answer, and of nobody else
	waits  bool          // rows are ready, and others are waited for
	since  time.Duration // when that began
	waited time.Duration // before the last iteration
	hasty  bool          // tests compare with never waiting and never dividing
}

// New makes an empty queue.
func New() *Queue {
	return &Queue{sessions: map[Session]*session{}, peers: map[string]*peer{}, lanes: map[Key]*lane{}, grain: 1}
}

// Grain has pieces of long prompts be multiples of so many rows, at least 1, where they can be.
func (q *Queue) Grain(rows int) { q.grain = max(rows, 1) }

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
	l := q.lane(k)
	l.sessions++
	q.sessions[id] = &session{id: id, peer: p, lane: l}
}

// Background says that nobody waits for a session: it is computed while nothing else is ready, a
// few rows at a time, and what it gets is not counted against its peer.
func (q *Queue) Background(id Session) { q.sessions[id].behind = true }

// lane finds what is known of a key.
func (q *Queue) lane(k Key) *lane {
	l := q.lanes[k]
	if l == nil {
		if len(q.lanes) >= maxLanes {
			maps.DeleteFunc(q.lanes, func(_ Key, l *lane) bool { return l.sessions == 0 })
		}
		l = &lane{key: k}
		q.lanes[k] = l
	}
	return l
}

// Close forgets a session and its items; unknown ones are ignored.
func (q *Queue) Close(id Session) {
	s := q.sessions[id]
	if s == nil {
		return
	}
	q.Clear(id)
	delete(q.sessions, id)
	s.lane.sessions--
	if s.peer.sessions--; s.peer.sessions == 0 {
		delete(q.peers, s.peer.name)
	}
}

// Clear drops the items of a session.
func (q *Queue) Clear(id Session) {
	s := q.sessions[id]
	if s == nil {
		return
	}
	s.pace.away = false
	if len(s.items) == 0 {
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

// Push puts an item of at least one row behind the session's others. now is the time since
// any moment, the same in all calls.
func (q *Queue) Push(now time.Duration, id Session, itemID uint64, rows int, class Class) {
	s := q.sessions[id]
	if s == nil || rows < 1 {
		panic("sched: an item without session or rows")
	}
	if class == Decode {
		s.rows, q.came = rows, now
		s.pace.back(now, s.lane.cost.of(rows)/2, q.filling(now))
		s.long = false
	} else if rows > short {
		s.long = true
	}
	s.pace.away = false
	if len(s.items) == 0 {
		if s.peer.waiting++; s.peer.waiting == 1 {
			// An idle peer saves no credit.
			s.peer.served = max(s.peer.served, q.level)
		}
	}
	q.order++
	s.items = append(s.items, item{id: itemID, at: now, order: q.order, class: class, left: rows})
	q.items++
	q.rows += rows
}

// Next chooses at most budget rows, at least 2, and takes them out of the queue. The
// result, decodes first, is valid until the next call. It is empty if nothing is ready, and
// if it is worth waiting for others: then Next wants to be called again after the given
// time, or when something was pushed or became ready. The caller computes the result before
// it calls again, and says so with Computed.
func (q *Queue) Next(now time.Duration, budget int) ([]Grant, time.Duration) {
	q.turn++
	q.now = now
	q.grants = q.grants[:0]
	waiting, alone := q.candidates(now)
	if len(waiting) == 0 {
		q.waits = false
		return nil, 0
	}
	if waiting[0].behind && !slices.ContainsFunc(waiting, func(s *session) bool { return !s.behind }) {
		budget = min(budget, backgroundRows)
	}
	p := q.plan(now, waiting, alone, budget)
	if p.wait > 0 {
		if !q.waits {
			q.waits, q.since = true, now
		}
		return nil, p.wait
	}
	if q.waited = 0; q.waits {
		q.waits, q.waited = false, now-q.since
	}
	q.whole = p.whole
	if p.divided {
		l := waiting[0].lane
		l.divide.try(l.count, maxDivideGap)
	}
	q.grant(waiting, p, budget)
	q.filler, q.began = q.grants[0].class == Prefill && waiting[0].lane.key.Whole, now // decodes come first
	return q.grants, 0
}

// grant takes what a plan allows.
func (q *Queue) grant(waiting []*session, p plan, budget int) {
	share := max(1, budget/keep)
	oldest := oldestOf(waiting)
	if n := share; oldest.items[0].class == Prefill && p.prefill == 0 {
		// It has its turn in the next iteration.
	} else if oldest.items[0].class == Decode {
		n = min(n, p.decodes, oldest.items[0].left)
		q.take(oldest, n)
		budget, p.decodes = budget-n, p.decodes-n
	} else {
		if oldest.long {
			n = max(1, p.prefill/keep)
		}
		n = min(n, p.prefill, oldest.items[0].left)
		q.take(oldest, n)
		budget, p.prefill = budget-n, p.prefill-n
	}
	decodes := min(p.decodes, budget)
	for _, s := range waiting {
		if s.items[0].class == Prefill && s.turn != q.turn {
			decodes = min(decodes, budget-min(share, p.prefill))
			break
		}
	}
	n := q.fill(waiting, Decode, decodes)
	budget, p.decodes = budget-n, p.decodes-n
	budget -= q.fill(waiting, Prefill, min(budget, p.prefill))
	q.fill(waiting, Decode, min(budget, p.decodes))
	q.prune(waiting)
	slices.SortStableFunc(q.grants, func(a, b Grant) int { return int(a.class) - int(b.class) })
}

// Computed says that what Next gave was computed in the time took, and that its results
// leave now.
func (q *Queue) Computed(now, took time.Duration) {
	q.filled, q.filler = q.filling(now), false
	var rows [2]int // by class
	long := false
	var l *lane
	var c *cohort
	for _, g := range q.grants {
		rows[g.class] += g.Rows
		s := q.sessions[g.Session]
		if s == nil {
			long = long || g.class == Prefill // it may have been
			continue
		}
		long = long || g.class == Prefill && s.long
		if l == nil {
			l = s.lane
			c = l.cohort(now)
		}
		if g.Last && len(s.items) == 0 && !s.stopped {
			s.pace.sent(c, q.filled)
		}
	}
	if l != nil && took > 0 {
		l.computed(rows[Decode], rows[Prefill], long, took)
		if q.whole {
			l.wholly(rows[Decode], now, took)
		} else {
			l.whole = false
		}
	}
	q.grants = q.grants[:0]
}

// filling is what iterations of prompts alone have taken where one stage has all blocks, the present one
// included.
func (q *Queue) filling(now time.Duration) time.Duration {
	if q.filler {
		return q.filled + now - q.began
	}
	return q.filled
}

// Waited is how long the last iteration waited for rows while others were ready.
func (q *Queue) Waited() time.Duration { return q.waited }

// candidates lists the ready sessions whose key is that of the oldest ready item; alone
// says that there are no others. Background work is no candidate beside others, unless it has
// waited for long.
func (q *Queue) candidates(now time.Duration) (ready []*session, alone bool) {
	q.ready = q.ready[:0]
	for _, s := range q.sessions {
		if !s.stopped && len(s.items) > 0 {
			q.ready = append(q.ready, s)
		}
	}
	if len(q.ready) == 0 {
		return nil, true
	}
	if slices.ContainsFunc(q.ready, func(s *session) bool { return !s.behind }) {
		q.ready = slices.DeleteFunc(q.ready, func(s *session) bool { return s.behind && now-s.items[0].at < overdue })
	}
	n, l := len(q.ready), oldestOf(q.ready).lane
	q.ready = slices.DeleteFunc(q.ready, func(s *session) bool { return s.lane != l })
	// By age, so that a decision can be repeated.
	slices.SortFunc(q.ready, func(a, b *session) int { return cmp.Compare(a.items[0].order, b.items[0].order) })
	return q.ready, len(q.ready) == n
}

// oldestOf is the session with the oldest item.
func oldestOf(waiting []*session) *session {
	oldest := waiting[0]
	for _, s := range waiting {
		if s.items[0].order < oldest.items[0].order {
			oldest = s
		}
	}
	return oldest
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
		if best == nil || s.before(best) {
			best = s
		}
	}
	return best
}

// before tells whether a session has its turn before another of the same class.
func (s *session) before(t *session) bool {
	switch {
	case s.peer.served != t.peer.served:
		return s.peer.served < t.peer.served
	case s.long != t.long:
		return t.long // who has a short prompt does not wait for the end of another's long one
	}
	return s.items[0].order < t.items[0].order
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
	if s.behind {
		it.at = q.now // what is left of it waits anew
		return
	}
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
