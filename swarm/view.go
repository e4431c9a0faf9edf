package swarm

import (
	"cmp"
	"fmt"
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

// Coverage counts, per block, the servers whose state is at least the given one.
func (v View) Coverage(least State) []int {
	c := make([]int, v.Manifest.Blocks)
	for i := range v.Servers {
		if s := &v.Servers[i]; s.State >= least {
			for b := max(0, s.Span.Start); b < min(s.Span.End, len(c)); b++ {
				c[b]++
			}
		}
	}
	return c
}

// Missing lists the ranges of blocks that no online server holds.
func (v View) Missing() []Span { return MissingSpans(v.Coverage(Online)) }

// MissingSpans turns a coverage into the ranges whose count is zero.
func MissingSpans(coverage []int) []Span {
	var out []Span
	for b, n := range coverage {
		if n > 0 {
			continue
		}
		if len(out) > 0 && out[len(out)-1].End == b {
			out[len(out)-1].End++
		} else {
			out = append(out, Span{b, b + 1})
		}
	}
	return out
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
