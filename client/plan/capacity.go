package plan

import (
	"math"

	"whorl/swarm"
)

// Capacity is the longest session that the online servers of a view could ever hold, in
// tokens of each of its sequences: per block the largest cache, over the range the
// smallest of those. 0 if a block has no server at all, which is another failure.
func Capacity(v swarm.View, r swarm.Span, sequences int) int {
	most := make([]int64, r.Len())
	for i := range v.Servers {
		s := &v.Servers[i]
		if s.State != swarm.Online {
			continue
		}
		holds := s.CacheTotal / int64(sequences)
		if s.MaxLength > 0 {
			holds = min(holds, int64(s.MaxLength))
		}
		for b := max(r.Start, s.Span.Start); b < min(r.End, s.Span.End); b++ {
			most[b-r.Start] = max(most[b-r.Start], holds)
		}
	}
	least := int64(math.MaxInt32)
	for _, n := range most {
		least = min(least, n)
	}
	return int(least)
}
