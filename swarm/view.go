package swarm

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// View is a snapshot of the live records of one model. It is all that routing and
// balancing may look at, and nobody changes it after it was made.
type View struct {
	Manifest Manifest
	At       time.Time
	Servers  []Record // sorted by peer, one per peer
	// Reached are the servers that the node which made the view has had contact with, and
	// the address prefix where that was. Of others all is hearsay. nil: who made the view
	// does not tell, and all count as reached.
	Reached map[PeerID]string
}

// NewView sorts the records and keeps the newest of each peer.
func NewView(m Manifest, at time.Time, records []Record) View {
	v := View{Manifest: m, At: at, Servers: slices.Clone(records)}
	slices.SortFunc(v.Servers, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(b.Seq, a.Seq))
	})
	v.Servers = slices.CompactFunc(v.Servers, func(a, b Record) bool { return a.Peer == b.Peer })
	return v
}

// Hearsay tells whether all that is known of a server is what it claims.
func (v View) Hearsay(p PeerID) bool {
	_, reached := v.Reached[p]
	return v.Reached != nil && !reached
}

// Server finds a peer's record.
func (v View) Server(p PeerID) (*Record, bool) {
	i, ok := slices.BinarySearchFunc(v.Servers, p, func(r Record, p PeerID) int {
		return cmp.Compare(r.Peer, p)
	})
	if !ok {
		return nil, false
	}
	return &v.Servers[i], true
}

// Held yields every block with every server that holds it in at least the given state, the
// servers in the order of their peers. Blocks that the model does not have are left out.
func (v View) Held(least State) iter.Seq2[int, *Record] {
	return func(yield func(int, *Record) bool) {
		for i := range v.Servers {
			r := &v.Servers[i]
			if r.State < least {
				continue
			}
			for b := max(0, r.Span.Start); b < min(r.Span.End, v.Manifest.Blocks); b++ {
				if !yield(b, r) {
					return
				}
			}
		}
	}
}

// Counts is the number of servers, per block, whose state is at least the given one.
func (v View) Counts(least State) []int {
	c := make([]int, v.Manifest.Blocks)
	for b := range v.Held(least) {
		c[b]++
	}
	return c
}

// Missing lists the blocks that no online server holds.
func (v View) Missing() []Span {
	c := v.Counts(Online)
	return SpansWhere(len(c), func(b int) bool { return c[b] == 0 })
}

// SpansWhere lists the runs of blocks below n of which in is true.
func SpansWhere(n int, in func(block int) bool) []Span {
	var out []Span
	for b := range n {
		switch {
		case !in(b):
		case len(out) > 0 && out[len(out)-1].End == b:
			out[len(out)-1].End++
		default:
			out = append(out, Span{b, b + 1})
		}
	}
	return out
}

// Total is the number of blocks in spans that do not overlap.
func Total(spans []Span) (n int) {
	for _, s := range spans {
		n += s.Len()
	}
	return n
}

// FormatSpans writes ranges as people read them, inclusive: "4-7, 9".
func FormatSpans(spans []Span) string {
	parts := make([]string, len(spans))
	for i, s := range spans {
		if s.Len() == 1 {
			parts[i] = fmt.Sprint(s.Start)
		} else {
			parts[i] = fmt.Sprintf("%d-%d", s.Start, s.End-1)
		}
	}
	return strings.Join(parts, ", ")
}
