package server

import (
	"errors"
	"testing"
	"testing/synctest"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// beams sends a step of a search: a row for each parent.
func (p *peer) beams(rows []float32, fork, step int, parents ...uint8) {
	p.t.Helper()
	h := p.header(fork+step*len(parents), len(parents), fork)
	h.Beams = wire.Beams{N: uint8(len(parents)), Fork: uint32(fork)}
	copy(h.Beams.Parents[:], parents)
	p.write(rowsFrame(h, rows[:len(parents)*hidden]))
}

// Each row of a step is that of its own sequence, computed from its start.
func TestBeams(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: modelSize}
		n := w.serve("a", span, nil)
		p := w.opened(n, "client", span, func(o *wire.Open) { o.Sequences = 3 })
		const fork = 62
		prompt := input(1, fork)
		p.rows(prompt, 0, fork, fork)
		p.position(fork)
		seqs := [][]float32{prompt}
		for step, parents := range [][]uint8{{0, 0, 0}, {1, 1, 2}, {2, 0, 0}, {0, 2, 1}, {1, 1, 1}} {
			rows := input(20+step, 3)
			p.beams(rows, fork, step, parents...)
			got := p.expect(wire.TypeRows)
			var next [][]float32
			for i, parent := range parents {
				next = append(next, append(append([]float32(nil), seqs[parent]...), rows[i*hidden:(i+1)*hidden]...))
				want := reference(next[i], 0, modelSize)
				if !equalBits(got.rows[i*hidden:(i+1)*hidden], want[len(want)-hidden:]) {
					t.Errorf("step %d: row %d is %v, want %v", step, i, got.rows[i*hidden:(i+1)*hidden], want[len(want)-hidden:])
				}
			}
			seqs = next
			p.expect(wire.TypeDone)
		}
		if st := n.Sessions(); st[0].Position != fork+5 {
			t.Errorf("position %d", st[0].Position)
		}
		// Back to the last step, which comes again; then to one before it: to the fork.
		p.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: fork + 4*3 + 1, Journal: -1})
		if got := p.expect(wire.TypeStatus).status; got.Position != fork+4*3+1 {
			t.Errorf("status %+v", got)
		}
		p.send(wire.TypeRoute, wire.Route{Epoch: 3, Truncate: fork + 3, Journal: -1})
		if got := p.expect(wire.TypeStatus).status; got.Position != fork {
			t.Errorf("status %+v", got)
		}
		p.epoch = 3
		more := append(append([]float32(nil), prompt...), input(50, 9)...)
		want := reference(more, 0, modelSize)
		p.rows(more, fork, fork+9, fork+8)
		if got := p.expect(wire.TypeRows); !equalBits(got.rows, want[len(want)-hidden:]) {
			t.Errorf("one sequence again: %v, want %v", got.rows, want[len(want)-hidden:])
		}
		p.close()
		n.idle(t)
	})
}

// Rows that cannot come after the others break the protocol.
func TestBeamsThatCannotBe(t *testing.T) {
	span := swarm.Span{Start: 0, End: modelSize}
	in := input(1, 40)
	for name, send := range map[string]func(p *peer){
		"more than reserved": func(p *peer) { p.beams(in, 4, 0, 0, 0, 0, 0) },
		"part too late":      func(p *peer) { p.rows(in, 4, 6, 6); p.beams(in, 4, 0, 0, 0) },
		"fewer than before":  func(p *peer) { p.beams(in, 4, 0, 0, 0, 0); p.beams(in, 4, 1, 0, 1) },
		"another fork":       func(p *peer) { p.beams(in, 4, 0, 0, 0, 0); p.beams(in, 1, 2, 0, 1, 2) },
		"one sequence again": func(p *peer) { p.beams(in, 4, 0, 0, 0, 0); p.rows(in, 7, 8, 8) },
		"other parents": func(p *peer) {
			p.beams(in, 4, 0, 0, 0)
			h := p.header(6, 1, 4)
			h.Beams = wire.Beams{N: 2, Fork: 4}
			p.write(rowsFrame(h, in[:hidden]))
			h.Start, h.Beams.Parents[1] = 7, 1
			p.write(rowsFrame(h, in[:hidden]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", span, nil)
				p := w.opened(n, "client", span, func(o *wire.Open) { o.Sequences = 3 })
				p.rows(in, 0, 4, 4)
				p.position(4)
				send(p)
				p.refusal(swarm.CodeBadFrame, swarm.Caller)
				p.close()
				n.idle(t)
			})
		})
	}
}

// A position beyond the session's length is refused for each sequence, not for their sum.
func TestBeamsTooLong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: modelSize}
		n := w.serve("a", span, nil)
		p := w.opened(n, "client", span, func(o *wire.Open) { o.Sequences, o.MaxLength = 3, 6 })
		in := input(1, 9)
		p.rows(in, 0, 4, 4)
		p.position(4)
		p.beams(in, 4, 0, 0, 0, 0)
		p.until(wire.TypeRows)
		p.beams(in, 4, 1, 0, 1, 2)
		p.until(wire.TypeRows)
		p.beams(in, 4, 2, 0, 1, 2)
		p.refusal(swarm.CodeTooLong, swarm.Caller)
		p.close()
		n.idle(t)
	})
}

// Pages that could not all be copied leave a session without a cache that it could go on
// with: it ends and holds nothing any more, also where its client has moved on meanwhile.
// Sessions that share no pages go on.
func TestCopyFailsHalfWay(t *testing.T) {
	for _, moved := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			span := swarm.Span{Start: 0, End: modelSize}
			n := w.serve("a", span, nil)
			other := w.opened(n, "other", span, func(o *wire.Open) { o.Session = wire.SessionID{2} })
			in := input(1, 10)
			other.rows(in, 0, 2, 2)
			other.position(2)
			alone := n.cache.Stats()
			p := w.opened(n, "client", span, func(o *wire.Open) { o.Sequences = 3 })
			p.rows(in, 0, 4, 4)
			p.position(4)
			synctest.Wait()
			fail := make(chan error)
			n.engine.failCopy = fail
			p.beams(in, 4, 0, 0, 0, 0)
			synctest.Wait()
			if moved {
				p.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 4, Journal: -1})
				p.expect(wire.TypeStatus)
			}
			fail <- errors.New("the device is gone")
			if f := p.refusal(swarm.CodeInternal, swarm.Elsewhere); moved != (f.Epoch == 2) {
				t.Errorf("told in epoch %d", f.Epoch)
			}
			synctest.Wait()
			if got := n.cache.Stats(); got != alone || len(n.byKey) != 1 {
				t.Errorf("%d sessions, cache %+v, want one with %+v", len(n.byKey), got, alone)
			}
			n.engine.failCopy = nil
			other.rows(in, 2, 4, 3)
			if got, want := other.expect(wire.TypeRows), reference(in[:4*hidden], 0, modelSize); !equalBits(got.rows, want[3*hidden:]) {
				t.Errorf("the other session: %v, want %v", got.rows, want[3*hidden:])
			}
			p.close()
			other.close()
			n.idle(t)
		})
	}
}
