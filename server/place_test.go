package server

import (
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// asks opens a session without waiting for the answer.
func (w *world) asks(n *node, from swarm.PeerID, id byte, length int, wait time.Duration) *peer {
	p := w.dial(n, from)
	o := openMsg(swarm.Span{Start: 0, End: modelSize})
	o.Session, o.MaxLength, o.WaitMillis = wire.SessionID{id}, length, int(wait.Milliseconds())
	p.id, p.epoch = o.Session, o.Route.Epoch
	p.send(wire.TypeOpen, o)
	return p
}

// A session that holds more than its share is parked for a newcomer, but not while its rows
// are computed; its client is told to replay it, and the pages go to the newcomer at once.
func TestParkedBetweenSteps(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: modelSize}
		n := w.serve("a", span, func(_ *Config, n *node) { n.engine.hold, n.engine.began = make(chan struct{}), make(chan int, 9) })
		p := w.opened(n, "large", span, func(o *wire.Open) { o.MaxLength = cachePages * 64 })
		p.rows(input(1, 5), 0, 5, 5)
		<-n.engine.began
		time.Sleep(n.cfg.Timeouts.Service)
		late := w.asks(n, "late", 2, 100, time.Minute)
		late.quiet()
		if st := n.Status(); st.Sessions != 2 || st.Cache.Waiting != 1 {
			t.Errorf("%d sessions, %d wait", st.Sessions, st.Cache.Waiting)
		}
		// What it took counts as a prompt, twice: it is left alone for so long.
		n.engine.hold <- struct{}{}
		p.position(5)
		late.quiet()
		start := time.Now()
		f := p.refusal(swarm.CodeNoSession, swarm.Replay)
		if f.Message != "server a parked the session: others need its cache" {
			t.Error(f.Message)
		}
		late.expect(wire.TypeAccept)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("after %v", took)
		}
		late.close()
		n.idle(t)
	})
}

// A session that other stages keep waiting has its cache as long as nobody else needs it, and
// for a lease at least.
func TestWaitingHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, func(c *Config, _ *node) { c.Timeouts.Service = time.Hour })
		first := w.asks(n, "evil", 1, cachePages*64, 10*time.Minute)
		first.expect(wire.TypeAccept)
		second := w.asks(n, "evil", 2, cachePages*64, 10*time.Minute)
		late := w.asks(n, "late", 3, 100, time.Minute)
		start := time.Now()
		late.expect(wire.TypeAccept)
		if took := time.Since(start); took > n.cfg.Timeouts.Lease+time.Second {
			t.Errorf("after %v, the lease is %v", took, n.cfg.Timeouts.Lease)
		}
		first.refusal(swarm.CodeNoSession, swarm.Replay)
		second.quiet()
		for _, p := range []*peer{second, late} {
			p.close()
		}
		synctest.Wait()
		n.idle(t)
	})
}
