package plan

import "slices"

// Range is a run of positions: From up to but not including To.
type Range struct{ From, To int }

// Ranges is a set of positions as sorted, disjoint, non-touching runs.
type Ranges []Range

// Add puts [from, to) into the set.
func (r Ranges) Add(from, to int) Ranges {
	if from >= to {
		return r
	}
	// Fast path: rows arrive in order nearly always.
	if n := len(r); n > 0 && r[n-1].To == from {
		r[n-1].To = to
		return r
	}
	i := 0
	for i < len(r) && r[i].To < from {
		i++
	}
	j := i
	for j < len(r) && r[j].From <= to {
		from, to = min(from, r[j].From), max(to, r[j].To)
		j++
	}
	return slices.Replace(r, i, j, Range{from, to})
}

// Cut removes every position from p on.
func (r Ranges) Cut(p int) Ranges {
	for len(r) > 0 && r[len(r)-1].From >= p {
		r = r[:len(r)-1]
	}
	if n := len(r); n > 0 && r[n-1].To > p {
		r[n-1].To = p
	}
	return r
}

// KnownFrom is the first position at or after p that is not in the set.
func (r Ranges) KnownFrom(p int) int {
	for _, x := range r {
		if x.From <= p && p < x.To {
			return x.To
		}
	}
	return p
}

// Missing is the first run of [from, to) that is not in the set; empty if all of it is.
func (r Ranges) Missing(from, to int) (int, int) {
	from = min(r.KnownFrom(from), to)
	for _, x := range r {
		if x.From >= from {
			to = min(to, max(x.From, from))
			break
		}
	}
	return from, to
}
