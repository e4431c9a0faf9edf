package health

import (
	"testing"
	"time"

	"whorl/swarm"
)

func TestCapacity(t *testing.T) {
	holder := func(p swarm.PeerID, start, end int, s swarm.State, cache int64, longest int) swarm.Record {
		return swarm.Record{Peer: p, Span: swarm.Span{Start: start, End: end}, State: s, CacheTotal: cache, MaxLength: longest}
	}
	a := holder("a", 0, 3, swarm.Online, 100, 0)
	for _, c := range []struct {
		name    string
		servers []swarm.Record
		want    int
	}{
		{"nobody", nil, 0},
		{"a block without a server", []swarm.Record{a}, 0},
		{"the smallest of the chain", []swarm.Record{a, holder("b", 3, 4, swarm.Online, 70, 0)}, 70},
		{"the larger of two holders", []swarm.Record{a, holder("b", 3, 4, swarm.Online, 70, 0), holder("c", 2, 4, swarm.Online, 90, 0)}, 90},
		{"a limit below the cache", []swarm.Record{a, holder("b", 3, 4, swarm.Online, 500, 60)}, 60},
		{"one that is still joining", []swarm.Record{a, holder("b", 3, 4, swarm.Joining, 500, 0)}, 0},
	} {
		v := swarm.NewView(swarm.Manifest{Blocks: 4}, time.Time{}, c.servers)
		if got := Capacity(v, 1); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
