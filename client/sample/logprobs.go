package sample

import "math"

// Logprobs measures an id against all logits, before any sampling parameter, with the top
// best alternatives (of equals the lower id first), at most as many as there are logits.
// An id outside the logits has a log-probability of negative infinity.
func Logprobs(logits []float32, id int32, top int) Logprob {
	out := Logprob{ID: id, Logprob: math.Inf(-1)}
	if len(logits) == 0 {
		return out
	}
	first, _ := argmax(logits)
	best := float64(logits[first])
	norm := best + math.Log(scaleOf(logits[first], 1).total(logits))
	if id >= 0 && int(id) < len(logits) {
		out.Logprob = float64(logits[id]) - norm
	}
	if top = min(top, len(logits)); top > 0 {
		out.Top = make([]Alternative, 0, top)
	}
	for i, l := range logits {
		if lp := float64(l) - norm; top > 0 && (len(out.Top) < top || lp > out.Top[top-1].Logprob) {
			out.Top = insert(out.Top, Alternative{int32(i), lp}, top)
		}
	}
	return out
}

// insert keeps a falling list of at most limit entries, a later equal behind an earlier.
func insert(list []Alternative, a Alternative, limit int) []Alternative {
	if len(list) < limit {
		list = append(list, a)
	} else {
		list[len(list)-1] = a
	}
	for i := len(list) - 1; i > 0 && list[i].Logprob > list[i-1].Logprob; i-- {
		list[i], list[i-1] = list[i-1], list[i]
	}
	return list
}
