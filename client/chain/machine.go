package chain

import (
	"time"

	"whorl/client/plan"
	"whorl/swarm"
)

// Params of a machine. Times are those of client.Timeouts.
type Params struct {
	Blocks    int           // of the model
	Start     int           // block that the session begins at: its inputs are the client's own
	MaxLength int           // of the session, for its errors
	Open      time.Duration // for a stage to answer Route
	Wait      time.Duration // that an Open allows beside, for cache
	Probe     time.Duration // without progress, then stages are asked whether they live
	Answer    time.Duration // for a stage to answer that
	Step      time.Duration // without progress, then a stage that answers is given up too
	Recover   time.Duration // to find a whole route again
	First     time.Duration // to find the first route
	Backoff   time.Duration // before the second attempt at a route; doubles
	// Pages is the memory of all journals in pages of PageRows rows; 0 keeps none.
	Pages, PageRows int
	// Around tells whether a server is known not to reach another; nil for none.
	Around func(from, to swarm.PeerID) bool
	// Frame bounds rows [from, to), all within limit, to what one frame may hold.
	Frame func(from, to, limit int) int
}

// maxPause ends the doubling of Params.Backoff.
const maxPause = 2 * time.Second

// phase is how far the chain is from being whole.
type phase uint8

const (
	broken   phase = iota // a stage is missing, or stages hold rows that do not count
	pausing               // waits before an attempt
	planning              // waits for the hops of a chain
	dialling              // waits for streams to new stages
	placing               // waits until every stage has answered its new place
	feeding               // sends new stages the history that they lack
	whole
)

// stage is what is known of one stage of the chain.
type stage struct {
	id       int
	hop      Hop
	index    int  // in the present chain
	fresh    bool // opened in the present attempt: let go if that fails
	dialled  bool
	answered bool // its place in the present epoch
	back     bool // went back further than it was told, once
	again    bool // lost without guilt: opened again on the same server
	lost     bool

	position int // rows computed, as last heard
	sent     int // rows the client gave it on the present route
	joined   int // the first row of its output that reached anybody
	move     plan.Move
	deadline time.Time // for its answer to a place
	asked    time.Time // when it was last asked for its position
	silent   bool      // and nothing was heard of it since
	around   bool      // the stage before it cannot reach it: the client passes the rows on
	accuser  int       // the stage that says it cannot reach this one; 0 for none
	leaves   time.Time // it says that it will be gone by then; zero if it stays
	lag      lag
}

// border is what the client knows of the rows in front of a block.
type border struct {
	known plan.Ranges
	given []Given // who gave them
	pages int
}

// Machine is the session. The zero value is not ready: use New. Not for concurrent use.
type Machine struct {
	p     Params
	now   time.Time // of the present Step
	acts  []Action
	ids   int // stages so far
	phase phase

	epoch   uint32
	stale   bool      // stages hold rows that do not count any more
	chain   []*stage  // of the present epoch, in order; with those lost since, until the next
	coming  []*stage  // of the attempt under way, in order
	row     []*stage  // as told to the stages of the present epoch
	borders []border  // by the block behind it
	outputs []Given   // who gave the outputs that were taken
	until   time.Time // pausing ends
	feedAt  int       // the stage that is fed
	relief  *relief   // of stages that leave; nil for none
	relieve time.Time // not before this is the next one looked for

	// The call.
	active    bool
	rows      int // of the session's log
	want, got int // the outputs from want on are wanted, those before got are here
	chunk     int
	moved     time.Time // when anything last moved forward
	rested    time.Time // when the last call ended
	asked     time.Time // when all were last asked

	// The re-route and what led to it (patience.go).
	begun    time.Time
	first    bool
	attempt  int
	failing  map[swarm.PeerID]failure // of servers, in this session
	news     bool                     // another one failed in the present attempt
	lostOnes int                      // stages lost since the chain was whole
	spare    []Hop                    // the plan around the stages that live, while one for the whole chain is made
	lacking  error                    // or why there is none
	last     error                    // why the last stage was lost
	cause    error                    // why the last attempt failed
	stall    stall
	reroutes int

	// Guilt (guilt.go, late.go).
	doubts  map[swarm.PeerID]int
	doubted int                      // outputs when doubts last grew
	detours map[[2]swarm.PeerID]bool // of servers, the first of which cannot reach the second
	replays map[swarm.PeerID]int     // times that a server lost a session without guilt
	strikes int                      // late steps in a row after which a better server is looked for
}

// New makes the machine of a session that has no chain yet.
func New(p Params) *Machine {
	return &Machine{
		p: p, borders: make([]border, p.Blocks), strikes: lateSteps,
		failing: map[swarm.PeerID]failure{}, doubts: map[swarm.PeerID]int{}, detours: map[[2]swarm.PeerID]bool{}, replays: map[swarm.PeerID]int{},
	}
}

// Step takes an event in and says what is to be done. The actions are valid until the next
// Step.
func (m *Machine) Step(e Event, now time.Time) []Action {
	m.acts, m.now = m.acts[:0], now
	st := m.find(e.Stage)
	if st != nil {
		st.silent = false
	}
	switch e.Kind {
	case Advance:
		if m.relief != nil && !m.active { // nobody acted while no call was under way
			m.relief.moved = m.relief.moved.Add(now.Sub(m.rested))
		}
		m.active, m.rows, m.want, m.got, m.chunk = true, e.To, e.From, e.From, max(1, e.Chunk)
		m.moved, m.stall, m.cause = now, stall{most: -1}, nil
		m.relax()
	case Cut:
		m.cut(e.To)
	case Tick:
		m.watch()
	case Gone:
		m.gone(e.Err)
	case Planned:
		m.planned(e.Hops)
	case Unplanned:
		m.unplanned(e.Err)
	case Relieved:
		m.relieved(e.Hops)
	case Better:
		m.better(e.From, e.To, e.Hops)
	default:
		if st != nil && !m.ofRelief(st, &e) {
			m.of(st, &e)
		}
	}
	m.proceed()
	m.tend()
	return m.acts
}

// of takes an event of a stage in that is not lost.
func (m *Machine) of(st *stage, e *Event) {
	switch e.Kind {
	case Dialled:
		st.dialled = true
	case Answered:
		m.answered(st, e.Epoch, e.To)
	case Computed:
		m.computed(st, e.Epoch, e.To)
	case Results:
		m.results(st, e.Epoch, e.From, e.To)
	case Journalled:
		m.journalled(st, e.Epoch, e.From, e.To)
	case Failed:
		m.failed(st, e)
	case Lost:
		m.lose(st, e.What, e.Err)
	case Compared:
		m.compare(st, e.OK)
	case Leaving:
		m.leaving(st, e.By)
	}
}

// find is the stage of that id, nil if it is lost or was let go.
func (m *Machine) find(id int) *stage {
	for _, st := range m.chain {
		if st.id == id && !st.lost {
			return st
		}
	}
	for _, st := range m.coming {
		if st.id == id && !st.lost {
			return st
		}
	}
	if m.relief != nil {
		for _, st := range m.relief.stages {
			if st.id == id && !st.lost {
				return st
			}
		}
	}
	return nil
}

func (m *Machine) act(a Action) { m.acts = append(m.acts, a) }

// proceed goes as far as it can without another event.
func (m *Machine) proceed() {
	for m.active {
		switch m.phase {
		case broken:
			if m.complete() { // what broke is the next call's
				m.finish(nil)
				return
			}
			m.begin()
		case pausing:
			if m.complete() {
				m.phase = broken
				continue
			}
			if m.now.Before(m.until) {
				return
			}
			m.phase = planning
			m.act(Action{Kind: Plan})
			return
		case dialling:
			for _, st := range m.coming {
				if !st.dialled {
					return
				}
			}
			m.place()
			return
		case placing:
			if !m.settle() {
				return
			}
		case feeding:
			if !m.feed() {
				return
			}
		case whole:
			if m.complete() || m.want == m.rows && m.end().position >= m.rows {
				m.finish(nil)
				return
			}
			if m.mayRelieve() {
				m.takeOver()
				continue
			}
			m.send(m.chain[0], m.rows)
			m.passOn()
			return
		default:
			return
		}
	}
}

// finish ends the call.
func (m *Machine) finish(err error) {
	m.active, m.rested = false, m.now
	m.act(Action{Kind: Finish, Err: err})
}

// gone ends the call because its caller has left. Whatever was begun is let go, and nobody
// is to blame for it.
func (m *Machine) gone(err error) {
	if !m.active {
		return
	}
	m.release()
	m.phase = broken
	if swarm.CodeOf(err) == swarm.CodeTimeout && swarm.CodeOf(m.cause) == swarm.CodeBlocksMissing {
		err = m.cause // says more than that time is over
	}
	m.finish(err)
}

// cut forgets rows from a position on. The stages learn of it before the next rows.
func (m *Machine) cut(to int) {
	if to >= m.rows {
		return
	}
	m.dismiss()
	m.rows = to
	m.outputs = cutGiven(m.outputs, to)
	m.stale = true
	m.phase = broken
	for _, st := range m.chain {
		st.position, st.joined = min(st.position, to), min(st.joined, to)
	}
	for i := range m.borders {
		m.forget(i, to)
	}
}

// forget cuts what is known of the rows in front of a block.
func (m *Machine) forget(block, to int) {
	b := &m.borders[block]
	b.known, b.given = b.known.Cut(to), cutGiven(b.given, to)
	if keep := m.pages(to); keep < b.pages {
		b.pages = keep
	}
	m.act(Action{Kind: Forget, Block: block, From: to})
}

func (m *Machine) pages(rows int) int { return (rows + m.p.PageRows - 1) / max(1, m.p.PageRows) }

// end is the last stage.
func (m *Machine) end() *stage { return m.chain[len(m.chain)-1] }

// Alive lists the chain without the stages that are lost, in order. A stage that is to be
// opened again on its server is in it, with Stage 0.
func (m *Machine) Alive() []Hop {
	var out []Hop
	for _, st := range m.chain {
		h := st.hop
		switch {
		case !st.lost:
			h.Stage = st.id
		case !st.again:
			continue
		default:
			h.Stage = 0
		}
		out = append(out, h)
	}
	return out
}

// Epoch counts the routes.
func (m *Machine) Epoch() uint32 { return m.epoch }

// Reroutes counts the fail-overs.
func (m *Machine) Reroutes() int { return m.reroutes }

// Known is what the client holds of the rows in front of a block.
func (m *Machine) Known(block int) plan.Ranges { return m.borders[block].known }

// Pages is the memory that journals take, in pages.
func (m *Machine) Pages() int {
	n := 0
	for i := range m.borders {
		n += m.borders[i].pages
	}
	return n
}
