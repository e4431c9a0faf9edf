package balance

import (
	"slices"

	"whorl/swarm"
)

// Throughputs sums, per block, the throughput of the servers that hold it or are about
// to, in the order of their peer ids so that every peer reaches the same sums. self is
// left out. A server that declares no throughput counts as one token per second: it
// serves, however slowly. One that was never reached counts for no more than the middle one
// of those that were, or of all while none was: what a stranger claims keeps no block from
// being held.
func Throughputs(v swarm.View, self swarm.PeerID) []float64 {
	const unmeasured = 1
	t := make([]float64, v.Manifest.Blocks)
	most := middle(v)
	for i := range v.Servers { // sorted by peer
		r := &v.Servers[i]
		if r.Peer == self || r.State < swarm.Joining {
			continue
		}
		rps := r.Throughput
		if v.Hearsay(r.Peer) {
			rps = min(rps, most)
		}
		if rps <= 0 {
			rps = unmeasured
		}
		for b := r.Span.Start; b < min(r.Span.End, len(t)); b++ {
			t[b] += rps
		}
	}
	return t
}

// middle is the median of the throughputs that servers of a view declare, of those reached
// if there are any.
func middle(v swarm.View) float64 {
	var reached, all []float64
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State >= swarm.Joining {
			if all = append(all, r.Throughput); !v.Hearsay(r.Peer) {
				reached = append(reached, r.Throughput)
			}
		}
	}
	if len(reached) > 0 {
		all = reached
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// BestStart is the first block of the n consecutive ones that need a server most: among
// all windows the one whose sorted throughputs are lexicographically least, so that the
// worst block counts first, then the next; the leftmost on a tie. n is at most len(t).
func BestStart(t []float64, n int) int {
	var best, w []float64
	at := 0
	for i := 0; i+n <= len(t); i++ {
		if best != nil && slices.Min(t[i:i+n]) > best[0] { // most windows need no sorting
			continue
		}
		w = append(w[:0], t[i:i+n]...)
		slices.Sort(w)
		if best == nil || slices.Compare(w, best) < 0 {
			best, w, at = w, best, i
		}
	}
	return at
}

// Choose is the span of n blocks (at most all of them) that self should hold.
func Choose(v swarm.View, self swarm.PeerID, n int) swarm.Span {
	n = max(1, min(n, v.Manifest.Blocks))
	start := BestStart(Throughputs(v, self), n)
	return swarm.Span{Start: start, End: start + n}
}
