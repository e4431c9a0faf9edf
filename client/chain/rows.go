package chain

import (
	"whorl/swarm"
)

// current tells whether an event of an epoch is about the chain as it stands now.
func (m *Machine) current(st *stage, epoch uint32) bool {
	return epoch == m.epoch && (m.phase == feeding || m.phase == whole) && st.index < len(m.chain) && m.chain[st.index] == st
}

// computed takes a report in. Results come before the report of their rows on the same
// stream: a last stage whose reports are ahead of them has kept them.
func (m *Machine) computed(st *stage, epoch uint32, position int) {
	if !m.current(st, epoch) || position > m.rows { // rows that nobody sent: they were cut, or a server lies
		return
	}
	if m.active && st == m.end() && position > m.got {
		m.lose(st, swarm.Withheld, m.errorf(st, swarm.CodeBadOutput, "computed rows up to %d and sent none from %d on", position, m.got))
		return
	}
	m.progress(st, position)
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
	if !m.current(st, epoch) || !m.active || st != m.end() || to > m.rows {
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
	m.got = to
	m.moved = m.now
	if m.got-m.doubted >= forgive {
		m.relax()
	}
}

// journalled takes outputs of a stage in for the journal of the border behind it. Rows that
// are known stay what they are; those without room are a gap, which costs recomputing on a
// fail-over and never correctness.
func (m *Machine) journalled(st *stage, epoch uint32, from, to int) {
	if !m.current(st, epoch) || st == m.end() || to > m.rows {
		return
	}
	block := st.hop.Span.End
	b := &m.borders[block]
	from, to = b.known.Missing(from, to)
	if from >= to || !m.room(b, to) {
		return
	}
	b.known = b.known.Add(from, to)
	b.pages = max(b.pages, m.pages(to))
	m.act(Action{Kind: Keep, Block: block, From: from, To: to})
}

// room keeps the journals within their budget. Pages in front of the rows count too, since
// nothing would ask for room when they are filled.
func (m *Machine) room(b *border, to int) bool {
	more := m.pages(to) - b.pages
	return more <= 0 || m.Pages()+more <= m.p.Pages
}
