package balance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"whorl/swarm"
)

// Servers that start in the same second spread out: all blocks are held within 15 s.
func TestStartedTogether(t *testing.T) {
	for _, c := range []struct{ servers, blocks, n int }{{30, 30, 1}, {10, 30, 3}, {60, 30, 1}, {8, 30, 4}, {6, 12, 4}} {
		for seed := range uint64(8) {
			w := newWorld(c.blocks, seed)
			for i := range c.servers {
				w.start(time.Duration(w.rng.Float64()*float64(time.Second)), fmt.Sprintf("peer%02d", w.rng.IntN(1000)*100+i), c.n, 1, "")
			}
			w.run(16 * time.Second)
			if got := w.covered(); got != c.blocks {
				t.Errorf("%d servers of %d blocks, seed %d: %d of %d covered: %v", c.servers, c.n, seed, got, c.blocks, w.counts())
			}
			moved := w.moves
			w.run(15 * time.Minute)
			if w.moves > moved+c.servers/4 {
				t.Errorf("%d servers of %d blocks, seed %d: %d moves afterwards", c.servers, c.n, seed, w.moves-moved)
			}
		}
	}
}

// Where servers serve already, what they do in an hour: how many move, and what the
// worst-served block has then.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		what    string
		blocks  int
		servers []string
		moves   int
		worst   float64
	}{
		{"one of two moves into the hole", 24, []string{"A 0:5 1", "B 0:5 1", "C 5:19 100"}, 1, 1},
		{"disjoint", 8, []string{"A 0:4 1", "B 4:8 1"}, 0, 1},
		{"a spare one where little is", 8, []string{"A 0:4 1", "B 4:8 100", "C 4:6 1"}, 1, 1},
		{"nobody else holds what the fast one holds", 8, []string{"A 0:4 100", "B 4:8 1", "C 4:8 1"}, 0, 2},
		{"even", 8, []string{"A 0:4 10", "B 0:4 10", "C 4:8 20"}, 0, 20},
		{"a hole that nobody can reach", 12, []string{"A 0:4 1", "B 4:8 1"}, 0, 0},
		{"four of one place and one of the other", 8, []string{"A 0:4 1", "B 0:4 1", "C 0:4 1", "D 0:4 1", "E 4:8 1"}, 1, 2},
		{"ten of one place", 8, []string{"A 0:4 1", "B 0:4 1", "C 0:4 1", "D 0:4 1", "E 0:4 1", "F 0:4 1", "G 0:4 1", "H 0:4 1", "I 0:4 1", "J 0:4 1"}, 5, 5},
		{"nearly even", 8, []string{"A 0:4 10", "B 0:4 10", "C 4:8 19"}, 0, 19},
	} {
		for seed := range uint64(10) {
			w := newWorld(c.blocks, seed)
			w.trace = func(format string, a ...any) {
				if a[2] != Stay {
					t.Logf(format, a...)
				}
			}
			for _, s := range c.servers {
				var id, span string
				var rate float64
				if _, err := fmt.Sscan(s, &id, &span, &rate); err != nil {
					t.Fatal(err)
				}
				w.start(0, id, 0, rate, span)
			}
			w.run(time.Hour)
			if w.moves != c.moves || w.bottleneck() != c.worst || len(w.broke) > 0 {
				t.Fatalf("%s, seed %d: %d moves to %v, want %d to at least %v; %v", c.what, seed, w.moves, w.rates(), c.moves, c.worst, w.broke)
			}
		}
	}
}

// When holders die, others fill their place; no mover ever leaves a block without a holder,
// whatever order records come in; and once nobody comes or goes, moves stop.
func TestNeverUncovers(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld(12+int(seed%20), seed)
		n := 3 + w.rng.IntN(6)
		for i := range 4*w.blocks/n + 2 {
			w.start(time.Duration(w.rng.Float64()*float64(10*time.Minute)), fmt.Sprintf("peer%02d", i), n, 1+9*w.rng.Float64(), "")
		}
		w.run(20 * time.Minute)
		for range 5 {
			w.kill(w.nodes[w.rng.IntN(len(w.nodes))], 30*time.Second)
			w.run(10 * time.Minute)
		}
		if w.covered() != w.blocks {
			t.Errorf("seed %d: %v", seed, w.counts())
		}
		if len(w.broke) > 0 {
			t.Errorf("seed %d: %v", seed, w.broke)
		}
		w.run(time.Hour)
		moves := w.moves
		w.run(2 * time.Hour)
		if w.moves != moves {
			t.Errorf("seed %d: %d moves without a reason", seed, w.moves-moves)
		}
	}
}

// Pins, zero quality and the pause after a load keep a server where it is, and say so.
func TestStays(t *testing.T) {
	v := swarmOf(t, 8, "A 0:4 1", "B 0:4 1")
	span := swarm.Span{Start: 0, End: 4}
	me := Self{Peer: "A", Span: &span, Most: 4, Declared: 1}
	now := time.Unix(1e9, 0)
	cfg := DefaultConfig()
	if d := new(Mover).Next(cfg, Count(v, nil), me, now); d.Do != Intend || !d.Alarm || d.Span.Start != 4 {
		t.Errorf("%+v", d)
	}
	pinned := me
	pinned.Pinned = true
	off := cfg
	off.Quality = 0
	for _, c := range []struct {
		cfg  Config
		me   Self
		m    Mover
		want string
	}{
		{cfg, pinned, Mover{}, "the operator chose the blocks"},
		{off, me, Mover{}, "moves are turned off"},
		{cfg, me, Mover{loaded: now.Add(-time.Second)}, "blocks 4-7 have no holder: 4:8 instead of 0:4; but it loaded blocks a short time ago and stays for 59s"},
	} {
		if d := c.m.Next(c.cfg, Count(v, nil), c.me, now); d.Do != Stay || d.Reason != c.want {
			t.Errorf("%v %q, want %q", d.Do, d.Reason, c.want)
		}
	}
	// A dry run does not wait, and does not bind.
	if d := Preview(cfg, Count(v, nil), me); d.Do != Go || d.Span.Start != 4 || d.Gain <= 0 {
		t.Errorf("dry run: %+v", d)
	}
	// An unsteady holder alone is an alarm as well.
	v = swarmOf(t, 8, "A 0:4 1", "B 0:4 1", "C 4:8 1")
	unsteady := func(p swarm.PeerID) bool { return p == "C" }
	if d := new(Mover).Next(cfg, Count(v, unsteady), me, now); d.Do != Intend || !d.Alarm {
		t.Errorf("one unsteady holder: %+v", d)
	}
	if spans, why := Count(v, unsteady).Alarm(); !slices.Equal(spans, []swarm.Span{{Start: 4, End: 8}}) || why != "blocks 4-7 have one unsteady holder alone" {
		t.Errorf("%v, %q", spans, why)
	}
}

// A census changed record by record is the census of the view.
func TestPut(t *testing.T) {
	v := swarmOf(t, 12, "A 0:4 3", "B 2:9 5", "C 4:12 7", "D 0:12 2")
	c := Count(swarmOf(t, 12, "A 3:9 1", "X 0:9 4", "C 4:12 7"), nil)
	gone := swarm.Record{Peer: "X", State: swarm.Offline}
	c.Put(&gone, false, false)
	for i := range v.Servers {
		r := v.Servers[i]
		r.Next = &swarm.Intent{Span: swarm.Span{Start: 1, End: 5}, Open: true}
		c.Put(&r, false, true)
		c.Put(&v.Servers[i], false, false)
	}
	want := Count(v, nil)
	if !slices.Equal(c.rate, want.rate) || !slices.Equal(c.holders, want.holders) || !slices.Equal(c.present, want.present) || c.moving != 0 || c.choosing != 0 || len(c.members) != len(want.members) {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// Records that cost nothing end no alarm, and make nobody leave; a newcomer, who has reached
// few, takes the word of many.
func TestRumours(t *testing.T) {
	v := swarmOf(t, 8, "A 0:4 1", "B 0:4 1", "X 4:8 1", "Y 4:8 1", "Z 0:8 1")
	v.Reached = map[swarm.PeerID]string{"A": "1", "B": "2"}
	c := Count(v, nil)
	if spans, why := c.Alarm(); len(spans) != 1 || spans[0] != (swarm.Span{Start: 4, End: 8}) || why != "blocks 4-7 have one unsteady holder alone" {
		t.Errorf("%v %q", spans, why)
	}
	span := swarm.Span{Start: 0, End: 4}
	now := time.Unix(1e9, 0)
	if d := new(Mover).Next(DefaultConfig(), c, Self{Peer: "A", Span: &span, Most: 4, Declared: 1}, now); d.Do != Intend || !d.Alarm || d.Span.Start != 4 {
		t.Errorf("%+v", d)
	}
	delete(v.Reached, "B") // B alone cannot be relied on
	if d := new(Mover).Next(DefaultConfig(), Count(v, nil), Self{Peer: "A", Span: &span, Most: 4, Declared: 1}, now); d.Do != Stay {
		t.Errorf("%+v", d)
	}
	thin := swarmOf(t, 8, "A 0:4 1", "X 0:4 1", "Y 0:4 1", "Z 4:8 1")
	thin.Reached = map[swarm.PeerID]string{"Z": "1"}
	cfg := DefaultConfig()
	cfg.Settle = 0
	if d := new(Mover).Next(cfg, Count(thin, nil), Self{Peer: "new", Most: 4, Declared: 1}, now); d.Do != Go || d.Span.Start != 4 {
		t.Errorf("%+v", d)
	}
	// Intents of strangers take nobody's turn.
	even := swarmOf(t, 8, "A 0:4 1", "B 0:4 1", "C 0:4 1", "D 4:8 1", "X 0:4 1")
	even.Servers[4].Next = &swarm.Intent{Span: span, Open: true, Since: 1}
	even.Reached = map[swarm.PeerID]string{"A": "1", "B": "1", "C": "1", "D": "1"}
	cfg.Looks, cfg.Eager = 1, 0
	if d := new(Mover).Next(cfg, Count(even, nil), Self{Peer: "A", Span: &span, Most: 4, Declared: 1}, now); d.Do != Go || d.Span.Start != 4 {
		t.Errorf("%+v", d)
	}
}
