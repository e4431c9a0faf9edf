package server

import (
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// A new epoch cuts the history, throws away what waits or is computed, and gives the rows
// after it the bits they would have had without it.
func TestRoute(t *testing.T) {
	for _, c := range []struct {
		name     string
		truncate int
		position int
	}{
		{"keeps all", 200, 5},
		{"at the position", 5, 5},
		{"back", 3, 3},
		{"to nothing", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				span := swarm.Span{Start: 0, End: 6}
				n := w.serve("a", span, func(_ *Config, n *node) { n.engine.hold, n.engine.began = make(chan struct{}, 99), make(chan int, 99) })
				p := w.opened(n, "client", span, nil)
				old, in := input(1, 12), input(2, 12)
				copy(in[:c.position*hidden], old) // the history that is kept
				n.engine.hold <- struct{}{}
				p.rows(old, 0, 5, 0)
				p.position(5)
				<-n.engine.began
				p.rows(old, 5, 7, 0)
				<-n.engine.began // in an iteration when the route changes
				p.rows(old, 7, 9, 0)
				p.send(wire.TypeRoute, wire.Route{Epoch: 4, Truncate: c.truncate, Journal: -1})
				if st := p.expect(wire.TypeStatus).status; st.Epoch != 4 || st.Position != c.position {
					t.Fatalf("%+v, want epoch 4 at %d", st, c.position)
				}
				p.rows(old, 9, 10, 0) // still of the old epoch
				p.epoch = 4
				p.rows(in, c.position, 12, c.position)
				close(n.engine.hold)
				h := p.expect(wire.TypeRows)
				if want := reference(in, 0, 6)[c.position*hidden:]; h.head.Epoch != 4 || int(h.head.Start) != c.position || !equalBits(h.rows, want) {
					t.Errorf("after the route: %v", h)
				}
				p.position(12)
				p.send(wire.TypeRoute, wire.Route{Epoch: 4, Journal: -1})
				p.refusal(swarm.CodeStaleEpoch, swarm.Caller)
				p.close()
				n.idle(t)
			})
		})
	}
}

// Skip tells which outputs the successor lacks; a new epoch goes out on a new stream.
func TestRouteToAnotherSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		first, second := w.successor("next"), w.successor("second")
		c := w.stage(n, nil)
		in := input(3, 12)
		want := reference(in, 2, 4)
		c.rows(in, 0, 6, 11)
		out := (<-first).hello(1)
		out.expect(wire.TypeRows)
		c.position(6)
		c.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 4, Next: "second", NextRecord: []byte("record of second"), Skip: 8, Journal: -1})
		c.until(wire.TypeStatus)
		out.ended()
		c.epoch = 2
		c.rows(in, 4, 7, 11) // all before Skip: computed, not pushed
		c.position(7)
		c.rows(in, 7, 12, 11)
		out = (<-second).hello(2)
		if h := out.expect(wire.TypeRows); h.head.Start != 8 || h.head.Epoch != 2 || !equalBits(h.rows, want[8*hidden:]) {
			t.Errorf("pushed %v", h)
		}
		c.position(12)
		c.send(wire.TypeRoute, wire.Route{Epoch: 3, Truncate: 10, Journal: -1}) // now the last stage
		c.until(wire.TypeStatus)
		c.epoch = 3
		c.rows(in, 10, 12, 11)
		if h := c.expect(wire.TypeRows); h.head.Start != 11 || !equalBits(h.rows, want[11*hidden:]) {
			t.Errorf("result %v", h)
		}
		c.close()
		n.idle(t)
	})
}

// collect reads journal rows until all of [from, to) are there, and checks their bits.
func (p *peer) collect(want []float32, epoch uint32, from, to int) {
	p.t.Helper()
	for missing := to - from; missing > 0; {
		h, _ := p.until(wire.TypeJournal)
		if h.head.Epoch != epoch || int(h.head.Start) < from || h.head.End() > to || !equalBits(h.rows, want[int(h.head.Start)*hidden:h.head.End()*hidden]) {
			p.t.Fatalf("journal %v, want %d:%d of epoch %d", h, from, to, epoch)
		}
		missing -= int(h.head.Count)
	}
}

func TestJournal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		next := w.successor("next")
		in := input(4, 30)
		want := reference(in, 2, 4)
		c := w.stage(n, func(o *wire.Open) { o.Route.Journal = 4 })
		c.rows(in, 0, 20, 19)
		c.collect(want, 1, 4, 20)
		c.rows(in, 20, 21, 20)
		got := []wire.Type{c.next().t, c.next().t} // the push goes before both
		if got[0] != wire.TypeDone || got[1] != wire.TypeJournal {
			t.Errorf("a decode is answered with types %v, want Done, then Journal", got)
		}
		(<-next).hello(1)
		c.close()
		n.idle(t)
	})
}

// Prefill journals wait while pushes wait. What is still true after a route goes out under
// the new epoch.
func TestJournalWaitsForPushes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) { c.CacheToken, c.Queues.Out = 1<<18, 4<<20 })
		next := w.successor("next")
		c := w.stage(n, func(o *wire.Open) { o.MaxLength, o.Route.Journal = 150_000, 0 })
		const chunk = 10_000
		in := input(4, 12*chunk)
		want := reference(in, 2, 4)
		for i := range 12 { // more than the push stream takes
			c.rows(in, i*chunk, (i+1)*chunk, 0)
		}
		for _, h := range c.position(12 * chunk) {
			if h.t == wire.TypeJournal && int(h.head.Start) >= 11*chunk {
				t.Errorf("%v while pushes wait", h)
			}
		}
		c.quiet()
		c.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 11*chunk + 600, Next: "next", NextRecord: []byte("record of next"), Journal: 11 * chunk, Skip: 12 * chunk})
		c.until(wire.TypeStatus)
		// The pushes of the old epoch are gone, so the journal may go.
		h, _ := c.until(wire.TypeJournal)
		if h.head.Epoch != 2 || int(h.head.Start) != 11*chunk || h.head.End() > 11*chunk+600 || !equalBits(h.rows, want[11*chunk*hidden:h.head.End()*hidden]) {
			t.Errorf("after the route: %v", h)
		}
		c.quiet()
		(<-next).ended()
		c.close()
		n.idle(t)
	})
}

// A full journal drops rows; it stops nobody.
func TestJournalIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) { c.CacheToken, c.Queues.Journal, c.Queues.JournalRate = 1<<16, 64<<10, 1 })
		next := w.successor("next")
		c := w.stage(n, func(o *wire.Open) { o.MaxLength, o.Route.Journal = 50_000, 0 })
		in := input(4, 40_000)
		start := time.Now()
		for i := range 40 {
			c.rows(in, i*1000, (i+1)*1000, 0)
		}
		go func() {
			out := (<-next).hello(1)
			for {
				if _, err := out.read(time.Hour); err != nil {
					return
				}
			}
		}()
		c.position(40_000)
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
		n.mu.Lock()
		for _, x := range n.byKey {
			if x.out.journalBytes > 64<<10 {
				t.Errorf("%d bytes of journal", x.out.journalBytes)
			}
		}
		n.mu.Unlock()
		synctest.Wait() // for the successor to have read
		c.close()
		synctest.Wait()
		n.idle(t)
	})
}

// The journals of all sessions together are bounded as well.
func TestJournalsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const most = 48 << 10
		n := w.serve("a", middle, func(c *Config, _ *node) {
			c.CacheToken, c.Queues.Journal, c.Queues.JournalTotal, c.Queues.JournalRate = 1<<16, 32<<10, most, 1
		})
		next := w.successor("next")
		in := input(4, 4000)
		var clients []*peer
		for i := range 3 {
			c := w.stage(n, func(o *wire.Open) { o.Session, o.MaxLength, o.Route.Journal = wire.SessionID{9, byte(i)}, 5000, 0 })
			go func() {
				out := <-next
				for {
					if _, _, err := out.r.Next(); err != nil {
						return
					}
				}
			}()
			for from := 0; from < 4000; from += 1000 {
				c.rows(in, from, from+1000, 0)
			}
			c.position(4000)
			clients = append(clients, c)
		}
		n.mu.Lock()
		sum := 0
		for _, x := range n.byKey {
			sum += x.out.journalBytes
		}
		if sum != n.journals || sum > most || sum < most/2 {
			t.Errorf("%d bytes of journal, counted as %d, want up to %d", sum, n.journals, most)
		}
		n.mu.Unlock()
		synctest.Wait()
		for _, c := range clients {
			c.close()
		}
		n.idle(t)
	})
}

func TestNoJournal(t *testing.T) {
	for name, change := range map[string]func(*wire.Open){
		"not asked for":  func(o *wire.Open) {},
		"the last stage": func(o *wire.Open) { o.Route.Next, o.Route.Journal = "", 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", middle, nil)
				w.successor("next")
				c := w.stage(n, change)
				in := input(4, 9)
				c.rows(in, 0, 8, 9)
				c.rows(in, 8, 9, 9)
				c.position(9)
				c.quiet()
				c.close()
			})
		})
	}
}
