package health

import (
	"math"

	"whorl/swarm"
)

// Capacity is the longest session that the online servers of a view could ever hold, in
// tokens of each of its sequences: per block the largest cache, over the blocks the
// smallest of those. 0 if a block has no server at all, which is another failure.
func Capacity(v swarm.View, sequences int) int {
	return CapacityOf(v, swarm.Span{Start: 0, End: v.Manifest.Blocks}, sequences)
}

// CapacityOf is Capacity of a session through some of the blocks.
func CapacityOf(v swarm.View, span swarm.Span, sequences int) int {
	most := make([]int64, v.Manifest.Blocks)
	for b, s := range v.Held(swarm.Online) {
		holds := s.CacheTotal / int64(sequences)
		if s.MaxLength > 0 {
			holds = min(holds, int64(s.MaxLength))
		}
		most[b] = max(most[b], holds)
	}
	if len(most) == 0 {
		return 0
	}
	least := int64(math.MaxInt32)
	for _, n := range most[span.Start:span.End] {
		least = min(least, n)
	}
	return int(least)
}
