package balance

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"whorl/swarm"
)

// swarmOf makes a view of online servers: "A 0:5 1" each.
func swarmOf(t *testing.T, blocks int, servers ...string) swarm.View {
	t.Helper()
	var all []swarm.Record
	for _, s := range servers {
		r := swarm.Record{State: swarm.Online}
		var span string
		if _, err := fmt.Sscan(s, &r.Peer, &span, &r.Throughput); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		var err error
		if r.Span, err = swarm.ParseSpan(span); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return swarm.NewView(swarm.Manifest{Name: "m", Blocks: blocks}, time.Time{}, all)
}

// The golden cases of Petals' rule, and what --balance_quality means at its ends.
func TestPetalsMoves(t *testing.T) {
	two := []string{"A 0:4 10", "B 0:4 10"}
	for _, c := range []struct {
		what    string
		blocks  int
		servers []string
		quality float64
		want    bool
	}{
		{"its own test of rebalancing", 24, []string{"A 0:5 1", "B 0:5 1", "C 5:19 100"}, 0.75, true},
		{"disjoint", 8, []string{"A 0:4 1", "B 4:8 1"}, 0.75, false},
		{"its place is the best", 8, append(two, "C 4:8 10"), 0.75, false},
		{"a third of what could be", 8, append(two, "C 0:8 5"), 0.75, true},
		{"five sixths of what could be", 8, append(two, "C 0:8 50"), 0.75, false},
		{"five sixths where more is asked", 8, append(two, "C 0:8 50"), 0.95, true},
		{"quality 0 never moves", 24, []string{"A 0:5 1", "B 0:5 1", "C 5:19 100"}, 0, false},
		{"above 1 every check moves", 8, []string{"A 0:4 1", "B 4:8 1"}, 1.1, true},
		{"a server that nobody heard of", 8, []string{"B 0:8 1"}, 0.75, false},
	} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			if got := (Petals{c.quality}).Moves(swarmOf(t, c.blocks, c.servers...), "A", rng); got != c.want {
				t.Errorf("%s, seed %d: %v, want %v", c.what, seed, got, c.want)
			}
		}
	}
	// Where it goes.
	if got := Choose(swarmOf(t, 24, "B 0:5 1", "C 5:19 100"), "A", 5); got != (swarm.Span{Start: 19, End: 24}) {
		t.Errorf("A goes to %v", got)
	}
}
