package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// An adapter comes and goes while sessions run: those that use it finish, others never notice.
func TestAdaptersAtRunTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 3}
		n := w.serve("a", span, func(_ *Config, n *node) { n.adapters = slices.Clone(adapters) })
		plain := w.opened(n, "plain", span, nil)
		in := input(1, 40)
		plain.rows(in, 0, 10, 0)
		plain.position(10)
		songs := &blocks.AdapterFile{Name: "songs", Digest: "d3"}
		if err := n.LoadAdapter(t.Context(), songs); err != nil {
			t.Fatal(err)
		}
		if err := n.LoadAdapter(t.Context(), songs); err == nil || !strings.Contains(err.Error(), `"songs" is held already`) {
			t.Errorf("loaded twice: %v", err)
		}
		time.Sleep(5 * time.Second)
		if got := w.last("a").Adapters; len(got) != 3 || got[2] != (swarm.Adapter{Name: "songs", Digest: "d3"}) {
			t.Errorf("announced %v", got)
		}
		with := func(id byte, a swarm.Adapter) *peer {
			return w.opened(n, "user", span, func(o *wire.Open) { o.Session, o.Adapter = wire.SessionID{id}, &a })
		}
		user := with(9, swarm.Adapter{Name: "songs", Digest: "d3"})
		user.rows(in, 0, 2, 0)
		user.position(2)

		// It is given up by somebody who thinks better of it, and then for good.
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGivenUp) })
		if err := n.UnloadAdapter(ctx, "songs", func(int) {}); !errors.Is(err, errGivenUp) {
			t.Errorf("given up: %v", err)
		}
		with(8, swarm.Adapter{Name: "songs", Digest: "d3"}).close()
		synctest.Wait()
		done, told := make(chan error, 1), make(chan int, 10)
		go func() { done <- n.UnloadAdapter(t.Context(), "songs", func(left int) { told <- left }) }()
		if left := <-told; left != 1 {
			t.Errorf("%d sessions use it", left)
		}
		refused := w.dial(n, "late")
		o := openMsg(span)
		o.Session, o.Adapter = wire.SessionID{7}, &swarm.Adapter{Name: "songs", Digest: "d3"}
		refused.send(wire.TypeOpen, o)
		refused.refusal(swarm.CodeWrongModel, swarm.Elsewhere)
		user.rows(in, 2, 3, 0) // it goes on
		user.position(3)
		plain.rows(in, 10, 20, 10)
		if h := plain.expect(wire.TypeRows); !equalBits(h.rows, reference(in[:20*hidden], 0, 3)[10*hidden:]) {
			t.Error("a session without adapter has other rows")
		}
		if st := n.Adapters(); len(st) != 3 || !st[2].Leaving || st[2].Sessions != 1 {
			t.Errorf("%+v", st)
		}
		user.close()
		if err := <-done; err != nil || len(n.Adapters()) != 2 {
			t.Errorf("%v, %+v", err, n.Adapters())
		}
		if err := n.UnloadAdapter(t.Context(), "songs", func(int) {}); !errors.Is(err, ErrNoAdapter) {
			t.Errorf("unloaded twice: %v", err)
		}

		// Its place is another's now.
		spare := n.room.Spare
		if err := n.LoadAdapter(t.Context(), &blocks.AdapterFile{Name: "odes", Digest: "d4"}); err != nil || n.room.Spare != spare-1000 {
			t.Errorf("%v, spare %d of %d", err, n.room.Spare, spare)
		}
		n.mu.Lock()
		n.room.Spare = 999
		n.mu.Unlock()
		if err := n.LoadAdapter(t.Context(), &blocks.AdapterFile{Name: "epics", Digest: "d5"}); err == nil || !strings.Contains(err.Error(), "not enough memory: the adapter takes") {
			t.Errorf("too large: %v", err)
		}
		plain.close()
		n.idle(t)
	})
}

// A server that moves finishes that first.
func TestAdapterWhileMoving(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.start("a", func(c *Config, _ *node) { c.NumBlocks, c.Balance.Check = 3, time.Hour })
		<-n.Ready()
		n.loader.takes = 2 * time.Second
		moved := make(chan error, 1)
		go func() { moved <- n.Move(t.Context(), swarm.Span{Start: 3, End: 6}, "a test") }()
		synctest.Wait()
		if err := n.LoadAdapter(t.Context(), &blocks.AdapterFile{Name: "songs", Digest: "d3"}); err != nil || n.Status().Span.String() != "3:6" {
			t.Errorf("%v at %v", err, n.Status().Span)
		}
		if err := <-moved; err != nil {
			t.Error(err)
		}
	})
}
