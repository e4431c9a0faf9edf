package chain

import (
	"slices"
	"time"

	"whorl/swarm"
)

// Stages that say they will leave are replaced while they still serve. Their relief is opened
// beside the chain, with nobody before or behind it, and filled with the history from the
// journal. When it has caught up it takes their place in a new epoch, before the rows of a
// call are sent: what is left to do then is one round of answers and a few rows, so a reader
// feels nothing. If the old stages are lost before that, the relief takes their place with
// what it has. One that fails is let go, and the chain as it was never depended on it.

const (
	// reliefChunk is the most rows in a frame that fills a relief. Frames are written by the
	// goroutine that advances the session, and large ones would hold its rows up.
	reliefChunk = 64
	// reliefLag is how many rows a relief may be behind when it takes over. The journal of the
	// last rows may still be on its way.
	reliefLag = 8
	// reliefAgain is how long after a search in vain, or a relief that failed, the next is made.
	reliefAgain = time.Second
)

// reliefState is how far a relief has come.
type reliefState uint8

const (
	searching  reliefState = iota // waits for hops
	connecting                    // waits for streams
	reserving                     // waits for the answers to Open
	filling
)

// relief is to take the place of a run of stages.
type relief struct {
	state  reliefState
	old    []*stage
	stages []*stage
	epoch  uint32    // that its stages were opened in
	by     time.Time // when the old stages are gone; zero if they stay
	begun  time.Time
	moved  time.Time // when it last came forward
}

// leaving takes in that a stage will be gone by a time.
func (m *Machine) leaving(st *stage, by time.Time) {
	if st.leaves = by; st.leaves.IsZero() {
		st.leaves = m.now.Add(m.p.Recover)
	}
}

// tend does what can be done for the stages that leave. Nobody waits for it.
func (m *Machine) tend() {
	if r := m.relief; r != nil {
		m.fill(r)
		return
	}
	if m.phase != whole || m.stale || m.now.Before(m.relieve) {
		return
	}
	old := m.leavers()
	if len(old) == 0 {
		return
	}
	m.relief = &relief{old: old, by: old[0].leaves, begun: m.now, moved: m.now}
	m.act(Action{Kind: Relieve, Stage: old[0].id, From: old[0].hop.Span.Start, To: old[len(old)-1].hop.Span.End})
}

// leavers is the first run of stages that leave.
func (m *Machine) leavers() (run []*stage) {
	for _, st := range m.chain {
		switch {
		case !st.leaves.IsZero():
			run = append(run, st)
		case len(run) > 0:
			return run
		}
	}
	return run
}

// relieved takes in who could take the place of stages; no hops for nobody.
func (m *Machine) relieved(hops []Hop) {
	r := m.relief
	if r == nil || r.state != searching {
		return
	}
	if len(hops) == 0 {
		m.dismiss()
		return
	}
	r.state, r.moved = connecting, m.now
	for _, h := range hops {
		m.ids++
		st := &stage{id: m.ids, hop: h, fresh: true, joined: -1}
		r.stages = append(r.stages, st)
		m.act(Action{Kind: Dial, Stage: st.id, Hop: h, Aside: true})
	}
}

// better takes in that others are a better way through some blocks, which whole stages hold:
// they relieve these, which stay until then.
func (m *Machine) better(from, to int, hops []Hop) {
	if m.relief != nil || m.phase != whole || m.stale || len(hops) == 0 {
		return
	}
	var old []*stage
	for _, st := range m.chain {
		if st.hop.Span.Start >= from && st.hop.Span.End <= to {
			old = append(old, st)
		}
	}
	if len(old) == 0 || old[0].hop.Span.Start != from || old[len(old)-1].hop.Span.End != to {
		return
	}
	m.relief = &relief{old: old, begun: m.now, moved: m.now}
	m.relieved(hops)
}

// fill brings a relief forward as far as that is possible now.
func (m *Machine) fill(r *relief) {
	all := func(is func(*stage) bool) bool {
		return !slices.ContainsFunc(r.stages, func(st *stage) bool { return !is(st) })
	}
	switch r.state {
	case connecting:
		if !all(func(st *stage) bool { return st.dialled }) {
			return
		}
		r.state, r.moved, r.epoch = reserving, m.now, m.epoch
		for i, st := range r.stages {
			p := Place{Epoch: r.epoch, Journal: -1}
			if i > 0 {
				p.Prev = r.stages[i-1].hop.Peer
			}
			if i+1 < len(r.stages) {
				p.Next, p.Around = r.stages[i+1].hop.Peer, m.detoured(st, r.stages[i+1])
			}
			m.act(Action{Kind: Open, Stage: st.id, Hop: st.hop, Place: p})
		}
	case reserving:
		if !all(func(st *stage) bool { return st.answered }) {
			return
		}
		r.state, r.moved = filling, m.now
		for _, st := range r.stages {
			st.fresh = false
			m.act(Action{Kind: Commit, Stage: st.id})
		}
		m.fill(r)
	case filling:
		st, limit := r.stages[0], m.knownTo(r.stages[0])
		for st.sent < limit && st.sent-st.position < window*reliefChunk {
			to := m.p.Frame(st.sent, min(st.sent+reliefChunk, limit), limit)
			m.act(Action{Kind: Send, Stage: st.id, From: st.sent, To: to, Want: to}) // nobody wants its outputs yet
			st.sent = to
		}
	}
}

// knownTo is how far the client can feed a stage without a gap.
func (m *Machine) knownTo(st *stage) int {
	if b := st.hop.Span.Start; b > m.p.Start {
		return min(m.borders[b].known.KnownFrom(0), m.rows)
	}
	return m.rows
}

// filled tells whether a relief has caught up with what can be fed: a gap in the journal is
// closed by the stages before it, after it has taken over.
func (m *Machine) filled(r *relief) bool {
	return r.state == filling && r.stages[len(r.stages)-1].position >= m.knownTo(r.stages[0])-reliefLag
}

// mayRelieve tells whether this is the moment: nothing is on its way, or more than half of the
// time that its stages gave is over.
func (m *Machine) mayRelieve() bool {
	r := m.relief
	if r == nil || !m.filled(r) {
		return false
	}
	first := m.chain[0]
	return first.sent == first.position || !r.by.IsZero() && r.by.Sub(m.now) < m.now.Sub(r.begun)
}

// takeOver puts the relief in the place of its stages and begins a new epoch. False if other
// stages are lost as well, or it has not begun to fill: the relief is let go then.
func (m *Machine) takeOver() bool {
	r := m.relief
	if r == nil || r.state != filling || m.stale {
		m.dismiss()
		return false
	}
	var coming []*stage
	for _, st := range m.chain {
		switch at := slices.Index(r.old, st); {
		case at == 0:
			coming = append(coming, r.stages...)
		case at < 0 && st.lost:
			m.dismiss()
			return false
		case at < 0:
			coming = append(coming, st)
		}
	}
	m.relief, m.coming = nil, coming
	m.place()
	for _, st := range r.old {
		if !st.lost {
			st.lost = true
			m.act(Action{Kind: Drop, Stage: st.id})
		}
	}
	return true
}

// dismiss lets a relief go; nobody is to blame.
func (m *Machine) dismiss() {
	if m.relief == nil {
		return
	}
	for _, st := range m.relief.stages {
		if !st.lost {
			st.lost = true
			m.act(Action{Kind: Drop, Stage: st.id})
		}
	}
	m.relief, m.relieve = nil, m.now.Add(reliefAgain)
}

// ofRelief takes an event in of a stage that fills; false if it is none.
func (m *Machine) ofRelief(st *stage, e *Event) bool {
	r := m.relief
	if r == nil || !slices.Contains(r.stages, st) {
		return false
	}
	switch e.Kind {
	case Dialled:
		st.dialled = true
	case Answered, Computed:
		if e.Epoch != r.epoch || r.state < reserving {
			break
		}
		if e.To > r.stages[0].sent {
			m.relapse(st, swarm.Wrong, m.errorf(st, swarm.CodeBadOutput, "claims %d rows where %d were sent", e.To, r.stages[0].sent))
			break
		}
		st.answered = true
		if e.To > st.position {
			st.position, r.moved = e.To, m.now
		}
	case Failed:
		code := Code(e.Code)
		what := swarm.Refused
		switch code {
		case swarm.CodeBadOutput, swarm.CodeGap:
			what = swarm.Broke
		}
		if len(r.stages) > 1 && e.Peer != "" && e.Peer != st.hop.Peer || e.Verdict == swarm.Replay && code != swarm.CodeGap {
			what = 0 // of its neighbour, which nobody knows well, or it was parked
		}
		m.relapse(st, what, m.errorf(st, code, "%s", m.sentence(code)))
	case Lost:
		m.relapse(st, e.What, e.Err)
	case Leaving: // it comes to the wrong one
		m.relapse(st, 0, nil)
	}
	return true
}

// relapse gives a relief up because one of its stages failed.
func (m *Machine) relapse(st *stage, what swarm.Observation, err error) {
	if what != 0 {
		m.act(Action{Kind: Observe, What: what, Stage: st.id, Peer: st.hop.Peer, Err: err})
		m.failing[st.hop.Peer] = failure{m.now, what == swarm.Refused}
	}
	m.dismiss()
}

// overdue is when a relief that does not come forward is given up.
func (m *Machine) overdue(r *relief) time.Time {
	if r.state == filling {
		return r.moved.Add(m.p.Step)
	}
	return r.moved.Add(m.p.Open + m.p.Wait)
}

// watchRelief gives up a relief that does not come forward.
func (m *Machine) watchRelief() {
	r := m.relief
	if r == nil || m.now.Before(m.overdue(r)) || r.state == filling && m.filled(r) {
		return
	}
	for _, st := range r.stages {
		if r.state == reserving && !st.answered || r.state == filling && st.position < m.knownTo(r.stages[0]) {
			m.relapse(st, swarm.Mute, m.errorf(st, swarm.CodeTimeout, "did not come forward as a relief"))
			return
		}
	}
	m.dismiss()
}
