package sched

import (
	"fmt"
	"testing"
	"time"
)

// Inference is not here at all; of the rest forward comes before backward, then whoever received
// the least, then who came first, and nobody waits for ever.
func TestPassesOrder(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		push   []Pass
		at     []time.Duration // of the pushes; nil: all at 0
		before map[string]time.Duration
		now    time.Duration
		want   string
	}{
		{"as they came", []Pass{{ID: 1, Peer: "a"}, {ID: 2, Peer: "b"}, {ID: 3, Peer: "c"}}, nil, nil, s, "1 2 3"},
		{"forward first", []Pass{{ID: 1, Peer: "a", Backward: true}, {ID: 2, Peer: "b", Backward: true}, {ID: 3, Peer: "c"}}, nil, nil, s, "3 1 2"},
		{"who received less", []Pass{{ID: 1, Peer: "a"}, {ID: 2, Peer: "a"}, {ID: 3, Peer: "b"}}, nil, map[string]time.Duration{"a": s}, s, "3 1 2"},
		{"of a class", []Pass{{ID: 1, Peer: "a"}, {ID: 2, Peer: "b", Backward: true}}, nil, map[string]time.Duration{"a": time.Hour}, s, "1 2"},
		{"late ones by age", []Pass{{ID: 1, Peer: "a", Backward: true}, {ID: 2, Peer: "b"}, {ID: 3, Peer: "a"}},
			[]time.Duration{0, s, 15 * s}, map[string]time.Duration{"a": time.Hour}, 22 * s, "1 2 3"},
	} {
		q := NewPasses()
		for p, d := range c.before {
			q.Computed(0, p, d)
		}
		for i, p := range c.push {
			var at time.Duration
			if c.at != nil {
				at = c.at[i]
			}
			q.Push(at, p)
		}
		got := ""
		for want := 1; ; want++ {
			var next uint64
			for _, p := range c.push {
				if q.Ahead(c.now, p.ID) == 1 {
					next = p.ID
				}
			}
			p, ok := q.Next(c.now)
			if !ok {
				break
			}
			if p.ID != next {
				t.Errorf("%s: %d is next, and %d was said to be", c.name, p.ID, next)
			}
			got += fmt.Sprint(" ", p.ID)
		}
		if got != " "+c.want {
			t.Errorf("%s: order%s, want %s", c.name, got, c.want)
		}
	}
}

// Two peers share the time evenly, however many passes one of them sends and however long they take.
func TestPassesShares(t *testing.T) {
	q := NewPasses()
	id, now := uint64(0), time.Duration(0)
	push := func(peer string) { id++; q.Push(now, Pass{ID: id, Peer: peer}) }
	for range 8 {
		push("greedy")
	}
	push("modest")
	took := map[string]time.Duration{"greedy": 300 * time.Millisecond, "modest": 100 * time.Millisecond}
	sum := map[string]time.Duration{}
	for range 200 {
		p, _ := q.Next(now)
		now += took[p.Peer]
		sum[p.Peer] += took[p.Peer]
		q.Computed(now, p.Peer, took[p.Peer])
		push(p.Peer)
		for i := range q.waiting { // nobody waits for so long that patience decides
			q.waiting[i].at = now
		}
	}
	if share := sum["modest"].Seconds() / now.Seconds(); share < 0.45 || share > 0.55 {
		t.Errorf("the modest peer got %.2f of the time", share)
	}
	q.Drop(id)
	q.Drop(id)
	if q.Len() != 8 {
		t.Errorf("%d wait after one was dropped", q.Len())
	}
	for i := range 3 * maxPassPeers {
		q.Computed(now, fmt.Sprint("stranger", i), time.Microsecond)
	}
	if len(q.peers) > maxPassPeers || q.peers["greedy"] == nil {
		t.Errorf("%d peers are remembered, the greedy one among them: %v", len(q.peers), q.peers["greedy"] != nil)
	}
}
