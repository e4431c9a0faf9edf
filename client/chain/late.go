package chain

import (
	"time"

	"whorl/swarm"
)

const (
	// lateFactor is how many times what it announces a stage may take for a row before that
	// counts as late: a busy server shares its time among sessions, and batches them.
	lateFactor = 10
	// lateLeast is never late: users do not feel it once, and nobody leaves a server for it.
	lateLeast = time.Second
	// lateSteps is how many late steps in a row have a better server looked for. It doubles
	// with every server that is left so.
	lateSteps = 3
	// compareEvery is how long after a search in vain the next one is made.
	compareEvery = 30 * time.Second
)

// What a stage's pace is a mean of: so many steps, of at most so many rows, which is what a search has
// beams.
const (
	paceSteps = 8
	paceRows  = 32
)

// Pace is how long a stage took for a step lately, from when its sender had the rows; 0 if nothing is known.
func (m *Machine) Pace(stage int) time.Duration {
	for _, st := range m.chain {
		if st.id == stage {
			return st.lag.pace
		}
	}
	return 0
}

// lag is how long a stage has lacked rows that were passed on to it.
type lag struct {
	since   time.Time // zero: it lacks none
	rows    int       // so many
	fed     time.Time // when the client sent it the rows itself; zero if it did not
	fedTo   int       // the rows before this one came from the client on the present route
	checked bool      // that was tried: the timer need not look again

	slow int // steps in a row that it computed late
	held int // steps in a row whose rows it passed on late
	took time.Duration

	pace     time.Duration // mean of its last small steps; 0: none was timed
	compared time.Time     // when a better server was last looked for in vain
}

func (l *lag) waits() bool { return !l.since.IsZero() && !l.checked }

func (l *lag) stop() { l.since, l.fed, l.checked = time.Time{}, time.Time{}, false }

// allowance is what a stage may take for rows.
func (st *stage) allowance(rows int) time.Duration {
	row := st.hop.Decode
	if rows > 1 {
		row = min(st.hop.Prefill, row)
	}
	return max(lateLeast, lateFactor*time.Duration(rows)*row)
}

// has is how many rows the sender of a stage's input says it has passed on.
func (m *Machine) has(st *stage) int {
	if st.index == 0 || st.around {
		return st.sent
	}
	return m.chain[st.index-1].position
}

// look starts the clock of a stage that lacks rows, and stops that of one that does not.
func (m *Machine) look(st *stage) {
	l, lacks := &st.lag, m.has(st)-st.position
	switch {
	case lacks <= 0:
		l.stop()
	case l.since.IsZero():
		l.stop()
		l.since, l.rows = m.now, lacks
	}
}

// timed judges a step of a stage by the time since it lacked the rows. Where the client fed
// the rows itself, and they were computed in time, it was the sender that kept them. Where it
// could not, since it did not know them yet, nobody knows who is late.
func (m *Machine) timed(st *stage, rows int) {
	l := &st.lag
	if l.since.IsZero() {
		return
	}
	took := m.now.Sub(l.since)
	if rows <= paceRows {
		if l.pace == 0 {
			l.pace = took
		}
		l.pace += (took - l.pace) / paceSteps
	}
	late := took > st.allowance(rows)
	switch {
	case !late:
		l.slow = 0
		if st.index > 0 && !st.around && st.position > l.fedTo {
			m.chain[st.index-1].lag.held = 0
		}
	case !l.fed.IsZero() && m.now.Sub(l.fed) <= st.allowance(rows):
		sender := &m.chain[st.index-1].lag
		sender.held++
		sender.took = took
	case !l.fed.IsZero() || st.index == 0 || st.around || m.p.Pages == 0:
		l.slow++
		l.took = took
	}
	l.stop()
	m.leave()
}

// leave looks for a better server than one that was late in several steps in a row.
func (m *Machine) leave() {
	if !m.active {
		return
	}
	for _, st := range m.chain {
		if l := &st.lag; max(l.slow, l.held) >= m.strikes && (l.compared.IsZero() || m.now.Sub(l.compared) >= compareEvery) {
			l.compared = m.now
			m.act(Action{Kind: Compare, Stage: st.id, Took: st.lag.took})
			return
		}
	}
}

// compare takes in whether there is a better server than a late one.
func (m *Machine) compare(st *stage, better bool) {
	if m.phase != whole || max(st.lag.slow, st.lag.held) < m.strikes {
		return
	}
	if !better {
		st.lag.slow, st.lag.held = 0, 0
		return
	}
	what, said := swarm.Slow, "takes many times what it announces"
	if st.lag.held > st.lag.slow {
		what, said = swarm.Withheld, "does not pass on what it computes"
	}
	m.strikes *= 2
	m.lose(st, what, m.errorf(st, swarm.CodeTimeout, "%s: %v for a step", said, st.lag.took.Round(time.Millisecond)))
}

// late feeds stages that have lacked rows for too long from the journal: either the rows did
// not arrive, and it gets on, or they did, and it is slow.
func (m *Machine) late() {
	for _, st := range m.chain {
		l := &st.lag
		if l.since.IsZero() || !l.fed.IsZero() || m.now.Sub(l.since) < st.allowance(l.rows) {
			continue
		}
		l.checked = true
		if st.index == 0 || st.around {
			continue
		}
		to := min(m.borders[st.hop.Span.Start].known.KnownFrom(st.position), m.has(st))
		if to > st.position {
			l.fed, l.fedTo = m.now, to
			st.sent = st.position
			m.send(st, to)
		}
	}
}

// stuck drops whoever holds up a step for too long. Rows that the client sent itself are
// there: the stage is stuck. Of others nobody knows whether they were sent.
func (m *Machine) stuck() {
	if m.phase == feeding {
		st := m.chain[m.feedAt]
		m.lose(st, swarm.Stuck, m.errorf(st, swarm.CodeTimeout, "made no progress for %v", m.p.Step))
		return
	}
	for _, st := range m.chain {
		if m.has(st) <= st.position && st != m.end() {
			continue
		}
		err := m.errorf(st, swarm.CodeTimeout, "made no progress for %v", m.p.Step)
		switch {
		case m.has(st) <= st.position: // the last one: everything was computed and nothing came
			m.lose(st, swarm.Withheld, err)
		case m.feeds(st) || !st.lag.fed.IsZero():
			m.lose(st, swarm.Stuck, err)
		default:
			sender := m.chain[st.index-1]
			m.quarrel(sender, st, m.errorf(sender, swarm.CodeTimeout, "passed nothing on for %v", m.p.Step))
		}
		return
	}
}
