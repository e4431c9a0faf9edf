package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

var middle = swarm.Span{Start: 2, End: 4}

// stage opens a session on blocks 2:4 between predecessor "prev" and successor "next".
func (w *world) stage(n *node, change func(*wire.Open)) *peer {
	w.t.Helper()
	return w.opened(n, "client", middle, func(o *wire.Open) {
		o.Route.Prev, o.Route.Next, o.Route.NextRecord = "prev", "next", []byte("record of next")
		if change != nil {
			change(o)
		}
	})
}

// pushTo opens a push stream to a server and says hello.
func (w *world) pushTo(n *node, from swarm.PeerID, epoch uint32) *peer {
	w.t.Helper()
	a, b := wire.Pipe()
	w.tasks.Go(func() { n.ServePush(w.ctx, from, b) })
	p := &peer{t: w.t, stream: a, r: rowsReader(a), id: wire.SessionID{1}, epoch: epoch}
	p.send(wire.TypeHello, wire.Hello{Version: wire.Version, Session: p.id, Epoch: epoch})
	return p
}

// ended checks that the server has reset a stream.
func (p *peer) ended() {
	p.t.Helper()
	if h, err := p.read(time.Minute); err == nil {
		p.t.Fatalf("got %v, want the end", h)
	}
}

// successor stands for the next stage: its push streams can be read.
func (w *world) successor(id swarm.PeerID) chan *peer {
	streams := make(chan *peer, 8)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[id] = &node{accept: func(_ swarm.PeerID, s wire.Stream) { streams <- &peer{t: w.t, stream: s, r: rowsReader(s)} }}
	return streams
}

// hello reads the first frame of a push stream.
func (p *peer) hello(epoch uint32) *peer {
	p.t.Helper()
	t, b, err := p.r.Next()
	var h wire.Hello
	if err != nil || t != wire.TypeHello || wire.Decode(t, b, &h) != nil {
		p.t.Fatalf("type %d, %v: want hello", t, err)
	}
	if h.Version != wire.Version || h.Session != (wire.SessionID{1}) || h.Epoch != epoch {
		p.t.Fatalf("%+v, want epoch %d", h, epoch)
	}
	return p
}

func TestRowsComeFromThePredecessor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		next := w.successor("next")
		c := w.stage(n, func(o *wire.Open) { o.Route.Skip = 2 })
		in := input(5, 10)
		want := reference(in, 2, 4)
		prev := w.pushTo(n, "prev", 1)
		prev.rows(in, 0, 5, 4)
		out := (<-next).hello(1)
		if h := out.expect(wire.TypeRows); h.head.Start != 2 || h.head.Want != 4 || h.head.Step != 1 || !equalBits(h.rows, want[2*hidden:5*hidden]) {
			t.Errorf("pushed %v", h) // rows before Skip are not
		}
		c.position(5)
		c.rows(in, 5, 6, 5) // the client may send as well
		if h := out.expect(wire.TypeRows); h.head.Start != 5 || !equalBits(h.rows, want[5*hidden:6*hidden]) {
			t.Errorf("pushed %v", h)
		}
		c.position(6)
		prev.rows(in, 8, 9, 5)
		c.refusal(swarm.CodeGap, swarm.Replay)
		c.close()
		prev.ended()
		out.ended()
		n.idle(t)
	})
}

// Whoever is not the predecessor of the present epoch gets nothing in.
func TestStrangersMayNotPush(t *testing.T) {
	in := input(5, 3)
	for _, c := range []struct {
		name string
		push func(*world, *node) *peer
	}{
		{"another peer", func(w *world, n *node) *peer { return w.pushTo(n, "stranger", 3) }},
		{"an older epoch", func(w *world, n *node) *peer { return w.pushTo(n, "prev", 2) }},
		{"an epoch that never comes", func(w *world, n *node) *peer { return w.pushTo(n, "prev", 4) }},
		{"rows of another epoch", func(w *world, n *node) *peer {
			p := w.pushTo(n, "prev", 3)
			p.epoch = 2
			return p
		}},
		{"an unknown session", func(w *world, n *node) *peer {
			p := w.pushTo(n, "x", 0)
			p.ended()
			a, b := wire.Pipe()
			w.tasks.Go(func() { n.ServePush(w.ctx, "prev", b) })
			p = &peer{t: w.t, stream: a, r: rowsReader(a), epoch: 3}
			p.send(wire.TypeHello, wire.Hello{Version: wire.Version, Session: wire.SessionID{77}, Epoch: 3})
			return p
		}},
		{"another version", func(w *world, n *node) *peer {
			a, b := wire.Pipe()
			w.tasks.Go(func() { n.ServePush(w.ctx, "prev", b) })
			p := &peer{t: w.t, stream: a, r: rowsReader(a), id: wire.SessionID{1}, epoch: 3}
			p.send(wire.TypeHello, wire.Hello{Version: wire.Version + 1, Session: p.id, Epoch: 3})
			return p
		}},
		{"no hello", func(w *world, n *node) *peer {
			a, b := wire.Pipe()
			w.tasks.Go(func() { n.ServePush(w.ctx, "prev", b) })
			return &peer{t: w.t, stream: a, r: rowsReader(a), id: wire.SessionID{1}, epoch: 3}
		}},
		{"nothing at all", func(w *world, n *node) *peer {
			a, b := wire.Pipe()
			w.tasks.Go(func() { n.ServePush(w.ctx, "prev", b) })
			p := &peer{t: w.t, stream: a, r: rowsReader(a)}
			p.ended()
			return p
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", middle, nil)
				w.stage(n, func(o *wire.Open) { o.Route.Epoch = 3 })
				p := c.push(w, n)
				p.stream.Write(rowsFrame(p.header(0, 3, 0), in))
				p.ended()
				if st := n.Sessions()[0]; st.Position != 0 || st.Steps != 0 {
					t.Errorf("it got in: %+v", st)
				}
			})
		})
	}
}

// A predecessor may learn of an epoch, or of the session, before its successor does.
func TestEarlyHello(t *testing.T) {
	in := input(6, 4)
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		w.successor("next")
		early := w.pushTo(n, "prev", 1)
		early.rows(in, 0, 2, 0)
		synctest.Wait()
		c := w.stage(n, nil)
		c.position(2)

		early = w.pushTo(n, "prev2", 2)
		early.rows(in, 2, 4, 0)
		c.quiet()
		c.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 2, Prev: "prev2", Next: "next", NextRecord: []byte("record of next"), Journal: -1})
		if st := c.expect(wire.TypeStatus).status; st.Epoch != 2 || st.Position != 2 {
			t.Errorf("%+v", st)
		}
		c.position(4)
		c.close()
		n.idle(t)
	})
}

// A broken frame of the predecessor is told to the client, with the name of the culprit.
func TestBadPredecessor(t *testing.T) {
	for name, frame := range map[string][]byte{
		"no frame":   {0, 0, 0, 0, 99},
		"wrong type": wire.AppendFrame(nil, wire.TypeAsk),
		"short rows": wire.AppendFrame(nil, wire.TypeRows, make([]byte, 7)),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", middle, nil)
				w.successor("next")
				c := w.stage(n, nil)
				prev := w.pushTo(n, "prev", 1)
				prev.write(frame)
				if f := c.refusal(swarm.CodeBadFrame, swarm.Elsewhere); f.Peer != "prev" {
					t.Errorf("blamed %q", f.Peer)
				}
				prev.ended()
			})
		})
	}
}

func TestSuccessorIsLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		record string
		code   swarm.Code
		accept func(w *world)
	}{
		{"refuses", "record of next", swarm.CodePeerLost, nil},
		{"bad signature", "x", swarm.CodeUnauthorised, nil},
		{"record of another", "record of other", swarm.CodeUnauthorised, nil},
		{"unknown without record", "", swarm.CodeUnauthorised, nil},
		{"resets", "record of next", swarm.CodePeerLost, func(w *world) {
			w.servers["next"] = &node{accept: func(_ swarm.PeerID, s wire.Stream) { s.Reset() }}
		}},
		{"does not read", "record of next", swarm.CodePeerLost, func(w *world) {
			w.servers["next"] = &node{accept: func(swarm.PeerID, wire.Stream) {}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", middle, func(c *Config, _ *node) { c.CacheToken, c.Queues.Out = 1<<17, 1<<16 })
				if c.accept != nil {
					c.accept(w)
				}
				p := w.opened(n, "client", middle, func(o *wire.Open) {
					o.MaxLength, o.Route.Next, o.Route.NextRecord = 1<<17, "next", []byte(c.record)
				})
				const chunk = 1000
				in := input(7, chunk)
				start := time.Now()
				for i := range 100 {
					h := p.header(i*chunk, chunk, 0)
					p.stream.SetWriteDeadline(time.Now().Add(time.Minute))
					if _, err := p.stream.Write(rowsFrame(h, in)); err != nil {
						break // the server has stopped reading
					}
					synctest.Wait()
				}
				if f := p.refusal(c.code, swarm.Elsewhere); f.Peer != "next" {
					t.Errorf("blamed %q", f.Peer)
				}
				if took := time.Since(start); took > 2*n.cfg.Timeouts.Write {
					t.Errorf("noticed after %v", took)
				}
				p.write(wire.AppendFrame(nil, wire.TypeAsk))
				p.until(wire.TypeStatus)
				p.close()
				n.idle(t)
			})
		})
	}
}

// At the commit all stages have accepted: the stage connects before there are rows.
func TestPushStreamIsOpenedAtTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		next := w.successor("next")
		c := w.stage(n, nil)
		out := (<-next).hello(1)
		c.rows(input(1, 3), 0, 3, 0)
		out.expect(wire.TypeRows)
		c.close()
		n.idle(t)
	})
}

// The compute loop never waits for a slow successor: its session is left out, others go
// on, and the sender of the slow one is stopped.
func TestSlowSuccessorStopsOnlyItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) {
			c.CacheToken, c.Queues.Out, c.Queues.In, c.Timeouts.Write = 1<<18, 64<<10, 64<<10, 10*time.Minute
		})
		next := w.successor("next")
		c := w.stage(n, func(o *wire.Open) { o.MaxLength = 200_000 })
		prev := w.pushTo(n, "prev", 1)
		const chunk = 1000
		in := input(1, chunk)
		sent := 0
		for ; sent < 200; sent++ {
			prev.stream.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := prev.stream.Write(rowsFrame(prev.header(sent*chunk, chunk, 0), in)); err != nil {
				break
			}
		}
		// Two streams of 1 MiB, two queues of 64 KiB and some frames in hands.
		if bytes := sent * chunk * hidden * 4; bytes > 3<<20 {
			t.Errorf("%d bytes were taken from the predecessor of a session whose successor does not read", bytes)
		}
		other := w.opened(n, "other", middle, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		start := time.Now()
		other.rows(in, 0, 50, 49)
		other.expect(wire.TypeRows)
		if took := time.Since(start); took > time.Second {
			t.Errorf("another session waited %v", took)
		}
		c.write(wire.AppendFrame(nil, wire.TypeAsk))
		c.until(wire.TypeStatus)
		out := (<-next).hello(1)
		for i := range sent {
			if h := out.expect(wire.TypeRows); int(h.head.Start) > i*chunk {
				t.Fatalf("got %v, want from %d", h, i*chunk)
			}
		}
		c.close()
		other.close()
		n.idle(t)
	})
}

// A client that does not read stops its own session only.
func TestSlowClientStopsOnlyItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) { c.CacheToken, c.Queues.Out, c.Queues.In = 1<<18, 64<<10, 64<<10 })
		slow := w.opened(n, "client", middle, func(o *wire.Open) { o.MaxLength = 200_000 })
		const chunk = 1000
		in := input(1, chunk)
		for i := range 200 {
			slow.stream.SetWriteDeadline(time.Now().Add(5 * time.Second))
			if _, err := slow.stream.Write(rowsFrame(slow.header(i*chunk, chunk, 0), in)); err != nil {
				break
			}
		}
		other := w.opened(n, "other", middle, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		other.rows(in, 0, 5, 4)
		other.expect(wire.TypeRows)
		time.Sleep(2 * n.cfg.Timeouts.Write)
		if st := n.Sessions(); len(st) != 1 || st[0].Peer != "other" {
			t.Errorf("a client that takes nothing keeps its session: %s", fmt.Sprint(st))
		}
		other.close()
		n.idle(t)
	})
}
