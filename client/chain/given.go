package chain

import (
	"slices"

	"whorl/swarm"
)

// Given says who gave the client rows From to To behind a span.
type Given struct {
	Peer     swarm.PeerID
	Span     swarm.Span
	Sender   swarm.PeerID // who sent it its input; "" for the client
	From, To int
}

// give notes that a stage gave rows.
func (m *Machine) give(list []Given, st *stage, from, to int) []Given {
	g := Given{Peer: st.hop.Peer, Span: st.hop.Span, From: from, To: to}
	if sender := m.beside(slices.Index(m.row, st), -1); sender != nil {
		g.Sender = sender.hop.Peer
	}
	if n := len(list); n > 0 {
		if last := list[n-1]; last.To == from && last.Peer == g.Peer && last.Span == g.Span && last.Sender == g.Sender {
			list[n-1].To = to
			return list
		}
	}
	return append(list, g)
}

// cutGiven forgets rows from one on.
func cutGiven(list []Given, to int) []Given {
	kept := list[:0]
	for _, g := range list {
		if g.To = min(g.To, to); g.From < g.To {
			kept = append(kept, g)
		}
	}
	return kept
}

// Given lists who gave which rows in front of a block, of those that Known has; for the
// number of blocks who gave which outputs.
func (m *Machine) Given(block int) []Given {
	if block == m.p.Blocks {
		return m.outputs
	}
	return m.borders[block].given
}
