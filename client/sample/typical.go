package sample

import (
	"cmp"
	"math"
	"slices"
)

// typical returns the candidates whose surprise is nearest to the expected one, as few as
// have the given share of the weight together, reusing c. Candidates as near as the last
// of them stay, as in the library.
func typical(c []candidate, mass float64) []candidate {
	var total float64
	for i := range c {
		total += c[i].weight
	}
	log := math.Log(total)
	var entropy float64
	for i := range c {
		if c[i].weight > 0 {
			entropy -= c[i].weight / total * (c[i].logit - log)
		}
	}
	off := func(x candidate) float64 { return math.Abs(log - x.logit - entropy) }
	slices.SortFunc(c, func(a, b candidate) int {
		if d := cmp.Compare(off(a), off(b)); d != 0 {
			return d
		}
		return cmp.Compare(a.id, b.id)
	})
	var sum float64
	for i := range c {
		if sum += c[i].weight; sum >= mass*total || i == len(c)-1 {
			n := i + 1
			for n < len(c) && off(c[n]) == off(c[i]) {
				n++
			}
			return c[:n]
		}
	}
	return c
}
