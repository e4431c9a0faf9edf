package chain

import (
	"errors"
	"math/rand/v2"
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
			if (bad[p] == parks || bad[p] == leaves || bad[p] == honest) && !w.excused(p, bad) {
				t.Errorf("seed %d with %v: %s is observed: %s", seed, bad, p, what)
			}
		}
	}
}

// excused: where a liar accuses its neighbour of wrong rows the client cannot know who lies,
// and a server that is right about two liars in a row looks like one that lies.
func (w *world) excused(p swarm.PeerID, bad map[swarm.PeerID]habit) bool {
	if bad[p] == leaves && strings.TrimSpace(w.seen[p]) == "refused" { // by a client that was on its way to it
		return true
	}
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

// Whatever servers say, however little sense it makes: nothing panics, no step goes on for
// ever, and rows are taken in order.
func TestAnyEvents(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 17))
		m, now := New(params(6)), time.Unix(1000, 0)
		peers := []swarm.PeerID{"a", "b", "c", "d", "e", ""}
		rows, next := 0, 0
		for range 300 {
			now = now.Add(time.Duration(r.IntN(700)) * time.Millisecond)
			e := Event{
				Kind: EventKind(4 + r.IntN(9)), Stage: r.IntN(1 + m.ids), Epoch: m.epoch - uint32(r.IntN(2)) + uint32(r.IntN(2)),
				From: r.IntN(rows + 3), To: r.IntN(rows + 3), Verdict: swarm.Verdict(r.IntN(5)), Peer: peers[r.IntN(len(peers))],
				Code: []swarm.Code{swarm.CodeGap, swarm.CodeNoSession, swarm.CodePeerLost, swarm.CodeCacheFull, "x"}[r.IntN(5)],
				What: swarm.Observation(1 + r.IntN(9)), OK: r.IntN(2) == 0, Err: errors.New("any"),
			}
			if e.To < e.From {
				e.From, e.To = e.To, e.From
			}
			switch {
			case !m.active && r.IntN(2) == 0:
				rows += r.IntN(9)
				next = r.IntN(rows + 1)
				e = Event{Kind: Advance, From: next, To: rows, Chunk: 1 + r.IntN(4)}
			case !m.active && r.IntN(3) == 0:
				rows = r.IntN(rows + 1)
				e = Event{Kind: Cut, To: rows}
			case m.phase == planning && r.IntN(2) == 0:
				e = Event{Kind: Planned}
				for i, at := 0, 0; at < 6; i, at = i+1, at+2 {
					e.Hops = append(e.Hops, Hop{Hop: swarm.Hop{Peer: peers[r.IntN(5)], Span: swarm.Span{Start: at, End: at + 2}}})
					for _, h := range m.Alive() {
						if h.Span.Start == at {
							e.Hops[i] = h
						}
					}
				}
			case r.IntN(30) == 0:
				e = Event{Kind: Gone, Err: errors.New("left")}
			case r.IntN(3) > 0: // now and then all goes well
				list := slices.Concat(m.chain, m.coming)
				if len(list) == 0 {
					break
				}
				st := list[r.IntN(len(list))]
				e.Stage, e.Epoch = st.id, m.epoch
				switch m.phase {
				case dialling:
					e.Kind = Dialled
				case placing:
					e.Kind, e.To = Answered, st.move.Truncate
				case feeding, whole:
					e.From, e.To = st.position, min(rows, st.position+r.IntN(5))
					if e.Kind = []EventKind{Computed, Journalled, Results, Tick}[r.IntN(4)]; e.Kind == Results {
						e.From = min(next, e.To)
					}
				}
			}
			acts := m.Step(e, now)
			for _, a := range acts {
				switch {
				case a.Kind == Take && a.From != next:
					t.Fatalf("seed %d: rows %d:%d are taken where %d comes next", seed, a.From, a.To, next)
				case a.Kind == Take:
					next = a.To
				case a.Kind == Send && (a.From >= a.To || a.To > rows):
					t.Fatalf("seed %d: rows %d:%d of %d are sent", seed, a.From, a.To, rows)
				}
			}
			if len(acts) > 100 {
				t.Fatalf("seed %d: %d actions in a step", seed, len(acts))
			}
			if at := m.Next(); m.active && !at.IsZero() && at.Before(now.Add(-time.Hour)) {
				t.Fatalf("seed %d: due an hour ago", seed)
			}
		}
	}
}

// A server that cannot reach the next one costs a pause: the client passes the rows on, nobody is
// observed, and the outputs are those of one machine. Of random swarms the same holds whatever
// pairs cannot reach each other.
func TestDetours(t *testing.T) {
	for seed := range uint64(300) {
		w := newSim(t, seed, "a 0:2", "b 2:4", "c 4:6")
		w.deaf = map[[2]swarm.PeerID]bool{}
		for _, pair := range [][2]swarm.PeerID{{"a", "b"}, {"b", "c"}} {
			w.deaf[pair] = seed == 0 || w.r.IntN(2) == 0
		}
		w.call(0)
		for _, n := range []int{1 + w.r.IntN(30), 1, 1, 1, 5, 1, 1} {
			w.call(n)
			if want := compute(swarm.Span{End: 6}, w.rows); !w.done || w.err != nil || n > 0 && w.outs[len(w.rows)-1] != want[len(want)-1] {
				t.Fatalf("seed %d at row %d without %v: ended %v, %v; observed %v", seed, len(w.rows), w.deaf, w.done, w.err, w.seen)
			}
		}
		if len(w.seen) > 0 {
			t.Errorf("seed %d: observed %v", seed, w.seen)
		}
		if got, want := w.passed > 0, w.deaf[[2]swarm.PeerID{"a", "b"}] || w.deaf[[2]swarm.PeerID{"b", "c"}]; got != want {
			t.Errorf("seed %d: %d rows were passed on, with %v", seed, w.passed, w.deaf)
		}
	}
}
