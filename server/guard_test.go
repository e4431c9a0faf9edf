package server

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// A panic in an iteration ends its sessions with an error that sends them elsewhere, and the
// blocks are loaded anew: the process and all else of the server go on.
func TestPanic(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		n.loader.takes = time.Second
		old := n.engine
		p := w.opened(n, "client", span, nil)
		idle := w.opened(n, "other", span, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		old.panics = true
		in := input(1, 3)
		p.rows(in, 0, 3, 0)
		for _, x := range []*peer{p, idle} {
			if f := x.refusal(swarm.CodeInternal, swarm.Elsewhere); f.Peer != "a" {
				t.Errorf("blamed %q", f.Peer)
			}
			x.close()
		}
		synctest.Wait()
		if why := n.Status().Trouble; !strings.Contains(why, "a fault of the device") || w.last("a").State != swarm.Joining {
			t.Errorf("trouble %q, announced %v", why, w.last("a").State)
		}
		r := w.dial(n, "client")
		r.send(wire.TypeOpen, openMsg(span))
		r.refusal(swarm.CodeNotLoaded, swarm.Elsewhere)
		time.Sleep(3 * time.Second)
		if st := n.Status(); st.State != swarm.Online || st.Trouble != "" || !old.closed || n.loader.engine == old {
			t.Errorf("after the restart: %v, %q; old engine closed: %v", st.State, st.Trouble, old.closed)
		}
		q := w.opened(n, "client", span, func(o *wire.Open) { o.Session = wire.SessionID{3} })
		q.rows(in, 0, 3, 2)
		if h := q.expect(wire.TypeRows); !equalBits(h.rows, reference(in, 0, 6)[2*hidden:]) {
			t.Errorf("%v", h)
		}
		q.close()
		n.idle(t)
	})
}

// One failed iteration is its sessions' alone; three in a row are the device's.
func TestErrorsInARow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		old := n.engine
		p := w.opened(n, "client", span, nil)
		old.fail = errors.New("the device is lost")
		for range faultsMost {
			p.rows(input(1, 1), 0, 1, 0)
			synctest.Wait()
		}
		p.refusal(swarm.CodeInternal, swarm.Elsewhere)
		time.Sleep(5 * time.Second)
		if n.Status().State != swarm.Online || n.loader.engine == old {
			t.Errorf("not restarted: %v", n.Status().State)
		}
		p.close()
	})
}

// A server that crashes whenever it computes ends in one clear state, and says why; its operator
// can have it begin again.
func TestCrashLoop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		for i := 0; n.Status().State != swarm.Offline; i++ {
			if i > 2*crashesMost {
				t.Fatal("it goes on for ever")
			}
			n.loader.engine.panics = true
			p := w.opened(n, "client", span, func(o *wire.Open) { o.Session = wire.SessionID{byte(i + 1)} })
			p.rows(input(1, 1), 0, 1, 0)
			p.refusal(swarm.CodeInternal, swarm.Elsewhere)
			p.close()
			for at := time.Now(); n.Status().State == swarm.Joining && time.Since(at) < 2*time.Minute; {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(3 * time.Second)
		if why := n.Status().Trouble; !strings.Contains(why, "given up after 6 failures") || w.last("a").State != swarm.Offline {
			t.Errorf("trouble %q, announced %v", why, w.last("a").State)
		}
		time.Sleep(time.Hour)
		if n.Status().State != swarm.Offline {
			t.Error("it flaps")
		}
		if err := n.Restart(t.Context()); err != nil || n.Status().State != swarm.Online || n.Status().Trouble != "" {
			t.Errorf("%v: %+v", err, n.Status())
		}
		w.opened(n, "client", span, nil).close()
	})
}

// An iteration that hangs is found out: its sessions go elsewhere, others are not taken, and
// once it has come to an end the server serves again.
func TestHang(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		p := w.opened(n, "client", span, nil)
		hold := make(chan struct{})
		n.engine.hold = hold
		start := time.Now()
		p.rows(input(1, 1), 0, 1, 0)
		time.Sleep(55 * time.Second)
		if n.Status().Trouble != "" {
			t.Error("it is given up too early")
		}
		p.refusal(swarm.CodeInternal, swarm.Elsewhere)
		if took := time.Since(start); took > 62*time.Second {
			t.Errorf("found out after %v", took)
		}
		p.close()
		time.Sleep(time.Second)
		if why := n.Status().Trouble; !strings.Contains(why, "hangs since") || w.last("a").State != swarm.Offline {
			t.Errorf("trouble %q, announced %v", why, w.last("a").State)
		}
		if err := n.Restart(t.Context()); swarm.CodeOf(err) != swarm.CodeNotLoaded || !strings.Contains(err.Error(), "restart the process") {
			t.Errorf("restart: %v", err)
		}
		time.Sleep(time.Minute)
		close(hold)
		time.Sleep(3 * time.Second)
		if st := n.Status(); st.State != swarm.Online || st.Trouble != "" {
			t.Errorf("%v, trouble %q", st.State, st.Trouble)
		}
	})
}

// An operator's restart hands sessions over first.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		old := n.engine
		p := w.opened(n, "client", span, func(o *wire.Open) { o.Features = wire.FeatureHandover })
		done := make(chan error, 1)
		go func() { done <- n.Restart(t.Context()) }()
		if h := p.next(); h.t != wire.TypeLeaving {
			t.Fatalf("got %v", h)
		}
		p.close()
		if err := <-done; err != nil || !old.closed || n.Status().State != swarm.Online {
			t.Errorf("%v: %v", err, n.Status().State)
		}
	})
}
