package sample

import "slices"

// topK returns the k best candidates of at least as many, best first, with weights,
// reusing c. Candidates equal to the k-th stay, as in transformers.
//
// A heap is built in one pass and only what is kept is taken out of it.
func topK(c []candidate, k int) []candidate {
	heapify(c)
	kept := take(c, func(n int, last, next candidate) bool { return n < k || next.logit == last.logit })
	weigh(kept)
	return kept
}

// firstK returns the k best of candidates, which come best first, and those equal to the k-th; all
// if k is 0.
func firstK(c []candidate, k int) []candidate {
	if k == 0 || k >= len(c) {
		return c
	}
	for k < len(c) && c[k].logit == c[k-1].logit {
		k++
	}
	return c[:k]
}

// topShare returns the fewest of candidates, which come best first, whose share of their
// weight together reaches p, at least some.
func topShare(c []candidate, p float64, least int) []candidate {
	if p >= 1 {
		return c
	}
	var total, sum float64
	for i := range c {
		total += c[i].weight
	}
	for i := range c {
		if sum += c[i].weight; sum >= p*total && i+1 >= least {
			return c[:i+1]
		}
	}
	return c
}

// takeShare returns the fewest best candidates whose weights reach want, at least some, best first,
// reusing c; false if all together do not.
func takeShare(c []candidate, want float64, least int) ([]candidate, bool) {
	heapify(c)
	var sum float64
	kept := take(c, func(n int, last, _ candidate) bool {
		sum += last.weight
		return sum < want || n < least
	})
	return kept, len(kept) < len(c) || sum+kept[len(kept)-1].weight >= want && len(kept) >= least
}

// nth is the weight of the n-th best of candidates, or of the worst.
func nth(c []candidate, n int) float64 {
	if n == 1 {
		best := 0.0
		for i := range c {
			best = max(best, c[i].weight)
		}
		return best
	}
	var best []float64 // so many, in rising order
	for i := range c {
		w := c[i].weight
		if len(best) == n && w <= best[0] {
			continue
		}
		at, _ := slices.BinarySearch(best, w)
		best = slices.Insert(best, at, w)
		best = best[max(0, len(best)-n):]
	}
	if len(best) == 0 {
		return 0
	}
	return best[0]
}

// take pops candidates while more says so, given how many were taken, the last one taken
// and the one that comes next. The first is always taken. What was popped ends up at the
// end of the array, best last, and is turned round in place.
func take(heap []candidate, more func(n int, last, next candidate) bool) []candidate {
	end := len(heap)
	for n := 0; end > 0; n++ {
		if n > 0 && !more(n, heap[end], heap[0]) {
			break
		}
		end--
		heap[0], heap[end] = heap[end], heap[0]
		sift(heap[:end], 0)
	}
	taken := heap[end:]
	for i, j := 0, len(taken)-1; i < j; i, j = i+1, j-1 {
		taken[i], taken[j] = taken[j], taken[i]
	}
	return heap[:copy(heap, taken)]
}

func heapify(c []candidate) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		sift(c, i)
	}
}

func sift(c []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(c) {
			return
		}
		if child+1 < len(c) && c[child+1].before(c[child]) {
			child++
		}
		if !c[child].before(c[i]) {
			return
		}
		c[i], c[child] = c[child], c[i]
		i = child
	}
}
