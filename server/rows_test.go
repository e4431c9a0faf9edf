package server

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// The rules for rows, on a session that has computed 5 of 200 positions in epoch 2.
func TestRowsRules(t *testing.T) {
	all := input(3, 220)
	nan := input(3, 1)
	nan[2] = float32(math.NaN())
	frame := func(p *peer, start, n int, change func(*wire.RowsHeader)) []byte {
		h := p.header(start, n, 0)
		if change != nil {
			change(&h)
		}
		return rowsFrame(h, all[start*hidden:(start+n)*hidden])
	}
	for _, c := range []struct {
		name    string
		frame   func(p *peer) []byte
		done    int // position of the Done that answers, -1 for none
		rows    [2]int
		code    swarm.Code
		verdict swarm.Verdict
		blame   swarm.PeerID
		ends    bool
	}{
		{name: "next", frame: func(p *peer) []byte { return frame(p, 5, 2, nil) }, rows: [2]int{5, 7}, done: 7},
		{name: "duplicate", frame: func(p *peer) []byte { return frame(p, 2, 3, nil) }, done: 5},
		{name: "half duplicate", frame: func(p *peer) []byte { return frame(p, 3, 4, nil) }, rows: [2]int{5, 7}, done: 7},
		{name: "older epoch", frame: func(p *peer) []byte { return frame(p, 5, 1, func(h *wire.RowsHeader) { h.Epoch = 1 }) }, done: -1},
		{name: "newer epoch", frame: func(p *peer) []byte { return frame(p, 5, 1, func(h *wire.RowsHeader) { h.Epoch = 3 }) }, code: swarm.CodeGap, verdict: swarm.Replay},
		{name: "gap", frame: func(p *peer) []byte { return frame(p, 6, 1, nil) }, code: swarm.CodeGap, verdict: swarm.Replay},
		{name: "to the last position", frame: func(p *peer) []byte { return frame(p, 5, 195, nil) }, rows: [2]int{5, 200}, done: 200},
		{name: "beyond the last position", frame: func(p *peer) []byte { return frame(p, 5, 196, nil) }, code: swarm.CodeTooLong, verdict: swarm.Caller},
		{name: "some columns missing", frame: func(p *peer) []byte {
			return rowsFrame(p.header(5, 2, 0), all[:2*hidden-1])
		}, code: swarm.CodeBadOutput, verdict: swarm.Caller, blame: "client"},
		{name: "too many columns", frame: func(p *peer) []byte {
			return rowsFrame(p.header(5, 1, 0), all[:2*hidden])
		}, code: swarm.CodeBadOutput, verdict: swarm.Caller, blame: "client"},
		{name: "not finite", frame: func(p *peer) []byte { return rowsFrame(p.header(5, 1, 0), nan) }, code: swarm.CodeBadOutput, verdict: swarm.Caller, blame: "client"},
		{name: "unknown codec", frame: func(p *peer) []byte {
			h := p.header(5, 1, 0)
			h.Codec = 77
			return wire.AppendFrame(nil, wire.TypeRows, h.Append(nil), codec.Append(nil, codec.F32, all[:hidden]))
		}, code: swarm.CodeUnsupported, verdict: swarm.Caller, blame: "client"},
		{name: "another session", frame: func(p *peer) []byte {
			return frame(p, 5, 1, func(h *wire.RowsHeader) { h.Session[0]++ })
		}, code: swarm.CodeBadFrame, verdict: swarm.Caller, ends: true},
		{name: "no rows", frame: func(p *peer) []byte {
			return frame(p, 5, 1, func(h *wire.RowsHeader) { h.Count = 0 })
		}, code: swarm.CodeBadFrame, verdict: swarm.Caller, ends: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				span := swarm.Span{Start: 0, End: 6}
				n := w.serve("a", span, nil)
				p := w.opened(n, "client", span, func(o *wire.Open) { o.Route.Epoch = 2 })
				want := reference(all, 0, 6)
				p.rows(all, 0, 5, 5)
				p.position(5)
				before := n.Status().Steps
				p.write(c.frame(p))
				switch {
				case c.code != "":
					f := p.refusal(c.code, c.verdict)
					if f.Peer != c.blame || f.Epoch != 2 {
						t.Errorf("%+v: want peer %q, epoch 2", f, c.blame)
					}
					if n.Status().Steps != before {
						t.Error("it was computed")
					}
				case c.done < 0:
					p.quiet()
				default:
					from := 5
					for _, h := range p.position(c.done) {
						if h.t == wire.TypeRows {
							if int(h.head.Start) != from || !equalBits(h.rows, want[from*hidden:h.head.End()*hidden]) {
								t.Errorf("got %v, want from %d", h, from)
							}
							from = h.head.End()
						}
					}
					if c.rows[1] > 0 && from != c.rows[1] {
						t.Errorf("outputs up to %d, want %d", from, c.rows[1])
					}
				}
				if c.ends {
					n.idle(t)
					return
				}
				// The session is as it was, and goes on.
				at := 5
				if c.done > 5 {
					at = c.done
				}
				if at < 200 {
					p.rows(all, at, at+1, at)
					if h := p.expect(wire.TypeRows); !equalBits(h.rows, want[at*hidden:(at+1)*hidden]) {
						t.Errorf("after it: %v", h)
					}
				}
				p.close()
				n.idle(t)
			})
		})
	}
}

// Frames that were queued count: what follows them is no gap, what repeats them is dropped.
func TestQueuedRowsCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(_ *Config, n *node) { n.engine.hold, n.engine.began = make(chan struct{}), make(chan int, 99) })
		p := w.opened(n, "client", span, nil)
		in := input(4, 9)
		p.rows(in, 0, 3, 9)
		<-n.engine.began
		p.rows(in, 3, 6, 9)
		p.rows(in, 2, 6, 9) // a duplicate of rows in work and queued
		if d := p.expect(wire.TypeDone).done; d.Position != 0 {
			t.Errorf("%+v", d)
		}
		p.rows(in, 6, 9, 8)
		close(n.engine.hold)
		got, _ := p.until(wire.TypeRows)
		if got.head.Start != 8 || !equalBits(got.rows, reference(in, 0, 6)[8*hidden:]) {
			t.Errorf("%v", got)
		}
		p.close()
	})
}

// Frames of all sessions together are bounded; each session may still have one waiting, and
// all of them are computed.
func TestFramesOfAllSessionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const rows = 40 // of a frame
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(c *Config, n *node) {
			c.Queues.InTotal = 2 * rows * hidden * 4
			n.engine.hold = make(chan struct{})
		})
		in := input(4, 4*rows)
		var peers []*peer
		for i := range 4 {
			p := w.opened(n, "client", span, func(o *wire.Open) { o.Session = wire.SessionID{5, byte(i)} })
			for from := 0; from < 4*rows; from += rows {
				p.rows(in, from, from+rows, from)
			}
			synctest.Wait() // what this session may have waiting is read before the next one comes
			peers = append(peers, p)
		}
		n.mu.Lock()
		frames := 0
		for _, x := range n.byKey {
			frames += len(x.frames)
		}
		n.mu.Unlock()
		if frames != 2+3 { // two of the first session, which reach the bound, and one of each other
			t.Errorf("%d frames wait", frames)
		}
		close(n.engine.hold)
		want := reference(in, 0, 6)
		for i, p := range peers {
			var got []float32
			for _, h := range p.position(4 * rows) {
				if h.t == wire.TypeRows {
					got = append(got, h.rows...)
				}
			}
			if !equalBits(got, want) {
				t.Errorf("session %d: other bits", i)
			}
			p.close()
		}
		n.idle(t)
	})
}

// A frame larger than an iteration is computed in pieces.
func TestFramesLargerThanAnIteration(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(c *Config, _ *node) { c.StepRows = 16 })
		p := w.opened(n, "client", span, nil)
		in := input(4, 50)
		p.rows(in, 0, 50, 0)
		var got []float32
		for _, h := range p.position(50) {
			if h.t == wire.TypeRows {
				got = append(got, h.rows...)
			}
		}
		if !equalBits(got, reference(in, 0, 6)) {
			t.Error("pieces give other bits")
		}
		for _, rows := range n.engine.batches {
			if rows > 16 {
				t.Errorf("an iteration of %d rows", rows)
			}
		}
		p.close()
	})
}

func TestEngineFailures(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*fakeEngine)
		code    swarm.Code
	}{
		"error":      {func(e *fakeEngine) { e.fail = errStale }, swarm.CodeInternal},
		"not finite": {func(e *fakeEngine) { e.poison = true }, swarm.CodeBadOutput},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				span := swarm.Span{Start: 0, End: 6}
				n := w.serve("a", span, nil)
				p := w.opened(n, "client", span, nil)
				in := input(1, 8)
				p.rows(in, 0, 5, 5)
				p.position(5)
				c.breakIt(n.engine)
				p.rows(in, 5, 8, 5)
				if f := p.refusal(c.code, swarm.Elsewhere); f.Peer != "a" {
					t.Errorf("blamed %q", f.Peer)
				}
				n.engine.fail, n.engine.poison = nil, false
				p.rows(in, 5, 8, 7) // nothing was advanced
				if h := p.expect(wire.TypeRows); !equalBits(h.rows, reference(in, 0, 6)[7*hidden:]) {
					t.Errorf("%v", h)
				}
				p.close()
				n.idle(t)
			})
		})
	}
}

// Eight sessions at once, with prompts and decodes mixed, give the bits of one alone, and
// they share iterations.
func TestBatchingKeepsBits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(c *Config, n *node) {
			c.CacheToken, c.StepRows, n.engine.hold = 8*128, 24, make(chan struct{})
		})
		done := make(chan bool)
		for i := range 8 {
			go func() {
				p := w.opened(n, "client", span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{byte(i)}, 100 })
				in := input(i, 60)
				want := reference(in, 0, 6)
				ok, at := true, 3+7*i
				p.rows(in, 0, at, 0)
				for from := 0; at <= 60; {
					h, _ := p.until(wire.TypeRows)
					ok = ok && equalBits(h.rows, want[from*hidden:h.head.End()*hidden])
					if from = h.head.End(); from < at {
						continue
					}
					if at == 60 {
						break
					}
					p.rows(in, at, at+1, at)
					at++
				}
				p.close()
				done <- ok
			}()
		}
		feed := make(chan struct{})
		go func() {
			defer close(feed)
			for {
				select {
				case n.engine.hold <- struct{}{}:
					time.Sleep(time.Millisecond) // an iteration takes time: others queue up
				case <-feed:
					return
				}
			}
		}()
		for range 8 {
			if !<-done {
				t.Error("a session has other bits")
			}
		}
		feed <- struct{}{}
		<-feed
		if st := n.Status(); st.Steps > 200 {
			t.Errorf("%d iterations for 8 sessions of up to 57 decodes: nothing was shared", st.Steps)
		}
		n.idle(t)
	})
}
