package server

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// mover starts a server that chose its two blocks itself and is online.
func (w *world) mover(id swarm.PeerID, change func(*Config, *node)) *node {
	w.t.Helper()
	n := w.start(id, func(c *Config, n *node) {
		c.NumBlocks, c.Balance.Settle, c.Balance.Quality = 2, 0, 0
		if change != nil {
			change(c, n)
		}
	})
	<-n.Ready()
	return n
}

// words lists what a server has announced: state, span and intent, without repeats.
func (w *world) words(id swarm.PeerID) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, r := range w.records[id] {
		text := fmt.Sprint(r.State, " ", r.Span)
		if r.Next != nil {
			text += fmt.Sprint(" to ", r.Next.Span)
		}
		out = append(out, text)
	}
	return slices.Compact(out)
}

// A server with room for both loads its new blocks beside the old ones: it serves without a
// break, tells the clients of the old ones to go, and frees these when they have gone.
func TestMove(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.mover("a", nil)
		n.loader.takes = time.Second
		from, to := swarm.Span{Start: 0, End: 2}, swarm.Span{Start: 1, End: 3}
		old := n.engine
		p := w.opened(n, "client", from, func(o *wire.Open) { o.Features = wire.FeatureHandover })
		plain := w.opened(n, "old client", from, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		in := input(1, 3)
		p.rows(in, 0, 1, 0)
		p.expect(wire.TypeRows)
		p.expect(wire.TypeDone)
		done := make(chan error, 1)
		go func() { done <- n.Move(t.Context(), to, "a test") }()
		time.Sleep(2 * time.Second)

		// The session goes on until its client has gone, which it is asked to do.
		if h := p.next(); h.t != wire.TypeLeaving {
			t.Fatalf("got %v", h)
		}
		p.rows(in, 1, 2, 0)
		want := reference(in, 0, 2)
		if h := p.expect(wire.TypeRows); !slices.Equal(h.rows, want[hidden:2*hidden]) {
			t.Errorf("got %v, want %v", h.rows, want[hidden:2*hidden])
		}
		// New sessions find the new blocks, and not the old ones.
		q := w.opened(n, "client", to, func(o *wire.Open) { o.Session = wire.SessionID{3} })
		q.rows(in, 0, 1, 0)
		if h := q.expect(wire.TypeRows); !slices.Equal(h.rows, reference(in[:hidden], 1, 3)) {
			t.Errorf("the new blocks: %v", h.rows)
		}
		r := w.dial(n, "client")
		o := openMsg(from)
		o.Session = wire.SessionID{4}
		r.send(wire.TypeOpen, o)
		r.refusal(swarm.CodeWrongModel, swarm.Elsewhere)
		if old.closed {
			t.Error("the old blocks are freed under their sessions")
		}
		p.close()
		plain.refusal(swarm.CodeDraining, swarm.Elsewhere) // nobody could tell it before
		if err := <-done; err != nil || !old.closed {
			t.Errorf("%v; the old engine is closed: %v", err, old.closed)
		}
		if m := n.Status().Moves; len(m) != 1 || m[0].From != "0:2" || m[0].To != "1:3" || m[0].Reason == "" || time.Since(m[0].At) > time.Minute {
			t.Errorf("it tells of these moves: %+v", m)
		}
		time.Sleep(3 * time.Second)
		if got, want := w.words("a"), []string{"joining 0:2 to 0:2", "online 0:2", "online 0:2 to 1:3", "online 1:3"}; !slices.Equal(got, want) {
			t.Errorf("announced %q, want %q", got, want)
		}
		if len(n.loader.kept) != 1 || n.loader.kept[0] != old {
			t.Error("the loader was not told what there is already")
		}
		if held := n.Blocks(); len(held) != 2 || held[0].Index != 1 || held[1].Index != 2 {
			t.Errorf("holds %+v", held)
		}
		q.close()
		n.idle(t)
	})
}

// Without room for both, the old blocks are given up before the new ones are loaded.
func TestMoveInPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.mover("a", func(c *Config, n *node) { tightMemory(c, n) })
		old := n.engine
		p := w.opened(n, "client", swarm.Span{Start: 0, End: 2}, func(o *wire.Open) { o.Features = wire.FeatureHandover })
		done := make(chan error, 1)
		go func() { done <- n.Move(t.Context(), swarm.Span{Start: 4, End: 6}, "a test") }()
		if h := p.next(); h.t != wire.TypeLeaving || n.engine != old {
			t.Fatalf("got %v", h)
		}
		n.Resume() // an operator who does not know
		time.Sleep(time.Second)
		p.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		// The intent may be told before the state that follows it at once.
		got := slices.DeleteFunc(w.words("a"), func(word string) bool { return word == "online 0:2 to 4:6" })
		if want := []string{"joining 0:2 to 0:2", "online 0:2", "draining 0:2 to 4:6", "online 4:6"}; !slices.Equal(got, want) {
			t.Errorf("announced %q, want %q", got, want)
		}
		if len(old.stripped) != 1 || old.stripped[0] != (swarm.Span{Start: 4, End: 6}) {
			t.Errorf("stripped %v", old.stripped)
		}
	})
}

// tightMemory leaves room for one container only.
func tightMemory(c *Config, _ *node) {
	plan, err := c.Plan(fakeSizes, c.Manifest.Blocks)
	if err != nil {
		panic(err)
	}
	c.Memory -= plan.Spare
}

// A move that fails changes nothing: beside, the old blocks were never touched; in place, they
// are loaded again.
func TestMoveFails(t *testing.T) {
	for name, change := range map[string]func(*Config, *node){"beside": nil, "in place": tightMemory} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.mover("a", change)
			n.loader.failOnce = errors.New("the disk is gone")
			err := n.Move(t.Context(), swarm.Span{Start: 3, End: 5}, "a test")
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			time.Sleep(3 * time.Second)
			if r := w.last("a"); r.State != swarm.Online || r.Span.String() != "0:2" || r.Next != nil {
				t.Errorf("%s: announced %+v", name, r)
			}
			p := w.opened(n, "client", swarm.Span{Start: 0, End: 2}, nil)
			p.rows(input(1, 1), 0, 1, 0)
			p.expect(wire.TypeRows)
			if len(n.Blocks()) != 2 {
				t.Errorf("%s: holds %+v", name, n.Blocks())
			}
			p.close()
		})
	}
}

func TestMovesThatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		pinned := w.serve("pinned", swarm.Span{Start: 0, End: 2}, nil)
		if err := pinned.Move(t.Context(), swarm.Span{Start: 1, End: 3}, ""); !errors.Is(err, errPinned) {
			t.Error(err)
		}
		n := w.mover("a", nil)
		for _, to := range []swarm.Span{{Start: -1, End: 1}, {Start: 2, End: 2}, {Start: 5, End: 7}} {
			if err := n.Move(t.Context(), to, ""); swarm.CodeOf(err) != swarm.CodeBadRequest {
				t.Errorf("to %v: %v", to, err)
			}
		}
		n.Drain(0)
		if err := n.Move(t.Context(), swarm.Span{Start: 1, End: 3}, ""); !errors.Is(err, errDrained) {
			t.Error(err)
		}
		n.Resume()
		here := *n.Status().Span
		if err := n.Move(t.Context(), here, ""); err != nil {
			t.Errorf("to where it is: %v", err)
		}
	})
}

// A server that is stopped in the middle of a move ends all its sessions, and itself.
func TestStopsWhileMoving(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.mover("a", nil)
		old := n.engine
		p := w.opened(n, "client", swarm.Span{Start: 0, End: 2}, nil)
		go n.Move(t.Context(), swarm.Span{Start: 2, End: 4}, "a test")
		synctest.Wait()
		q := w.opened(n, "client", swarm.Span{Start: 2, End: 4}, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		n.stop()
		p.refusal(swarm.CodeDraining, swarm.Elsewhere)
		q.refusal(swarm.CodeDraining, swarm.Elsewhere)
		if err := <-n.done; err != nil || !old.closed {
			t.Errorf("%v; closed: %v", err, old.closed)
		}
		p.close()
		q.close()
	})
}

// A drain that is asked for while a move drains the server outlives the move.
func TestDrainWhileMoving(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.mover("a", tightMemory)
		p := w.opened(n, "client", *n.Status().Span, nil)
		moved := make(chan error, 1)
		go func() { moved <- n.Move(t.Context(), swarm.Span{Start: 3, End: 5}, "a test") }()
		synctest.Wait()
		n.Drain(0)
		p.close()
		if err := <-moved; err != nil || n.Status().State != swarm.Draining {
			t.Errorf("%v: %v", err, n.Status().State)
		}
		n.Resume()
		if n.Status().State != swarm.Online {
			t.Errorf("resumed: %v", n.Status().State)
		}
	})
}
