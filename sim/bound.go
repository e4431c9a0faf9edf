package sim

import (
	"cmp"
	"math"
	"slices"

	"whorl/swarm/balance"
)

// machine is what a bound looks at: how many blocks fit, how few are taken, and what it
// computes through one block.
type machine struct {
	most, least int
	rate        float64
	rows        float64 // that its link passes in a second; 0: any number
}

// offer is what it gives each block of a span of n.
func (m *machine) offer(n int) float64 {
	x := balance.Offer(m.rate, n)
	if m.rows > 0 {
		x = min(x, m.rows)
	}
	return x
}

// bound is what no placement of these machines can give the worst-served block more than, in
// tokens per second: the linear relaxation, in which a machine may serve many spans, each
// for a share of its time. Any weights of blocks prove a bound: the worst block has no more
// than the weighted mean, and each machine adds to that at most its best span. The weights
// are learned by rounds of multiplication; the least bound of all rounds is returned.
func bound(blocks int, machines []machine) float64 {
	type kind struct{ most, least int }
	sums := map[kind]float64{}
	// Only offers by length count: the best of what a kind may take.
	offers := make([]float64, blocks+1) // per length, of kinds with one length
	for _, m := range machines {
		if n := min(m.most, blocks); m.rows > 0 && (m.least <= 0 || m.least >= n) {
			offers[n] += m.offer(n)
			continue // a link that makes less of a wide one is left out: the bound stays one
		}
		sums[kind{min(m.most, blocks), min(m.least, blocks)}] += m.rate
	}
	type wide struct {
		kind
		rate float64
	}
	var several []wide
	for k, rate := range sums { // each kind has a sum of its own: the order is none of it
		if k.least <= 0 || k.least == k.most {
			offers[k.most] += balance.Offer(rate, k.most)
		} else {
			several = append(several, wide{k, rate})
		}
	}
	slices.SortFunc(several, func(a, b wide) int { return cmp.Or(a.most-b.most, a.least-b.least) }) // sums depend on the order
	const rounds = 400
	w := make([]float64, blocks)
	gain := make([]float64, blocks)
	sum := make([]float64, blocks+1)
	for b := range w {
		w[b] = 1 / float64(blocks)
	}
	best := math.Inf(1)
	for round := range rounds {
		for b := range w {
			sum[b+1] = sum[b] + w[b]
		}
		clear(gain)
		total := 0.0
		place := func(rate float64, n int) (float64, int) {
			at, most := 0, -1.0
			for start := 0; start+n <= blocks; start++ {
				if x := sum[start+n] - sum[start]; x > most*(1+1e-12) {
					at, most = start, x
				}
			}
			return rate * most, at
		}
		serve := func(rate float64, n, at int) {
			for b := at; b < at+n; b++ {
				gain[b] += rate
			}
		}
		for n, rate := range offers {
			if rate > 0 {
				x, at := place(rate, n)
				total += x
				serve(rate, n, at)
			}
		}
		for _, k := range several {
			most, length, start := -1.0, 0, 0
			for n := k.least; n <= k.most; n++ {
				if x, at := place(balance.Offer(k.rate, n), n); x > most {
					most, length, start = x, n, at
				}
			}
			total += most
			serve(balance.Offer(k.rate, length), length, start)
		}
		best = min(best, total)
		if total == 0 {
			return 0
		}
		// Blocks that got little count more in the next round.
		mean, norm := 0.0, 0.0
		for b := range gain {
			mean = max(mean, gain[b])
		}
		step := 1 / (1 + math.Sqrt(float64(round)))
		for b := range w {
			w[b] *= math.Exp(-step * gain[b] / mean)
			norm += w[b]
		}
		for b := range w {
			w[b] /= norm
		}
	}
	return best
}

// optimum is the best that a placement gives the worst-served block, by trying all: for few
// machines and blocks.
func optimum(blocks int, machines []machine) float64 {
	t := make([]float64, blocks)
	best := 0.0
	var try func(i int)
	try = func(i int) {
		if i == len(machines) {
			worst := math.Inf(1)
			for _, x := range t {
				worst = min(worst, x)
			}
			best = max(best, worst)
			return
		}
		m := machines[i]
		most := min(m.most, blocks)
		least := most
		if m.least > 0 {
			least = min(m.least, most)
		}
		for n := least; n <= most; n++ {
			rate := m.offer(n)
			for start := 0; start+n <= blocks; start++ {
				for b := start; b < start+n; b++ {
					t[b] += rate
				}
				try(i + 1)
				for b := start; b < start+n; b++ {
					t[b] -= rate
				}
			}
		}
	}
	try(0)
	return best
}
