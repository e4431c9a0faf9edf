package balance

import (
	"testing"
	"time"

	"whorl/swarm"
)

func TestBestStart(t *testing.T) {
	for _, c := range []struct {
		t    []float64
		n    int
		want int
	}{
		{make([]float64, 8), 3, 0},
		{[]float64{1, 1, 0, 0, 1, 1, 1, 1}, 3, 1},
		{[]float64{2, 1, 1, 2, 0, 3, 3, 0}, 2, 3},
		{[]float64{5, 5, 5, 5}, 4, 0},
		{[]float64{3, 1, 2, 1, 3}, 2, 1},
	} {
		if got := BestStart(c.t, c.n); got != c.want {
			t.Errorf("%v, %d: %d, want %d", c.t, c.n, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	server := func(p swarm.PeerID, start, end int, s swarm.State, rps float64) swarm.Record {
		return swarm.Record{Peer: p, Span: swarm.Span{Start: start, End: end}, State: s, Throughput: rps}
	}
	m := swarm.Manifest{Blocks: 8}
	for _, c := range []struct {
		name    string
		servers []swarm.Record
		n       int
		want    swarm.Span
	}{
		{"an empty swarm", nil, 3, swarm.Span{Start: 0, End: 3}},
		{"all blocks at most", nil, 99, swarm.Span{Start: 0, End: 8}},
		{"behind one that joins", []swarm.Record{server("a", 0, 4, swarm.Joining, 5)}, 4, swarm.Span{Start: 4, End: 8}},
		{"one that leaves does not count", []swarm.Record{server("a", 0, 4, swarm.Draining, 5), server("b", 4, 8, swarm.Online, 5)}, 4, swarm.Span{Start: 0, End: 4}},
		{"my own record does not count", []swarm.Record{server("me", 0, 4, swarm.Online, 5), server("b", 4, 8, swarm.Online, 5)}, 4, swarm.Span{Start: 0, End: 4}},
		{"unmeasured servers serve", []swarm.Record{server("a", 0, 4, swarm.Online, 0)}, 4, swarm.Span{Start: 4, End: 8}},
	} {
		if got := Choose(swarm.NewView(m, time.Time{}, c.servers), "me", c.n); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
