package store

import (
	"fmt"
	"testing"

	"whorl/swarm"
	"whorl/swarm/health"
)

func TestMemory(t *testing.T) {
	testSuite(t, func(t *testing.T, l Limits) Store { return NewMemory(l) })
}

// However much strangers announce, memory stays bounded.
func TestMemoryIsBounded(t *testing.T) {
	l := Limits{Age: 1, Crawls: 10, Coverage: 10, Observations: 10, Events: 10, Servers: 10}
	m := NewMemory(l)
	for i := range 500 {
		s := sampleAt("gate", i)
		id := fmt.Sprint(i)
		s.Coverage = []Coverage{{Model: swarm.UID(id), At: at(i), Coverage: health.Coverage{Counts: make([]int, 4096)}}}
		s.Observations = []Observation{{At: at(i), Model: swarm.UID(id), Peer: swarm.PeerID(id)}}
		s.Events = []Event{{At: at(i), Kind: ServerOnline, Model: swarm.UID(id), Peer: swarm.PeerID(id)}}
		mustWrite(t, m, s)
	}
	for what, n := range map[string]int{
		"crawls": m.crawls.len(), "coverage": m.coverage.len(), "observations": m.observations.len(), "events": m.events.len(),
		"servers": len(m.servers), "subjects": len(m.lastEvent),
	} {
		if n > 10 {
			t.Errorf("%d %s, want at most 10", n, what)
		}
	}
	if packed := m.coverage.at(0).packed; len(packed) > 8 {
		t.Errorf("4096 equal counts take %d bytes", len(packed))
	}
}

func TestRing(t *testing.T) {
	r := newRing[int](3)
	show := func() (out []int) {
		for i := range r.len() {
			out = append(out, r.at(i))
		}
		return out
	}
	for i, want := range []string{"[0]", "[0 1]", "[0 1 2]", "[1 2 3]", "[2 3 4]"} {
		r.push(i)
		if got := fmt.Sprint(show()); got != want {
			t.Errorf("after %d: %s, want %s", i, got, want)
		}
	}
	r.drop(func(v int) bool { return v == 3 })
	r.push(9)
	r.push(10)
	if got := fmt.Sprint(show()); got != "[4 9 10]" {
		t.Errorf("after drop and push: %s", got)
	}
	none := newRing[int](0)
	none.push(1)
	if none.len() != 0 {
		t.Error("a ring of no rows holds one")
	}
}
