package chain

import (
	"fmt"
	"time"

	"whorl/swarm"
)

// stall counts the re-routes of a call that brought it no further.
type stall struct {
	most  int // rows computed and outputs received, at best
	tries int
	since time.Time
}

// stallTries is how often servers that take a session and then fail may do so before the
// time that it costs counts.
const stallTries = 5

// begin starts a re-route: because a stage is lost, because rows were cut, or because there
// is no chain yet. Servers that accept a session and fail at its rows would have it go round
// as fast as the network is: each round without progress waits longer, and once they have
// taken Params.Recover the reason of the last one is the answer.
func (m *Machine) begin() {
	have := m.got
	if n := len(m.chain); n > 0 {
		have += m.chain[n-1].position
	}
	wait := time.Duration(0)
	if u := &m.stall; have > u.most {
		*u = stall{most: have, since: m.now}
	} else if u.tries++; u.tries > 1 {
		if m.last != nil && u.tries >= stallTries && m.now.Sub(u.since) > m.p.Recover {
			e := *swarm.AsError(m.last)
			e.Message = fmt.Sprintf("no progress over %d routes: %s", u.tries, e.Message)
			m.finish(&e)
			return
		}
		wait = m.backoff(u.tries - 2)
	}
	m.begun, m.first, m.attempt, m.news = m.now, m.epoch == 0, 0, false
	if m.takeOver() {
		return
	}
	m.release()
	m.phase, m.until = pausing, m.now.Add(wait)
}

func (m *Machine) backoff(n int) time.Duration { return min(m.p.Backoff<<min(n, 5), maxPause) }

// retry ends an attempt that failed and begins the next, unless that takes too long: a first
// chain may take Params.First, since nothing is lost by saying no early, but what the last
// attempt found out about another server that fails is worth another try.
func (m *Machine) retry(cause error) {
	m.again(cause, m.backoff(m.attempt))
	m.attempt++
}

// again is retry after a wait.
func (m *Machine) again(cause error, wait time.Duration) {
	if !m.active {
		m.phase = broken
		return
	}
	m.release()
	m.cause = cause
	patience := m.p.Recover
	if m.first && !m.news {
		patience = m.p.First
	}
	m.news = false
	if swarm.AsError(cause).Verdict == swarm.Caller || m.now.After(m.begun.Add(patience)) {
		m.phase = broken
		m.finish(cause)
		return
	}
	if wait > 0 {
		m.act(Action{Kind: Report, From: m.attempt + 1, Err: cause})
	}
	m.phase, m.until = pausing, m.now.Add(wait)
}

// Next is when Tick is due if nothing else happens before; the zero time for never.
func (m *Machine) Next() time.Time {
	var at time.Time
	due := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if !m.active {
		return at
	}
	switch m.phase {
	case pausing:
		due(m.until)
	case placing:
		for _, st := range m.chain {
			if !st.answered {
				due(st.deadline)
			}
		}
	case feeding, whole:
		if r := m.relief; r != nil && !(r.state == filling && m.filled(r)) {
			due(m.overdue(r))
		} else if r == nil && m.phase == whole && len(m.leavers()) > 0 {
			due(m.relieve)
		}
		due(m.probeAt())
		due(m.moved.Add(m.p.Step))
		for _, st := range m.chain {
			if st.silent {
				due(st.asked.Add(m.p.Answer))
			}
			if m.phase == whole && st.lag.waits() {
				due(st.lag.since.Add(st.allowance(st.lag.rows)))
			}
		}
	}
	return at
}

// probeAt is when the stages are asked next whether they live.
func (m *Machine) probeAt() time.Time {
	at := m.moved.Add(m.p.Probe)
	if again := m.asked.Add(m.p.Probe / 2); again.After(at) {
		return again
	}
	return at
}

// watch looks after what nobody else would notice: pauses that are over, answers that do not
// come, stages that are mute, late or stuck.
func (m *Machine) watch() {
	if !m.active {
		return
	}
	switch m.phase {
	case placing:
		for _, st := range m.chain {
			if !st.answered && !m.now.Before(st.deadline) {
				m.lose(st, swarm.Mute, m.errorf(st, swarm.CodeTimeout, "did not answer within %v", st.deadline.Sub(m.moved)))
				return
			}
		}
	case feeding, whole:
		m.watchRelief()
		m.mute()
		if m.phase == whole {
			m.late()
		}
		if m.phase < feeding {
			return
		}
		if m.now.Sub(m.moved) >= m.p.Step {
			m.stuck()
			return
		}
		if !m.now.Before(m.probeAt()) {
			m.asked = m.now
			for _, st := range m.chain {
				m.ask(st)
			}
		}
	}
}

// ask asks a stage for its position, which it tells at once even while it computes.
func (m *Machine) ask(st *stage) {
	if !st.silent {
		st.asked, st.silent = m.now, true
	}
	m.act(Action{Kind: Ask, Stage: st.id})
}

// mute loses the stages that do not answer.
func (m *Machine) mute() {
	for _, st := range m.chain {
		if !st.lost && st.silent && !m.now.Before(st.asked.Add(m.p.Answer)) {
			m.lose(st, swarm.Mute, m.errorf(st, swarm.CodeTimeout, "does not answer"))
		}
	}
}
