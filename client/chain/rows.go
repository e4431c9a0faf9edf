package chain

import (
	"slices"

	"whorl/swarm"
)

// current tells whether an event of an epoch is about rows as they stand now. That a
// neighbour was lost since does not alter what a stage has computed.
func (m *Machine) current(st *stage, epoch uint32) bool {
	return epoch == m.epoch && !m.stale && st.answered && m.member(st)
}

// member tells whether a stage is on the present chain.
func (m *Machine) member(st *stage) bool { return slices.Contains(m.chain, st) }

// ends tells whether a stage is the last one of the present route.
func (m *Machine) ends(st *stage) bool { return m.row[len(m.row)-1] == st }

// complete tells whether all outputs that are wanted are here.
func (m *Machine) complete() bool { return m.want < m.rows && m.got == m.rows }

// computed takes a report in. Results come before the report of their rows on the same
// stream: a last stage whose reports are ahead of them has kept them.
func (m *Machine) computed(st *stage, epoch uint32, position int) {
	if !m.current(st, epoch) || position > m.rows { // rows that nobody sent: they were cut, or a server lies
		return
	}
	if m.active && m.ends(st) && position > m.got {
		m.lose(st, swarm.Withheld, m.errorf(st, swarm.CodeBadOutput, "computed rows up to %d and sent none from %d on", position, m.got))
		return
	}
	if m.carries(st) && position > max(st.move.Skip, m.borders[st.hop.Span.End].known.KnownFrom(st.move.Skip)) {
		m.lose(st, swarm.Withheld, m.errorf(st, swarm.CodeBadOutput, "computed rows up to %d and did not send them", position))
		return
	}
	m.progress(st, position)
}

// carries tells whether the client takes the outputs of a stage to the next.
func (m *Machine) carries(st *stage) bool {
	at := slices.Index(m.row, st)
	next := m.beside(at, +1)
	return at >= 0 && next != nil && next.around
}

// progress notes that a stage has computed rows. One that is behind what is known already
// moves nothing.
func (m *Machine) progress(st *stage, position int) {
	if !m.current(st, m.epoch) || position <= st.position || position > m.rows {
		return
	}
	rows := position - st.position
	st.position = position
	st.sent = max(st.sent, position)
	m.moved = m.now
	if m.phase == whole {
		m.timed(st, rows)
		m.send(st, max(st.lag.fedTo, st.sent)) // what is left of rows that it is fed
		m.look(st)
		if st.index+1 < len(m.chain) {
			m.look(m.chain[st.index+1])
		}
	}
}

// results takes outputs of the last stage in: in order, of this epoch, or not at all.
func (m *Machine) results(st *stage, epoch uint32, from, to int) {
	if !m.current(st, epoch) || !m.active || !m.ends(st) || to > m.rows {
		return
	}
	switch {
	case from > m.got:
		m.lose(st, swarm.Wrong, m.errorf(st, swarm.CodeBadOutput, "sent rows from %d where %d come next", from, m.got))
		return
	case to <= m.got:
		return
	}
	m.act(Action{Kind: Take, From: m.got, To: to})
	m.outputs = m.give(cutGiven(m.outputs, m.got), st, m.got, to)
	m.got = to
	m.moved = m.now
	clear(m.replays)
	if m.got-m.doubted >= forgive {
		m.relax()
	}
}

// journalled takes outputs of a stage in for the journal of the border behind it. Rows that
// are known stay what they are; those without room are a gap, which costs recomputing on a
// fail-over and never correctness.
func (m *Machine) journalled(st *stage, epoch uint32, from, to int) {
	if !m.current(st, epoch) || m.ends(st) || to > m.rows {
		return
	}
	block := st.hop.Span.End
	b := &m.borders[block]
	from, to = b.known.Missing(from, to)
	if from >= to || !m.room(b, to) && !m.carries(st) {
		return
	}
	b.known, b.given = b.known.Add(from, to), m.give(b.given, st, from, to)
	b.pages = max(b.pages, m.pages(to))
	m.act(Action{Kind: Keep, Block: block, From: from, To: to})
}

// room keeps the journals within their budget. Pages in front of the rows count too, since
// nothing would ask for room when they are filled.
func (m *Machine) room(b *border, to int) bool {
	more := m.pages(to) - b.pages
	return more <= 0 || m.Pages()+more <= m.p.Pages
}
