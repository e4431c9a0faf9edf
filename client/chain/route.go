package chain

import (
	"fmt"
	"slices"
	"time"

	"whorl/client/plan"
	"whorl/swarm"
)

// The stages that live may stand in the way: a server that holds one of them cannot take
// another, and no other server may be left but such as failed just now. A plan for the whole
// chain then shows whether it pays to let the stages go, blameless, and begin anew.

// planned takes the whole chain of an attempt.
func (m *Machine) planned(hops []Hop) {
	if m.phase != planning {
		return
	}
	spare, lacking := m.spare, m.lacking
	m.spare, m.lacking = nil, nil
	switch failed := m.failedAt(hops); {
	case spare == nil && lacking == nil:
		if !failed.IsZero() && m.keeps() {
			m.spare = slices.Clone(hops)
			m.act(Action{Kind: Plan, Whole: true})
			return
		}
	case spare != nil && !failed.Before(m.failedAt(spare)):
		hops = spare
	case lacking != nil && !failed.Before(m.begun):
		m.retry(lacking)
		return
	default:
		for _, st := range m.chain {
			if !st.lost {
				st.lost = true
				m.act(Action{Kind: Drop, Stage: st.id})
			}
		}
	}
	m.dial(hops)
}

// failure is when a server failed last, and whether it merely refused.
type failure struct {
	at      time.Time
	refused bool
}

// lately is how long a server that failed in a session is its last resort. One that refused
// is that only for the present re-route.
const lately = time.Minute

// failedAt is when one of the new servers of a chain failed last; zero if none did lately.
func (m *Machine) failedAt(hops []Hop) time.Time {
	var last time.Time
	for _, h := range hops {
		f := m.failing[h.Peer]
		if h.Stage == 0 && f.at.After(last) && m.now.Sub(f.at) < lately && !(f.refused && f.at.Before(m.begun)) {
			last = f.at
		}
	}
	return last
}

// unplanned takes in that there is no chain.
func (m *Machine) unplanned(err error) {
	if m.phase != planning {
		return
	}
	spare, lacking := m.spare, m.lacking
	m.spare, m.lacking = nil, nil
	switch {
	case spare != nil:
		m.dial(spare)
	case lacking != nil:
		m.retry(lacking)
	case m.keeps():
		m.lacking = err
		m.act(Action{Kind: Plan, Whole: true})
	default:
		m.retry(err)
	}
}

// keeps tells whether stages would be let go for a whole new chain.
func (m *Machine) keeps() bool {
	return slices.ContainsFunc(m.chain, func(st *stage) bool { return !st.lost })
}

// dial opens streams to the new stages of a chain.
func (m *Machine) dial(hops []Hop) {
	m.coming = m.coming[:0:0]
	for _, h := range hops {
		if h.Stage == 0 {
			m.ids++
			st := &stage{id: m.ids, hop: h, fresh: true, joined: -1}
			m.coming = append(m.coming, st)
			m.act(Action{Kind: Dial, Stage: st.id, Hop: h})
			continue
		}
		st := m.find(h.Stage)
		if st == nil { // lost while the plan was made
			m.release()
			m.act(Action{Kind: Plan})
			return
		}
		m.coming = append(m.coming, st)
	}
	for _, st := range m.chain { // one try: whoever refuses now is planned around
		st.again = false
	}
	m.phase = dialling
}

// place begins a new epoch and tells every stage its place in it, all at once: reserve, then
// commit.
func (m *Machine) place() {
	m.phase, m.stale = placing, false
	m.epoch++
	m.chain, m.row, m.coming = m.coming, slices.Clone(m.coming), nil
	snapshot := make([]plan.Stage, len(m.chain))
	used := make([]bool, m.p.Blocks)
	for i, st := range m.chain {
		used[st.hop.Span.Start] = true
		snapshot[i].Position = st.position
		if i > 0 {
			snapshot[i].Known = m.borders[st.hop.Span.Start].known
		}
	}
	for b := range m.borders { // borders that the chain no longer has
		if !used[b] && m.borders[b].pages > 0 {
			m.forget(b, 0)
		}
	}
	moves := plan.Recover(snapshot, m.rows, min(m.got, m.rows))
	for i, st := range m.chain {
		v := moves[i]
		st.index, st.move, st.answered = i, v, false
		st.position, st.sent, st.lag = v.Truncate, v.Truncate, lag{slow: st.lag.slow, held: st.lag.held, compared: st.lag.compared}
		st.accuser, st.asked, st.silent = 0, time.Time{}, false
		if st.joined < 0 {
			st.joined = v.Skip
		}
		p := Place{Epoch: m.epoch, Truncate: v.Truncate, Skip: v.Skip, Journal: -1}
		if st.around = i > 0 && m.detoured(m.chain[i-1], st); i > 0 && !st.around {
			p.Prev, p.Resume = m.chain[i-1].hop.Peer, moves[i-1].Skip
		}
		if i+1 < len(m.chain) {
			next := m.chain[i+1].hop
			p.Next, p.Around = next.Peer, m.detoured(st, m.chain[i+1])
			if m.p.Pages > 0 || p.Around {
				p.Journal = m.borders[next.Span.Start].known.KnownFrom(0)
			}
		}
		a := Action{Kind: Route, Stage: st.id, Place: p}
		st.deadline = m.now.Add(m.p.Open)
		if st.fresh {
			a.Kind, a.Hop = Open, st.hop
			st.deadline = st.deadline.Add(m.p.Wait)
		}
		m.act(a)
	}
	m.moved = m.now
}

// answered takes a stage's position in.
func (m *Machine) answered(st *stage, epoch uint32, position int) {
	if epoch != m.epoch || !m.member(st) {
		return
	}
	if m.phase == placing && !st.answered {
		if position > st.move.Truncate {
			m.lose(st, swarm.Wrong, m.errorf(st, swarm.CodeBadOutput, "claims %d rows where %d were left", position, st.move.Truncate))
			return
		}
		st.answered, st.position = true, position
		return
	}
	m.vouched(st)
	m.progress(st, position)
}

// settle ends placing: false while answers are missing. All are committed, also where one
// turns out to have gone back too far: the others stay on the chain.
func (m *Machine) settle() bool {
	for _, st := range m.chain {
		if !st.answered {
			return false
		}
	}
	for _, st := range m.chain {
		if st.fresh {
			m.act(Action{Kind: Commit, Stage: st.id})
			st.fresh = false
		}
	}
	var short int
	var liar bool
	for _, st := range m.chain {
		if st.position >= st.move.Truncate {
			continue
		}
		// Beams had moved on, and the stage went back to where they parted: the next plan
		// knows, and it can then be cut anywhere. One that does it again makes its
		// positions up, and would hold the session up row by row.
		short++
		if st.back {
			liar = true
			m.lose(st, swarm.Wrong, m.errorf(st, swarm.CodeBadOutput, "went back further than asked twice in a row"))
		}
		st.back = true
	}
	switch {
	case liar: // lose has seen to it
	case short > 0:
		m.again(fmt.Errorf("%d stages went back further than planned", short), 0)
	default:
		m.phase, m.feedAt = feeding, len(m.chain)-1
	}
	return true
}

// feed sends new stages the history that they lack, from the last to the first, each
// complete before the next begins, so that no stage sees a gap. False while it waits.
func (m *Machine) feed() bool {
	for ; m.feedAt > 0; m.feedAt-- {
		st := m.chain[m.feedAt]
		m.send(st, st.move.Feed.To)
		if st.position < st.move.Feed.To {
			return false
		}
	}
	m.phase, m.attempt = whole, 0
	m.reroutes += min(m.lostOnes, 1)
	m.lostOnes = 0
	for _, st := range m.chain {
		st.back = false
		m.look(st)
	}
	m.moved = m.now
	return true
}

// detoured tells whether rows from a stage to the next go through the client.
func (m *Machine) detoured(st, next *stage) bool {
	return m.detours[[2]swarm.PeerID{st.hop.Peer, next.hop.Peer}] || m.p.Around != nil && m.p.Around(st.hop.Peer, next.hop.Peer)
}

// passOn sends stages that the one before cannot reach what that has sent the client.
func (m *Machine) passOn() {
	for _, st := range m.chain {
		if st.around {
			m.send(st, min(m.borders[st.hop.Span.Start].known.KnownFrom(st.sent), m.rows))
		}
	}
}

const (
	// window is how many frames may be on their way to a stage without its word that they are
	// computed: one in work, one queued behind it.
	window = 2
	// windowRows may be on their way however small the frames are: what a server computes in a
	// round trip. Else a prompt in small frames would wait for one after every second.
	windowRows = 256
)

// send gives a stage rows up to a limit, as far as credit allows.
func (m *Machine) send(st *stage, limit int) {
	for st.sent < limit && st.sent-st.position < max(window*m.chunk, windowRows) {
		to := m.p.Frame(st.sent, min(st.sent+m.chunk, limit), limit)
		m.act(Action{Kind: Send, Stage: st.id, From: st.sent, To: to, Want: m.got})
		st.sent = to
	}
	if m.phase == whole {
		m.look(st)
	}
}

// release lets go of what an attempt has opened so far: nobody is to blame. The others stay.
func (m *Machine) release() {
	drop := func(list []*stage) (kept []*stage) {
		for _, st := range list {
			switch {
			case st.lost:
				if !st.again { // it is no part of the next chain; row remembers it
					continue
				}
			case st.fresh:
				st.lost = true
				m.act(Action{Kind: Drop, Stage: st.id})
				continue
			}
			kept = append(kept, st)
		}
		return kept
	}
	drop(m.coming)
	m.coming = nil
	m.chain = drop(m.chain)
}
