package server

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// fakeTrainer has an arithmetic that is easy to differentiate: a row is half of itself, after its
// prompt was added, and a quarter of the row before it.
type fakeTrainer struct{ *passWorld }

// passWorld is what tests see and steer of passes.
type passWorld struct {
	bytes  int64         // of each workspace
	pieces int           // in each pass
	takes  time.Duration // each
	order  []string      // passes as they were computed: peers are not known, rows are
	panics bool
	fails  error
	poison bool
}

func (l *fakeLoader) TrainerBytes(longest int) int64 {
	if l.passes == nil {
		return int64(longest)
	}
	return l.passes.bytes
}

func (l *fakeLoader) TrainingBytes(longest, blocks int) int64 { return int64(longest * blocks) }

func (l *fakeLoader) NewTrainer(Engine, int) (Trainer, error) {
	if l.passes == nil {
		l.passes = &passWorld{pieces: 2}
	}
	return fakeTrainer{l.passes}, nil
}

func (f fakeTrainer) run(r *blocks.Training, kind string) error {
	f.order = append(f.order, fmt.Sprint(kind, len(r.Lengths)))
	for range f.pieces {
		time.Sleep(f.takes)
		if f.panics {
			panic("a fault of the device")
		}
		if err := r.Yield(); err != nil {
			return err
		}
	}
	return f.fails
}

func (f fakeTrainer) Forward(r *blocks.Training, from, to int, in, out, inputs []float32) error {
	copy(out, in)
	for b := range to - from {
		at := 0
		for s, n := range r.Lengths {
			rows := out[at*hidden : (at+n)*hidden]
			at += n
			if r.PromptRows > 0 {
				for i, v := range r.Prompts[(b*len(r.Lengths)+s)*r.PromptRows*hidden:][:r.PromptRows*hidden] {
					rows[i] += v
				}
			}
			for i := len(rows) - 1; i >= 0; i-- {
				rows[i] *= 0.5
				if i >= hidden {
					rows[i] += rows[i-hidden] * 0.25
				}
			}
		}
	}
	if f.poison {
		out[0] = float32(math.NaN())
	}
	return f.run(r, "F")
}

func (f fakeTrainer) Backward(r *blocks.Training, from, to int, in, inputs, dout, din, dprompts []float32) error {
	copy(din, dout)
	for b := to - from - 1; b >= 0; b-- {
		at := 0
		for s, n := range r.Lengths {
			rows := din[at*hidden : (at+n)*hidden]
			at += n
			for i := range rows {
				rows[i] *= 0.5
				if i+hidden < len(rows) {
					rows[i] += rows[i+hidden] * 0.25
				}
			}
			if r.PromptRows > 0 {
				copy(dprompts[(b*len(r.Lengths)+s)*r.PromptRows*hidden:], rows[:r.PromptRows*hidden])
			}
		}
	}
	return f.run(r, "B")
}

// passMsg asks for a pass through the middle blocks.
func passMsg(backward bool, lengths ...int) wire.Pass {
	return wire.Pass{Version: wire.Version, UID: manifest.UID(), Span: middle, Backward: backward, Lengths: lengths, Length: 100, Millis: 60_000}
}

// passPeer is a scripted client of a pass.
type passPeer struct{ *peer }

func (w *world) pass(n *node, from swarm.PeerID, ask wire.Pass) *passPeer {
	a, b := wire.Pipe()
	w.tasks.Go(func() { n.ServePass(w.ctx, from, b) })
	if ask.Mode.IsZero() {
		ask.Mode = ask.PassMode().Hash()
	}
	p := &passPeer{&peer{t: w.t, stream: a, r: rowsReader(a)}}
	p.write(wire.AppendJSON(nil, wire.TypePass, ask))
	return p
}

// give sends all sections, a few rows at a time.
func (p *passPeer) give(ask wire.Pass, rows []float32) {
	p.t.Helper()
	ask.Sent().Each(3, func(h wire.ChunkHeader, at int) error {
		h.Codec = codec.F32
		v := rows[at*hidden:][:int(h.Count)*hidden]
		p.write(codec.Append(wire.BeginChunk(nil, &h, 4*len(v)), codec.F32, v))
		return nil
	})
}

// result reads what comes back, or how the pass failed.
func (p *passPeer) result(ask wire.Pass) ([]float32, *swarm.Error) {
	p.t.Helper()
	want := ask.Returned()
	var all []float32
	for !want.Done() {
		p.stream.SetReadDeadline(time.Now().Add(10 * time.Minute))
		t, b, err := p.r.Next()
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		switch t {
		case wire.TypeGrant, wire.TypeProgress:
		case wire.TypeFail:
			var f wire.Fail
			wire.Decode(t, b, &f)
			return nil, f.Err("server")
		case wire.TypeChunk:
			h, data, err := wire.ParseChunk(b)
			if err == nil {
				err = want.Take(&h)
			}
			if err == nil {
				all, err = codec.Decode(all, h.Codec, data, int(h.Count)*hidden)
			}
			if err != nil {
				p.t.Fatal(err)
			}
		default:
			p.t.Fatalf("type %d came", t)
		}
	}
	return all, nil
}

// done checks that a server holds nothing of any pass.
func (n *node) passed(t *testing.T) {
	t.Helper()
	time.Sleep(n.cfg.Timeouts.Write + n.cfg.Timeouts.Linger) // for clients that do not read
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.passing.Load()
	if b.rows.Used() != 0 || b.count.Used() != 0 || len(n.container.trains) != 0 || n.container.passes.Len() != 0 || n.container.training != nil {
		t.Errorf("left behind: %d bytes, %d streams, %d passes", b.rows.Used(), b.count.Used(), len(n.container.trains))
	}
}

func (p *passPeer) expectType(want wire.Type) []byte {
	p.t.Helper()
	p.stream.SetReadDeadline(time.Now().Add(time.Minute))
	t, b, err := p.r.Next()
	if err != nil || t != want {
		p.t.Fatalf("type %d, %v, want type %d", t, err, want)
	}
	return b
}

func (p *passPeer) progress() (v wire.Progress) {
	wire.Decode(wire.TypeProgress, p.expectType(wire.TypeProgress), &v)
	return v
}
