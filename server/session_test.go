package server

import (
	"slices"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

func TestOneStage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, nil)
		p := w.opened(n, "client", swarm.Span{Start: 0, End: modelSize}, nil)
		in := input(1, 12)
		want := reference(in, 0, modelSize)
		p.rows(in, 0, 7, 6)
		got := p.expect(wire.TypeRows)
		if got.head.Start != 6 || got.head.Step != 1 || !equalBits(got.rows, want[6*hidden:7*hidden]) {
			t.Fatalf("prefill: %v", got)
		}
		if d := p.expect(wire.TypeDone).done; d.Position != 7 || d.Step != 1 || d.Epoch != 1 {
			t.Fatalf("done %+v", d)
		}
		for pos := 7; pos < 11; pos++ {
			p.rows(in, pos, pos+1, pos)
			if got := p.expect(wire.TypeRows); int(got.head.Start) != pos || !equalBits(got.rows, want[pos*hidden:(pos+1)*hidden]) {
				t.Fatalf("decode %d: %v", pos, got)
			}
			p.expect(wire.TypeDone)
		}
		p.rows(in, 11, 12, 12) // nothing is wanted: nothing but the position is sent
		p.expect(wire.TypeDone)
		if st := n.Sessions(); len(st) != 1 || st[0].Position != 12 || st[0].Peer != "client" || st[0].Steps != 6 || st[0].Bytes == 0 {
			t.Errorf("sessions %+v", st)
		}
		p.close()
		n.idle(t)
	})
}

// The rotation of a session is that of its length, on every stage and after a re-route.
func TestRopeOfTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, nil)
		p := w.opened(n, "client", swarm.Span{Start: 0, End: modelSize}, func(o *wire.Open) { o.MaxLength = 77 })
		in := input(1, 12)
		p.rows(in, 0, 7, 7)
		p.position(7)
		p.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 3, Journal: -1})
		p.epoch = 2
		p.expect(wire.TypeStatus)
		p.rows(in, 3, 4, 4)
		p.position(4)
		if !slices.Equal(n.engine.ropes, []tensor.Rope{fakeRope(77), fakeRope(77)}) {
			t.Errorf("ropes of the steps: %v", n.engine.ropes)
		}
		p.close()
		n.idle(t)
	})
}

// chainOf opens a session through stages a, b, ... of the given borders.
func chainOf(w *world, nodes []*node, borders []int, change func(i int, o *wire.Open)) []*peer {
	w.t.Helper()
	var peers []*peer
	for i, n := range nodes {
		peers = append(peers, w.opened(n, "client", swarm.Span{Start: borders[i], End: borders[i+1]}, func(o *wire.Open) {
			if i > 0 {
				o.Route.Prev = nodes[i-1].deps.Self
			}
			if i+1 < len(nodes) {
				next := nodes[i+1].deps.Self
				o.Route.Next, o.Route.NextRecord = next, []byte("record of "+string(next))
			}
			if change != nil {
				change(i, o)
			}
		}))
	}
	return peers
}

func TestChain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.serve("a", swarm.Span{Start: 0, End: 2}, nil)
		b := w.serve("b", swarm.Span{Start: 1, End: 5}, nil)
		c := w.serve("c", swarm.Span{Start: 4, End: 6}, nil)
		p := chainOf(w, []*node{a, b, c}, []int{0, 2, 4, 6}, func(i int, o *wire.Open) { o.Route.Journal = 0 })
		in := input(2, 40)
		want := reference(in, 0, 6)
		p[0].rows(in, 0, 30, 39)
		p[0].rows(in, 30, 39, 39)
		p[0].position(39)
		p[1].position(39)
		p[2].position(39)
		p[0].rows(in, 39, 40, 39)
		got := p[2].expect(wire.TypeRows)
		if got.head.Start != 39 || !equalBits(got.rows, want[39*hidden:]) {
			t.Fatalf("the chain computed %v", got)
		}
		p[2].expect(wire.TypeDone)
		for _, x := range p {
			x.close()
		}
		a.idle(t)
		b.idle(t)
		c.idle(t)
	})
}

func TestOpenIsRefused(t *testing.T) {
	span := swarm.Span{Start: 1, End: 4}
	for _, c := range []struct {
		name    string
		change  func(*wire.Open)
		prepare func(*world, *node)
		code    swarm.Code
		verdict swarm.Verdict
	}{
		{name: "version", change: func(o *wire.Open) { o.Version = 9 }, code: swarm.CodeVersion, verdict: swarm.Elsewhere},
		{name: "model", change: func(o *wire.Open) { o.UID = "x" }, code: swarm.CodeWrongModel, verdict: swarm.Elsewhere},
		{name: "span outside", change: func(o *wire.Open) { o.Span.End = 5 }, code: swarm.CodeWrongModel, verdict: swarm.Elsewhere},
		{name: "span empty", change: func(o *wire.Open) { o.Span.End = 1 }, code: swarm.CodeWrongModel, verdict: swarm.Elsewhere},
		{name: "another mode", change: func(o *wire.Open) { o.Mode[0]++ }, code: swarm.CodeUnsupported, verdict: swarm.Elsewhere},
		{name: "activations", change: func(o *wire.Open) { o.Activations = "bf8" }, code: swarm.CodeUnsupported, verdict: swarm.Caller},
		{name: "no length", change: func(o *wire.Open) { o.MaxLength = 0 }, code: swarm.CodeBadRequest, verdict: swarm.Caller},
		{name: "longer than the cache", change: func(o *wire.Open) { o.MaxLength = cachePages*64 + 1 }, code: swarm.CodeTooLong, verdict: swarm.Elsewhere},
		{name: "no rotation for the length", change: func(o *wire.Open) { o.MaxLength = unropable }, code: swarm.CodeInternal, verdict: swarm.Elsewhere},
		{name: "many sequences", change: func(o *wire.Open) { o.Sequences = wire.MaxBeams + 1 }, code: swarm.CodeBadRequest, verdict: swarm.Caller},
		{name: "negative sequences", change: func(o *wire.Open) { o.Sequences = -1 }, code: swarm.CodeBadRequest, verdict: swarm.Caller},
		{name: "more sequences than the cache holds", change: func(o *wire.Open) { o.Sequences = cachePages/4 + 1 }, code: swarm.CodeTooLong, verdict: swarm.Elsewhere},
		{name: "huge length", change: func(o *wire.Open) { o.MaxLength = 1 << 40 }, code: swarm.CodeBadRequest, verdict: swarm.Caller},
		{name: "negative wait", change: func(o *wire.Open) { o.WaitMillis = -1 }, code: swarm.CodeBadRequest, verdict: swarm.Caller},
		{name: "negative route", change: func(o *wire.Open) { o.Route.Skip = -1 }, code: swarm.CodeBadFrame, verdict: swarm.Caller},
		{name: "its own successor", change: func(o *wire.Open) { o.Route.Next = "a" }, code: swarm.CodeBadFrame, verdict: swarm.Caller},
		{name: "draining", prepare: func(_ *world, n *node) { n.Drain(0) }, code: swarm.CodeDraining, verdict: swarm.Elsewhere},
		{name: "not online", prepare: func(_ *world, n *node) { n.setState(swarm.Joining) }, code: swarm.CodeNotLoaded, verdict: swarm.Elsewhere},
		{name: "full", prepare: func(w *world, n *node) {
			w.opened(n, "other", span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{9}, cachePages*64 })
		}, code: swarm.CodeCacheFull, verdict: swarm.Elsewhere},
		{name: "many of this peer", prepare: func(w *world, n *node) {
			for i := range 2 {
				w.opened(n, "client", span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{8, byte(i)}, 1 })
			}
		}, code: swarm.CodeTooMany, verdict: swarm.Elsewhere},
		{name: "many in all", prepare: func(w *world, n *node) {
			for i := range 3 {
				w.opened(n, swarm.PeerID(rune('m'+i)), span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{8, byte(i)}, 1 })
			}
		}, code: swarm.CodeTooMany, verdict: swarm.Elsewhere},
		{name: "somebody else's session", prepare: func(w *world, n *node) {
			w.opened(n, "other", span, nil)
		}, code: swarm.CodeUnauthorised, verdict: swarm.Caller},
		{name: "killed", prepare: func(w *world, n *node) {
			w.opened(n, "client", span, nil)
			if id := (wire.SessionID{1}).String(); !n.Kill(id) || n.Kill(id) {
				w.t.Error("kill")
			}
		}, code: swarm.CodeCancelled, verdict: swarm.Elsewhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", span, func(c *Config, _ *node) {
					c.PeerSessions, c.MaxSessions = 2, 3
					c.Timeouts.Service = time.Hour // nobody is parked
				})
				if c.prepare != nil {
					c.prepare(w, n)
				}
				before := n.Status().Cache.UsedTokens
				p := w.dial(n, "client")
				o := openMsg(span)
				if c.change != nil {
					c.change(&o)
				}
				p.send(wire.TypeOpen, o)
				p.refusal(c.code, c.verdict)
				if after := n.Status().Cache.UsedTokens; after != before {
					t.Errorf("%d tokens of cache are held, %d before", after, before)
				}
				p.close()
			})
		})
	}
}

// CASE-018: a session that must wait gets cache when another ends, one that waits too
// long is told so, one that can never fit is refused at once with the numbers.
func TestOpenWaitsForCache(t *testing.T) {
	span := swarm.Span{Start: 0, End: 6}
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", span, func(c *Config, _ *node) { c.Timeouts.Service, c.Timeouts.Lease = time.Hour, time.Hour })
		first := w.opened(n, "a1", span, func(o *wire.Open) { o.MaxLength = cachePages * 64 })
		open := func(from swarm.PeerID, id byte, length int, wait time.Duration) *peer {
			p := w.dial(n, from)
			o := openMsg(span)
			o.Session, o.MaxLength, o.WaitMillis = wire.SessionID{id}, length, int(wait.Milliseconds())
			p.send(wire.TypeOpen, o)
			return p
		}
		start := time.Now()
		open("b", 2, 32, 5*time.Second).refusal(swarm.CodeCacheFull, swarm.Elsewhere)
		if took := time.Since(start); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("refused after %v, want 5 s", took)
		}
		start = time.Now()
		f := open("c", 3, cachePages*64+1, 5*time.Second).refusal(swarm.CodeTooLong, swarm.Elsewhere)
		if took := time.Since(start); took > time.Second || !slices.Contains([]string{"server a: cannot reserve cache for 1025 tokens: the session is longer than this server allows (at most 1024 tokens)"}, f.Message) {
			t.Errorf("refused after %v: %s", took, f.Message)
		}
		waiting := open("d", 4, 32, time.Minute)
		gone := open("e", 5, 32, time.Minute)
		waiting.quiet()
		gone.close()
		first.close()
		waiting.expect(wire.TypeAccept)
		waiting.close()
		n.idle(t)
	})
}

func TestLeaseLapses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		p := w.dial(n, "client")
		p.send(wire.TypeOpen, openMsg(span))
		p.expect(wire.TypeAccept)
		p.rows(input(1, 3), 0, 3, 0) // kept, but not computed before the Commit
		p.quiet()
		p.refusal(swarm.CodeTimeout, swarm.Again)
		n.idle(t)
	})
}

// Cache is kept for as long as another stage may wait for its own.
func TestLeaseOutlastsWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, nil)
		p := w.dial(n, "client")
		o := openMsg(span)
		o.WaitMillis = 60_000
		p.id, p.epoch = o.Session, o.Route.Epoch
		p.send(wire.TypeOpen, o)
		p.expect(wire.TypeAccept)
		time.Sleep(n.cfg.Timeouts.Lease + 50*time.Second)
		p.quiet()
		p.write(wire.AppendFrame(nil, wire.TypeCommit))
		p.rows(input(1, 3), 0, 3, 0)
		p.until(wire.TypeRows)
		p.close()
		n.idle(t)
	})
}

func TestSessionEnds(t *testing.T) {
	span := swarm.Span{Start: 0, End: 6}
	for _, c := range []struct {
		name string
		end  func(*world, *node, *peer)
	}{
		{"close", func(_ *world, _ *node, p *peer) { p.stream.Close() }},
		{"reset", func(_ *world, _ *node, p *peer) { p.stream.Reset() }},
		{"kill", func(_ *world, n *node, p *peer) {
			n.Kill(p.id.String())
			p.refusal(swarm.CodeCancelled, swarm.Elsewhere)
		}},
		{"opened anew", func(w *world, n *node, p *peer) {
			w.opened(n, "client", span, nil).close()
			p.refusal(swarm.CodeNoSession, swarm.Replay)
		}},
		{"idle", func(_ *world, n *node, p *peer) {
			time.Sleep(n.cfg.Timeouts.Idle + time.Second)
			p.refusal(swarm.CodeNoSession, swarm.Replay)
		}},
		{"drain", func(_ *world, n *node, p *peer) {
			n.Drain(0)
			p.quiet()
			p.refusal(swarm.CodeDraining, swarm.Elsewhere)
			n.Resume()
		}},
		{"garbage", func(_ *world, n *node, p *peer) {
			p.write([]byte{1, 0, 0, 0, 200, 7})
			p.refusal(swarm.CodeBadFrame, swarm.Caller)
		}},
		{"a frame for clients", func(_ *world, n *node, p *peer) {
			p.write(wire.AppendFrame(nil, wire.TypeDone, make([]byte, wire.DoneSize)))
			p.refusal(swarm.CodeBadFrame, swarm.Caller)
		}},
		{"the client does not read", func(_ *world, n *node, p *peer) {
			in := input(1, 1)
			for range 30 { // duplicates: every one is answered
				for range 3000 {
					p.rows(in, 0, 1, 0)
					p.write(wire.AppendFrame(nil, wire.TypeAsk))
				}
			}
			p.stream.Reset()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", span, nil)
				p := w.opened(n, "client", span, nil)
				p.rows(input(1, 5), 0, 5, 5)
				p.position(5)
				c.end(w, n, p)
				n.idle(t)
				// The server goes on serving.
				w.opened(n, "other", span, func(o *wire.Open) { o.Session = wire.SessionID{7} }).close()
			})
		})
	}
}

// Ask is answered at once, also while rows are computed.
func TestAskWhileComputing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(_ *Config, n *node) { n.engine.hold, n.engine.began = make(chan struct{}), make(chan int, 9) })
		p := w.opened(n, "client", span, nil)
		p.rows(input(1, 5), 0, 5, 5)
		<-n.engine.began
		start := time.Now()
		p.write(wire.AppendFrame(nil, wire.TypeAsk))
		if st := p.expect(wire.TypeStatus).status; st.Position != 0 || st.Epoch != 1 || time.Since(start) != 0 {
			t.Errorf("%+v after %v", st, time.Since(start))
		}
		close(n.engine.hold)
		p.position(5)
		p.write(wire.AppendFrame(nil, wire.TypeAsk))
		if st := p.expect(wire.TypeStatus).status; st.Position != 5 || st.Step != 1 {
			t.Errorf("%+v", st)
		}
		p.close()
	})
}

// A session that ends while its rows are computed keeps its pages until that is over.
func TestPagesOutliveTheirStep(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(_ *Config, n *node) { n.engine.hold, n.engine.began = make(chan struct{}), make(chan int, 9) })
		p := w.opened(n, "client", span, nil)
		p.rows(input(1, 5), 0, 5, 5)
		<-n.engine.began
		p.close()
		time.Sleep(time.Second)
		if st := n.Status(); st.Sessions != 0 || st.Cache.UsedTokens == 0 {
			t.Errorf("%d sessions, %d tokens", st.Sessions, st.Cache.UsedTokens)
		}
		close(n.engine.hold)
		n.idle(t)
	})
}

// A large frame that is under way when its session ends does not keep the stream: the client
// has its time to read why, and no more.
func TestEndWithinALargeFrame(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: 6}, nil)
		c := w.stage(n, func(o *wire.Open) { o.Route.Next, o.Route.NextRecord = "", nil })
		frame := wire.AppendFrame(nil, wire.TypeRows, make([]byte, 200<<10))
		c.write(frame[:100<<10])
		time.Sleep(time.Second)
		if !n.Kill(c.id.String()) {
			t.Fatal("there is no session")
		}
		c.write(frame[100<<10:])
		begin := time.Now()
		c.refusal(swarm.CodeCancelled, swarm.Elsewhere)
		c.ended()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the stream ended after %v", took)
		}
		n.idle(t)
	})
}

// Frames without rows are bounded in time: who sends more loses the session, and who asks now and
// then does not.
func TestControlFrames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		p := w.opened(n, "client", middle, nil)
		ask := wire.AppendFrame(nil, wire.TypeAsk)
		for range 1000 { // for longer than the burst lasts
			p.write(ask)
			<-time.After(time.Second / controlRate)
		}
		p.rows(input(1, 10), 0, 10, 10)
		p.position(10)
		p.close()
		n.idle(t)

		p = w.opened(n, "client", middle, nil)
		p.write(slices.Repeat(ask, 2*controlBurst))
		for {
			h := p.next()
			if h.t == wire.TypeFail {
				if h.fail.Code != swarm.CodeBadFrame {
					t.Errorf("%v", h)
				}
				break
			}
		}
		p.close()
		n.idle(t)
	})
}
