package chain

import (
	"fmt"
	"slices"

	"whorl/swarm"
)

// The rules of guilt. A stage is dropped, and its server observed, for exactly this:
//
//	what happened                                              dropped        observed
//	its stream cannot be opened, or ends                       it             unreachable, vanished
//	it does not answer Open, Route or Ask in time              it             mute
//	it refuses to begin or to go on                            it             refused
//	it has lost the session and says so (parked, expired)      (opened again) nothing, replaysMost times
//	it said that it would leave, and does                      it             nothing
//	it says that it failed to compute                          it             broke
//	what it sends the client cannot be                         it             wrong
//	the last stage reports rows and sends no results           it             withheld
//	the next stage says that its rows are wrong                it             accused
//	an audit of another session proved that it lies, or a ban it              lied
//	it says that it cannot reach the next stage, which answers: a new epoch, then one in which the client
//	passes its rows on, then it: accused
//	late.go: it is slow, stuck, or withholds rows              it             slow, stuck, withheld
//
// What arrives wrong at a stage, or does not arrive, is the sender's fault until it is proven
// otherwise; of a server that complains again, about whomever, both sides are dropped. The
// client is the sender of stage 0 and of stages that it feeds, and knows that it is honest.
// A verdict "caller" from a server is a refusal like any other: what the caller did wrong the
// client has checked itself. What a caller interrupts is in no row of the table.

const (
	// maxDoubts is how many complaints about neighbours a server may have before it is
	// dropped with those that it complains of.
	maxDoubts = 2
	// forgive is the number of outputs in a row after which complaints are forgotten.
	forgive = 32
	// replaysMost is how often a server may lose a session without guilt before an output.
	replaysMost = 10
)

// errorf is a failure of a stage, in our words.
func (m *Machine) errorf(st *stage, code swarm.Code, format string, a ...any) *swarm.Error {
	return &swarm.Error{Code: code, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
		Message: fmt.Sprintf("server %s with blocks %v %s", st.hop.Peer.Short(), st.hop.Span, fmt.Sprintf(format, a...))}
}

// lose drops a stage. What was seen of its server is observed unless what is 0.
func (m *Machine) lose(st *stage, what swarm.Observation, err error) {
	if st.lost {
		return
	}
	st.lost = true
	m.last = err
	m.lostOnes++
	m.act(Action{Kind: Drop, Stage: st.id})
	if what != 0 {
		m.act(Action{Kind: Observe, What: what, Stage: st.id, Peer: st.hop.Peer, Err: err})
		m.news = m.news || m.failing[st.hop.Peer].at.Before(m.begun)
		m.failing[st.hop.Peer] = failure{m.now, what == swarm.Refused}
	}
	if what == swarm.Wrong || what == swarm.Withheld || what == swarm.Accused || what == swarm.Lied {
		m.taint(st)
	}
	switch m.phase {
	case dialling, placing, feeding:
		if what == 0 { // nothing to wait for: meanwhile others would give the session up too
			m.again(err, m.p.Backoff)
			return
		}
		m.retry(err)
	case whole:
		m.phase = broken
	}
}

// taint forgets what a stage that may have lied has made of rows: the history of the stages
// behind it, and what the client knows of theirs.
func (m *Machine) taint(liar *stage) {
	at := slices.Index(m.chain, liar)
	if at < 0 || liar.joined < 0 {
		return
	}
	m.stale = true
	m.dismiss()
	m.outputs = cutGiven(m.outputs, liar.joined)
	for _, st := range m.chain[at+1:] {
		st.position = min(st.position, liar.joined)
		st.joined = min(st.joined, liar.joined)
		m.forget(st.hop.Span.Start, liar.joined)
	}
}

// failed takes a failure in that a stage reports.
func (m *Machine) failed(st *stage, e *Event) {
	if e.Epoch != 0 && e.Epoch < m.epoch {
		return
	}
	at := slices.Index(m.row, st)
	if st.fresh || at < 0 { // not yet on the chain: it can only speak of itself
		m.refused(st, e)
		return
	}
	prev, next := m.beside(at, -1), m.beside(at, +1)
	switch {
	case next != nil && e.Peer == next.hop.Peer:
		m.unreached(st, next)
	case prev != nil && (e.Peer == prev.hop.Peer || e.Code == swarm.CodeGap && (e.Peer == "" || e.Peer == st.hop.Peer) && !m.feeds(st)):
		m.quarrel(prev, st, m.errorf(prev, swarm.CodeBadOutput, "sent server %s rows that it says are wrong (%s)", st.hop.Peer.Short(), Code(e.Code)))
	default:
		m.refused(st, e)
	}
}

// beside is the neighbour of a stage on the present epoch's route, which may be lost since.
func (m *Machine) beside(at, step int) *stage {
	if at += step; at < 0 || at >= len(m.row) {
		return nil
	}
	return m.row[at]
}

// feeds tells whether the client itself sends a stage its input now.
func (m *Machine) feeds(st *stage) bool {
	return st.index == 0 || st.around || m.phase == feeding && st.index == m.feedAt
}

// refused is a failure that a stage reports of itself.
func (m *Machine) refused(st *stage, e *Event) {
	code := Code(e.Code)
	if e.Verdict == swarm.Replay && code != swarm.CodeGap && m.replays[st.hop.Peer] < replaysMost {
		m.replays[st.hop.Peer]++
		st.again = !st.fresh
		m.lose(st, 0, m.errorf(st, swarm.CodeNoSession, "has given the session up"))
		return
	}
	what := swarm.Refused
	switch code {
	case swarm.CodeBadOutput, swarm.CodeInternal, swarm.CodeGap:
		what = swarm.Broke
	case swarm.CodeDraining:
		if !st.leaves.IsZero() {
			what = 0
		}
	}
	m.lose(st, what, m.errorf(st, code, "%s", m.sentence(code)))
}

// unreached takes in that a stage says it cannot reach the next one. The client looks for
// itself: one that is dead is lost by that and the stage before it blameless.
func (m *Machine) unreached(st, next *stage) {
	if next.lost || m.find(next.id) == nil {
		return
	}
	if next.accuser == 0 {
		next.accuser = st.id
		next.silent = false
		m.ask(next)
	}
}

// vouched takes in that a stage answers which another could not reach: the way between them
// is broken, and a new epoch makes a new one. If that does not help the rows go through the
// client; a sender that complains even so is dropped, then both.
func (m *Machine) vouched(st *stage) {
	accuser := m.find(st.accuser)
	st.accuser = 0
	if accuser == nil || m.phase < feeding {
		return
	}
	err := m.errorf(accuser, swarm.CodePeerLost, "cannot reach server %s, which answers", st.hop.Peer.Short())
	doubts := m.doubt(accuser.hop.Peer)
	if doubts >= maxDoubts && !m.detoured(accuser, st) {
		m.detours[[2]swarm.PeerID{accuser.hop.Peer, st.hop.Peer}] = true
		m.act(Action{Kind: Detour, Peer: accuser.hop.Peer, Next: st.hop.Peer, Err: err})
		doubts, m.doubts[accuser.hop.Peer] = 0, 0
	}
	if doubts < maxDoubts {
		m.last = err
		if m.phase == feeding {
			m.retry(err)
			return
		}
		m.phase = broken
		return
	}
	m.quarrel(accuser, st, err)
}

// quarrel drops the sender of rows that its receiver complains of, and the receiver as well
// if it complains again.
func (m *Machine) quarrel(sender, receiver *stage, err error) {
	if m.find(sender.id) == nil { // that it is gone says all
		return
	}
	both := m.doubt(receiver.hop.Peer) >= maxDoubts
	m.lose(sender, swarm.Accused, err)
	if both {
		m.lose(receiver, swarm.Accused, m.errorf(receiver, swarm.CodeBadOutput, "complains of one server after the other"))
	}
}

// doubt counts a complaint of a server about others.
func (m *Machine) doubt(p swarm.PeerID) int {
	m.doubts[p]++
	m.doubted = m.got
	return m.doubts[p]
}

// relax forgets complaints.
func (m *Machine) relax() {
	if len(m.doubts) > 0 && m.got-m.doubted >= forgive {
		clear(m.doubts)
	}
	m.doubted = min(m.doubted, m.got)
}
