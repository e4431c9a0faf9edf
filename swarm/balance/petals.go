package balance

import (
	"math/rand/v2"
	"slices"

	"whorl/swarm"
)

// Petals is Petals' rule, the baseline that ours is compared with: a newcomer takes the
// window that is served worst, and a server moves to such a window if that, and what all
// others would then do, lifts the worst-served block enough.
type Petals struct {
	// Quality is --balance_quality: move if the worst-served block now has less than this
	// share of what it would have. 0 never moves, above 1 moves at every check.
	Quality float64
}

// petalsEps is the share of a server's throughput that makes its present place win
// near-ties, and the least difference of qualities that counts.
const petalsEps = 1e-3

// holding is a server as Petals' rule plays it.
type holding struct {
	start, n int
	rate     float64
}

// add puts a rate on the blocks of a holding.
func (h holding) add(t []float64, rate float64) {
	for b := h.start; b < h.start+h.n; b++ {
		t[b] += rate
	}
}

// Moves tells whether the server should choose other blocks: petals.md 4.3. Draws decide the
// order in which all others are thought to react.
func (p Petals) Moves(v swarm.View, self swarm.PeerID, rng *rand.Rand) bool {
	if p.Quality > 1 {
		return true
	}
	t := make([]float64, v.Manifest.Blocks)
	var all []holding
	me := -1
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State >= swarm.Joining {
			if r.Peer == self {
				me = len(all)
			}
			h := holding{r.Span.Start, min(r.Span.End, len(t)) - r.Span.Start, r.Throughput}
			h.add(t, h.rate)
			all = append(all, h)
		}
	}
	if me < 0 || len(t) == 0 {
		return false
	}
	moved, final := p.play(t, all, me, rng)
	initial := final.initial
	if !moved || final.worst < initial || final.worst < petalsEps {
		return false
	}
	return initial/final.worst < p.Quality-petalsEps
}

// outcome is the throughput of the worst-served block before and after a play.
type outcome struct{ initial, worst float64 }

// play moves the server, and lets all others react until nobody moves.
func (p Petals) play(t []float64, all []holding, me int, rng *rand.Rand) (bool, outcome) {
	initial := slices.Min(t)
	all[me].add(t, -all[me].rate*(1+petalsEps))
	if initial > petalsEps && slices.Min(t) <= 0 { // leaving would cut the model
		return false, outcome{}
	}
	start := BestStart(t, all[me].n)
	if start == all[me].start {
		return false, outcome{}
	}
	all[me].add(t, all[me].rate*petalsEps)
	all[me].start = start
	all[me].add(t, all[me].rate)
	for again, rounds := true, 0; again && rounds < 1000; rounds++ { // Petals knows no limit
		again = false
		for _, i := range rng.Perm(len(all)) {
			h := &all[i]
			h.add(t, -h.rate*(1+petalsEps))
			start := BestStart(t, h.n)
			h.add(t, h.rate*petalsEps)
			if start != h.start {
				h.start, again = start, true
			}
			h.add(t, h.rate)
		}
	}
	return true, outcome{initial, slices.Min(t)}
}
