package audit

import (
	"slices"

	"whorl/swarm"
)

// maxDisputes bounds what is remembered of them.
const maxDisputes = 256

// Disputes remembers pairs of which one sent other rows than it showed, or computed others than
// it should, and nobody knows which. The zero value is empty. Not for concurrent use.
type Disputes struct{ pairs [][2]swarm.PeerID }

// Add takes a dispute in and lists who of the two is likely to blame: who had disputes with
// more different peers than the other, and with two at least, where nobody likelier explains
// them. That is no proof: liars
// together can bring it upon an honest server, and it must cost seconds at most.
func (d *Disputes) Add(a, b swarm.PeerID) []swarm.PeerID {
	if b < a {
		a, b = b, a
	}
	if pair := [2]swarm.PeerID{a, b}; !slices.Contains(d.pairs, pair) {
		if len(d.pairs) >= maxDisputes {
			d.pairs = slices.Delete(d.pairs, 0, 1)
		}
		d.pairs = append(d.pairs, pair)
	}
	switch na, nb := d.unexplained(a), d.unexplained(b); {
	case na > nb && na >= 2:
		return []swarm.PeerID{a}
	case nb > na && nb >= 2:
		return []swarm.PeerID{b}
	}
	return nil
}

// unexplained counts the different peers that a peer had disputes with, without those that had
// more than it: they are likely to blame.
func (d *Disputes) unexplained(p swarm.PeerID) int {
	own, n := d.count(p), 0
	for _, pair := range d.pairs {
		if pair[0] == p && d.count(pair[1]) <= own || pair[1] == p && d.count(pair[0]) <= own {
			n++
		}
	}
	return n
}

func (d *Disputes) count(p swarm.PeerID) int {
	n := 0
	for _, pair := range d.pairs {
		if pair[0] == p || pair[1] == p {
			n++
		}
	}
	return n
}
