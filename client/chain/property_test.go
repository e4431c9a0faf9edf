package chain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

// Whatever order things happen in, and whatever some servers do: a session with an honest
// holder for each block ends, with the rows of one machine and within a bounded number of
// routes, and no honest server is observed beside those that the rules accept.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(3000) {
		w := newSim(t, seed, "a1 0:2", "a2 0:2", "a3 0:3", "b1 2:4", "b2 2:4", "b3 3:6", "c1 4:6", "c2 4:6", "c3 4:6")
		bad := map[swarm.PeerID]habit{}
		for _, i := range w.r.Perm(3)[:w.r.IntN(3)] { // one server of a group: the others are honest
			h := w.hosts[3*i+w.r.IntN(3)]
			h.habit, h.from = habits[w.r.IntN(len(habits))], w.now.Add(time.Duration(w.r.IntN(800))*time.Millisecond)
			bad[h.peer] = h.habit
		}
		w.call(0)
		for _, n := range []int{1 + w.r.IntN(30), 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1} {
			before := w.places
			w.call(n)
			if want := compute(swarm.Span{End: 6}, w.rows); !w.done || w.err != nil || n > 0 && w.outs[len(w.rows)-1] != want[len(want)-1] {
				t.Fatalf("seed %d with %v at row %d: ended %v, %v; observed %v", seed, bad, len(w.rows), w.done, w.err, w.seen)
			}
			if w.places-before > 60 {
				t.Errorf("seed %d with %v: %d places in one call", seed, bad, w.places-before)
			}
		}
		for p, what := range w.seen {
			if (bad[p] == parks || bad[p] == honest) && !w.excused(p, bad) {
				t.Errorf("seed %d with %v: %s is observed: %s", seed, bad, p, what)
			}
		}
	}
}

// excused: where a liar accuses its neighbour of wrong rows the client cannot know who lies,
// and a server that is right about two liars in a row looks like one that lies.
func (w *world) excused(p swarm.PeerID, bad map[swarm.PeerID]habit) bool {
	senders := 0
	for _, h := range bad {
		switch h {
		case accuses, skews:
			senders += 2
		case high, low, keeps, late:
			senders++
		}
	}
	return senders >= 2 && strings.Trim(strings.ReplaceAll(w.seen[p], "accused", ""), " ") == ""
}

// What a caller interrupts proves nothing about any server, whenever it leaves.
func TestCallersLeave(t *testing.T) {
	for seed := range uint64(500) {
		w := newSim(t, seed, "a1 0:2", "a2 0:2", "b1 2:4", "b2 2:4", "c1 4:6", "c2 4:6")
		for range 6 {
			for range 1 + w.r.IntN(9) {
				w.rows = append(w.rows, w.r.Uint64())
			}
			want := len(w.rows) - 1
			w.done, w.next = false, want
			w.tell(Event{Kind: Advance, From: want, To: len(w.rows), Chunk: 3}, nil)
			w.run(time.Duration(w.r.IntN(120)) * time.Millisecond)
			if !w.done {
				w.tell(Event{Kind: Gone, Err: errors.New("left")}, nil)
				for id, p := range w.posts {
					if !p.over && !slices.ContainsFunc(w.m.Alive(), func(h Hop) bool { return h.Stage == id }) {
						t.Errorf("seed %d: the stream to %s stays open", seed, p.peer)
					}
				}
				keep := w.r.IntN(len(w.rows))
				w.rows = w.rows[:keep]
				w.tell(Event{Kind: Cut, To: keep}, nil)
			}
			w.done = true
			w.run(time.Second)
		}
		w.call(1)
		if want := compute(swarm.Span{End: 6}, w.rows); w.err != nil || !w.done || w.outs[len(w.rows)-1] != want[len(want)-1] {
			t.Fatalf("seed %d: %v", seed, w.err)
		}
		if len(w.seen) > 0 {
			t.Errorf("seed %d: observed %v", seed, w.seen)
		}
	}
}
