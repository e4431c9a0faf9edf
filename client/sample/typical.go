package sample

import "math"

// typical returns the candidates whose surprise is nearest to the expected one, as few as
// have the given share of the weight together, at least some, reusing c. Candidates as near as the last
// of them stay, as in transformers. Nearest come first; their logits are lost.
func typical(c []candidate, mass float64, least int) []candidate {
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
	for i := range c { // the nearest are the best of a heap
		c[i].logit = -math.Abs(log - c[i].logit - entropy)
	}
	heapify(c)
	var sum float64
	return take(c, func(n int, last, next candidate) bool {
		sum += last.weight
		return sum < mass*total || next.logit == last.logit || n < least
	})
}
