package chain

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"whorl/swarm"
)

// relieve finds servers for a run of blocks that are not on the chain.
func (w *world) relieve(from, to int) {
	var hops []Hop
	for at := from; at < to; {
		var best *host
		for _, i := range w.r.Perm(len(w.hosts)) {
			h := w.hosts[i]
			_, avoided := w.avoid[h.peer]
			if h.span.Start <= at && h.span.End > at && !avoided && !h.is(leaves, w.now) &&
				!slices.ContainsFunc(slices.Concat(hops, w.m.Alive()), func(o Hop) bool { return o.Peer == h.peer }) {
				best = h
			}
		}
		if best == nil {
			hops = nil
			break
		}
		end := min(best.span.End, to)
		hops = append(hops, Hop{Hop: swarm.Hop{Peer: best.peer, Span: swarm.Span{Start: at, End: end}}, Decode: time.Millisecond, Prefill: time.Millisecond})
		at = end
	}
	w.tell(Event{Kind: Relieved, Hops: hops}, nil)
}

// goes is what a server that leaves says to those that it serves, and what it does in the end.
func (w *world) goes(p *post) {
	if p.said || p.habit != leaves || w.now.Before(p.from) {
		return
	}
	p.said = true
	w.hear(p, Event{Kind: Leaving, By: w.now.Add(notice)}, nil)
	w.post(fmt.Sprint("leave ", p.stage), notice, func() {
		if !p.over {
			w.hear(p, Event{Kind: Failed, Epoch: p.place.Epoch, Verdict: swarm.Elsewhere, Code: swarm.CodeDraining}, nil)
			w.gone++
		}
	})
}

// Servers of a chain say one after the other that they will leave. Where others hold their
// blocks, in one piece or in two, those have taken their place before they are gone: nobody is
// observed, and the rows are those of one machine.
func TestLeaversAreRelieved(t *testing.T) {
	for seed := range uint64(600) {
		w := newSim(t, seed, "a1 0:2", "a2 0:2", "b1 2:4", "b2 2:4", "b3 2:3", "b4 3:4", "c1 4:6", "c2 4:6")
		w.call(1 + w.r.IntN(100))
		for range 3 {
			alive := w.m.Alive()
			peer := alive[w.r.IntN(len(alive))].Peer
			for _, h := range w.hosts {
				if h.habit == leaves && len(alive) > 0 { // it has gone: another of its name comes
					h.habit = honest
				}
			}
			for _, p := range w.posts { // its part of the session has the habit of its server
				if p.peer == peer && !p.over {
					p.habit, p.from, p.said = leaves, w.now, false
				}
			}
			for _, h := range w.hosts {
				if h.peer == peer {
					h.habit, h.from = leaves, w.now
				}
			}
			for range 40 {
				w.call(1)
				if w.err != nil || !w.done {
					t.Fatalf("seed %d: %s leaves: ended %v, %v", seed, peer, w.done, w.err)
				}
			}
			if want := compute(swarm.Span{End: 6}, w.rows); w.outs[len(w.rows)-1] != want[len(want)-1] {
				t.Fatalf("seed %d: another row", seed)
			}
			for _, h := range w.m.Alive() {
				if h.Peer == peer {
					t.Fatalf("seed %d: %s is still on the chain", seed, peer)
				}
			}
			w.now = w.now.Add(time.Minute)
			for i := range w.mail {
				w.mail[i].at = w.mail[i].at.Add(time.Minute)
			}
		}
		if w.gone > 0 || len(w.seen) > 0 {
			t.Fatalf("seed %d: %d servers had gone before they were relieved; observed %v", seed, w.gone, w.seen)
		}
	}
}

// Where nobody else holds the blocks the session stays as long as it may.
func TestNobodyRelieves(t *testing.T) {
	w := newSim(t, 1, "a 0:6")
	w.call(20)
	w.tell(Event{Kind: Leaving, Stage: w.m.Alive()[0].Stage, By: w.now.Add(time.Minute)}, nil)
	for range 20 {
		w.call(1)
		w.now = w.now.Add(500 * time.Millisecond)
	}
	if w.err != nil || w.m.Epoch() != 1 || len(w.seen) > 0 {
		t.Errorf("%v in epoch %d, observed %v", w.err, w.m.Epoch(), w.seen)
	}
}

// A relief that fails is let go, and the chain never depended on it.
func TestReliefFails(t *testing.T) {
	for _, h := range []habit{dies, hangs, accuses, caller, skews, parks} {
		for seed := range uint64(50) {
			w := newSim(t, seed, "a 0:2", "b1 2:4", "b2 2:4", "c 4:6")
			w.call(30)
			old := w.m.Alive()[1]
			for _, x := range w.hosts {
				if x.span == old.Span && x.peer != old.Peer {
					x.habit, x.from = h, w.now
				}
			}
			w.tell(Event{Kind: Leaving, Stage: old.Stage, By: w.now.Add(time.Hour)}, nil)
			for range 100 {
				w.call(1)
				if w.err != nil || !w.done {
					t.Fatalf("relief %s, seed %d: %v", h, seed, w.err)
				}
			}
			if want := compute(swarm.Span{End: 6}, w.rows); w.outs[len(w.rows)-1] != want[len(want)-1] {
				t.Fatalf("relief %s, seed %d: another row", h, seed)
			}
			if w.m.Reroutes() > 2 || w.seen[old.Peer] != "" { // what takes over and then accuses others is as bad as any liar
				t.Errorf("relief %s, seed %d: %d fail-overs, observed %v", h, seed, w.m.Reroutes(), w.seen)
			}
		}
	}
}

// A running session changes to a better chain: others take the place of one stage, or of two,
// while it goes on.
func TestBetterChain(t *testing.T) {
	for seed := range uint64(200) {
		w := newSim(t, seed, "a 0:2", "b 2:4", "c 4:6")
		w.call(1 + w.r.IntN(60))
		w.hosts = append(w.hosts, &host{peer: "x", span: swarm.Span{Start: 2, End: 6}}, &host{peer: "y", span: swarm.Span{Start: 0, End: 2}})
		for _, e := range []Event{
			{Kind: Better, From: 2, To: 6, Hops: []Hop{{Hop: swarm.Hop{Peer: "x", Span: swarm.Span{Start: 2, End: 6}}}}},
			{Kind: Better, From: 0, To: 2, Hops: []Hop{{Hop: swarm.Hop{Peer: "y", Span: swarm.Span{Start: 0, End: 2}}}}},
			{Kind: Better, From: 1, To: 2, Hops: []Hop{{Hop: swarm.Hop{Peer: "a", Span: swarm.Span{Start: 1, End: 2}}}}}, // no border of the chain
		} {
			w.tell(e, nil)
			for range 60 {
				w.call(1)
			}
			if want := compute(swarm.Span{End: 6}, w.rows); w.err != nil || w.outs[len(w.rows)-1] != want[len(want)-1] {
				t.Fatalf("seed %d: %v, or another row", seed, w.err)
			}
		}
		if got := w.m.Alive(); len(got) != 2 || got[0].Peer != "y" || got[1].Peer != "x" || len(w.seen) > 0 || w.m.Reroutes() > 0 {
			t.Fatalf("seed %d: on %v after %d fail-overs, observed %v", seed, got, w.m.Reroutes(), w.seen)
		}
	}
}
