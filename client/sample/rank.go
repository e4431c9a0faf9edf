package sample

// rank returns the candidates that top-k and then top-p keep, best first, reusing c. k is
// 0 for all. Candidates equal to the k-th stay, as in the library. top-p keeps the fewest
// best whose share of what top-k left reaches p.
//
// A heap is built in one pass and only what is kept is taken out of it: usually a few
// dozen of a hundred thousand.
func rank(c []candidate, k int, p float64) []candidate {
	heapify(c)
	if k <= 0 || k > len(c) {
		k = len(c)
	}
	var total float64
	if k == len(c) {
		for i := range c {
			total += c[i].weight
		}
		return takeShare(c, p*total)
	}
	kept := take(c, func(n int, last, next candidate) bool { return n < k || next.logit == last.logit })
	if p >= 1 {
		return kept
	}
	for i := range kept {
		total += kept[i].weight
	}
	var sum float64
	for i := range kept {
		if sum += kept[i].weight; sum >= p*total {
			return kept[:i+1]
		}
	}
	return kept
}

// takeShare pops from the heap until the weights reach want.
func takeShare(heap []candidate, want float64) []candidate {
	var sum float64
	return take(heap, func(_ int, last, _ candidate) bool {
		sum += last.weight
		return sum < want
	})
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
