package swarmtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// trainRig is servers of the toy model whose passes a test hears of.
type trainRig struct {
	*real
	w     *World
	e     *client.Engine
	layer int
	mu    sync.Mutex
	heard func(id swarm.PeerID, kind string) // nil for nobody
	count map[string]int
}

// rig starts servers of the given spans; change may be nil.
func newTrainRig(t *testing.T, spans []swarm.Span, change func(id swarm.PeerID, c *server.Config)) *trainRig {
	r := &trainRig{real: openModel(t, toy), count: map[string]int{}}
	r.layer = r.ck.Config.Layers
	r.w = NewWorld(t, r.manifest())
	for i, span := range spans {
		l, err := blocks.NewLoader(r.ck, r.device(1), blocks.Options{StepRows: 64})
		if err != nil {
			t.Fatal(err)
		}
		id := swarm.PeerID(fmt.Sprint("server", i))
		r.w.Start(id, span, &hookedLoader{Loader: server.FromBlocks(l), id: id, r: r}, func(c *server.Config) {
			if change != nil {
				change(id, c)
			}
		})
	}
	head := r.head(1)
	r.e = r.w.Engine(head, head.Vocab(), func(c *client.Config) { c.MaxLength = 256 })
	return r
}

// hookedLoader tells of passes before they are computed.
type hookedLoader struct {
	server.Loader
	id swarm.PeerID
	r  *trainRig
}

func (l *hookedLoader) TrainerBytes(longest int) int64 {
	return l.Loader.(server.TrainLoader).TrainerBytes(longest)
}

func (l *hookedLoader) TrainingBytes(longest, blocks int) int64 {
	return l.Loader.(server.TrainLoader).TrainingBytes(longest, blocks)
}

func (l *hookedLoader) NewTrainer(e server.Engine, longest int) (server.Trainer, error) {
	t, err := l.Loader.(server.TrainLoader).NewTrainer(e, longest)
	return &hookedTrainer{t, l}, err
}

type hookedTrainer struct {
	server.Trainer
	l *hookedLoader
}

func (t *hookedTrainer) hear(kind string) {
	t.l.r.mu.Lock()
	t.l.r.count[kind]++
	f := t.l.r.heard
	t.l.r.mu.Unlock()
	if f != nil {
		f(t.l.id, kind)
	}
}

func (t *hookedTrainer) Forward(r *blocks.Training, from, to int, in, out, inputs []float32) error {
	t.hear("forward")
	return t.Trainer.Forward(r, from, to, in, out, inputs)
}

func (t *hookedTrainer) Backward(r *blocks.Training, from, to int, in, inputs, dout, din, dprompts []float32) error {
	t.hear("backward")
	return t.Trainer.Backward(r, from, to, in, inputs, dout, din, dprompts)
}

// thirds are three spans of a model of so many blocks, twice.
func thirds(n int, copies int) (out []swarm.Span) {
	for i := range 3 * copies {
		out = append(out, swarm.Span{Start: i % 3 * n / 3, End: (i%3 + 1) * n / 3})
	}
	return out
}

// toyBatch is some sequences with prompts for blocks of a range.
func (r *trainRig) batch(span swarm.Span, prompt int, shared bool) *client.Batch {
	h := r.ck.Config.Hidden
	b := &client.Batch{Lengths: []int{9, 5, 17, 5, 30}, Prompt: prompt, Shared: shared}
	b.Rows = wave(66*h, 1, 1)
	tables := len(b.Lengths)
	if shared {
		tables = 1
	}
	b.Prompts = wave(span.Len()*tables*prompt*h, 2, 0.1)
	return b
}

func wave(n int, seed, size float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(size * math.Sin(seed+float64(i*i%977)))
	}
	return out
}

// bitsOf names values to the last bit.
func bitsOf(all ...[]float32) string {
	h := sha256.New()
	for _, v := range all {
		binary.Write(h, binary.LittleEndian, v)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// run goes forward and backward through blocks and names all that came of it.
func (r *trainRig) pass(ctx context.Context, span swarm.Span, o client.RemoteOptions, b *client.Batch) (string, error) {
	m, err := r.e.Remote(span, o)
	if err != nil {
		return "", err
	}
	f, err := m.Forward(ctx, b)
	if err != nil {
		return "", err
	}
	grads := wave(len(f.Outputs), 3, 1)
	rows, prompts, err := f.Backward(ctx, grads)
	if err != nil {
		return "", err
	}
	return bitsOf(f.Outputs, rows, prompts), nil
}

// Outputs and gradients of the whole model have the same bits on every layout, however a batch is
// cut; those of its halves compose; and what a session computes of a sequence is what a pass makes
// of it (T8, T23 and T24 of Petals, to the last bit).
func TestPassBits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := map[string]string{}
		for _, layout := range []int{1, 3, 8} {
			const n = 8
			var spans []swarm.Span
			for i := range layout {
				spans = append(spans, swarm.Span{Start: i * n / layout, End: (i + 1) * n / layout})
			}
			r := newTrainRig(t, spans, nil)
			all := swarm.Span{Start: 0, End: n}
			for _, shared := range []bool{false, true} {
				for _, prompt := range []int{0, 4} {
					for _, rows := range []int{0, 1, 20} {
						name := fmt.Sprint(shared && prompt > 0, prompt)
						got, err := r.pass(t.Context(), all, client.RemoteOptions{Rows: rows}, r.batch(all, prompt, shared))
						if err != nil {
							t.Fatal(err)
						}
						if want[name] == "" {
							want[name] = got
						}
						if got != want[name] {
							t.Errorf("%d servers, passes of %d rows, prompts %s: %s, want %s", layout, rows, name, got, want[name])
						}
					}
				}
			}
			half := swarm.Span{Start: 0, End: n / 2}
			rest := swarm.Span{Start: n / 2, End: n}
			b := r.batch(all, 0, false)
			a, _ := r.e.Remote(half, client.RemoteOptions{})
			c, _ := r.e.Remote(rest, client.RemoteOptions{})
			fa, err := a.Forward(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			fc, err := c.Forward(t.Context(), &client.Batch{Lengths: b.Lengths, Rows: fa.Outputs})
			if err != nil {
				t.Fatal(err)
			}
			mid, _, err := fc.Backward(t.Context(), wave(len(fc.Outputs), 3, 1))
			if err != nil {
				t.Fatal(err)
			}
			grads, _, err := fa.Backward(t.Context(), mid)
			if got := bitsOf(fc.Outputs, grads, nil); err != nil || got != want["false 0"] {
				t.Errorf("%d servers, halves: %s, %v, want %s", layout, got, err, want["false 0"])
			}
		}
	})
}

// A pass makes of embedded ids what a session with float32 activations makes of the ids.
func TestPassEqualsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrainRig(t, thirds(8, 1), nil)
		if r.layer != 8 {
			t.Fatalf("the toy model has %d blocks", r.layer)
		}
		ids := prompt(20, 3)
		s, err := r.e.Open(t.Context(), client.SessionOptions{MaxLength: 32, Activations: tensor.ActF32})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		res, err := s.Score(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		head := r.head(1)
		b := &client.Batch{Lengths: []int{len(ids)}, Rows: make([]float32, len(ids)*r.ck.Config.Hidden)}
		head.Embed(b.Rows, ids)
		m, _ := r.e.Remote(swarm.Span{Start: 0, End: 8}, client.RemoteOptions{})
		f, err := m.Forward(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		logits := make([]float32, head.Vocab())
		head.Logits(logits, f.Outputs[(len(ids)-1)*r.ck.Config.Hidden:], 1, tensor.ActF32)
		if bitsOf(logits) != bitsOf(res.Next) {
			t.Error("logits after the last id differ")
		}
	})
}

// A server that dies, hangs or leaves in the middle of a pass changes no bit.
func TestPassesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := swarm.Span{Start: 0, End: 8}
		r := newTrainRig(t, thirds(8, 1), nil)
		want, err := r.pass(t.Context(), all, client.RemoteOptions{Rows: 20}, r.batch(all, 4, true))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			kind string
			do   func(*Server)
		}{
			{"forward", func(s *Server) { s.Node.Kill() }},
			{"backward", func(s *Server) { s.Node.Kill() }},
			{"backward", func(s *Server) { s.Node.Pause() }},
			{"forward", func(s *Server) { s.Drain(0) }},
			{"backward", func(s *Server) { s.Drain(0) }},
		} {
			for third := range 3 {
				// The spare ones are cut elsewhere: what is lost goes through two of them.
				r := newTrainRig(t, append(thirds(8, 1), swarm.Span{Start: 0, End: 4}, swarm.Span{Start: 4, End: 8}, swarm.Span{Start: 1, End: 6}), nil)
				gone := false
				r.heard = func(id swarm.PeerID, kind string) {
					r.mu.Lock()
					now := kind == c.kind && !gone && id == swarm.PeerID(fmt.Sprint("server", third))
					gone = gone || now
					r.mu.Unlock()
					if now {
						c.do(r.w.Server(id))
					}
				}
				got, err := r.pass(t.Context(), all, client.RemoteOptions{Rows: 20}, r.batch(all, 4, true))
				if err != nil || got != want {
					t.Errorf("server %d lost while it goes %s: %s, %v, want %s", third, c.kind, got, err, want)
				}
				if gone {
					r.w.Server(swarm.PeerID(fmt.Sprint("server", third))).Node.Resume()
				}
			}
		}
	})
}

// What servers refuse is sent in halves, or elsewhere; and what nobody computes is said, and by
// whom it can be mended.
func TestPassesRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := swarm.Span{Start: 0, End: 8}
		r := newTrainRig(t, thirds(8, 1), nil)
		want, err := r.pass(t.Context(), all, client.RemoteOptions{}, r.batch(all, 4, true))
		if err != nil {
			t.Fatal(err)
		}
		small := newTrainRig(t, thirds(8, 1), func(id swarm.PeerID, c *server.Config) {
			if id == "server1" {
				c.Passes.Rows = 31
			}
		})
		if got, err := small.pass(t.Context(), all, client.RemoteOptions{}, small.batch(all, 4, true)); err != nil || got != want {
			t.Errorf("in halves: %s, %v, want %s", got, err, want)
		}
		quick := client.RemoteOptions{Recover: time.Second}
		b := small.batch(all, 0, false)
		b.Lengths = []int{66}
		if _, err := small.pass(t.Context(), all, quick, b); swarm.CodeOf(err) != swarm.CodeTooLong || swarm.AsError(err).Verdict != swarm.Caller {
			t.Errorf("a long sequence: %v", err)
		}
		off := newTrainRig(t, thirds(8, 1), func(id swarm.PeerID, c *server.Config) { c.Passes.Off = id == "server1" })
		if _, err := off.pass(t.Context(), all, quick, off.batch(all, 0, false)); swarm.CodeOf(err) != swarm.CodeBlocksMissing {
			t.Errorf("a server that takes no passes: %v", err)
		}
		// Rows beyond float32 are the user's: two servers say so, and neither is left for it.
		twice := newTrainRig(t, thirds(8, 2), nil)
		b = twice.batch(all, 4, true)
		for _, v := range [][]float32{b.Rows, b.Prompts} {
			for i := range v {
				v[i] = 3e38
			}
		}
		if _, err := twice.pass(t.Context(), all, quick, b); swarm.AsError(err).Verdict != swarm.Caller {
			t.Errorf("rows that overflow: %v", err)
		}
		for name, bad := range map[string]func(*client.Batch){
			"nothing":      func(b *client.Batch) { b.Lengths, b.Rows = nil, nil },
			"empty":        func(b *client.Batch) { b.Lengths[0] = 0 },
			"short":        func(b *client.Batch) { b.Prompt = 6 },
			"few values":   func(b *client.Batch) { b.Rows = b.Rows[1:] },
			"many prompts": func(b *client.Batch) { b.Prompts = append(b.Prompts, 1) },
			"long":         func(b *client.Batch) { b.Lengths[1] = 257 },
		} {
			b := r.batch(all, 4, false)
			bad(b)
			if _, err := r.pass(t.Context(), all, quick, b); swarm.AsError(err).Verdict != swarm.Caller {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A caller's own deadline says nothing about a server; a server that trickles, or that sends what
// cannot be, is left.
func TestPassGuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := swarm.Span{Start: 0, End: 8}
		r := newTrainRig(t, thirds(8, 1), nil)
		book := trust.NewBook(trust.DefaultParams())
		head := r.head(1)
		r.e = r.w.Engine(head, head.Vocab(), func(c *client.Config) { c.MaxLength, c.Trust = 256, book })
		r.heard = func(swarm.PeerID, string) { time.Sleep(time.Second) }
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := r.pass(ctx, all, client.RemoteOptions{}, r.batch(all, 0, false)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline: %v", err)
		}
		for _, s := range book.Standings(time.Now()) {
			if s.Avoid != nil {
				t.Errorf("a caller's deadline is held against %+v", s)
			}
		}
		r.mu.Lock()
		r.heard = nil
		r.mu.Unlock()
		want, err := r.pass(t.Context(), all, client.RemoteOptions{}, r.batch(all, 0, false))
		if err != nil {
			t.Fatal(err)
		}
		for name, lie := range map[string]func([]byte) []byte{
			"too many rows": func(b []byte) []byte { b[wire.HeadSize+8]++; return b },
			"not a number":  func(b []byte) []byte { copy(b[wire.HeadSize+wire.ChunkSize:], []byte{0, 0, 0xc0, 0x7f}); return b },
			"another codec": func(b []byte) []byte { b[wire.HeadSize+1] = 9; return b },
		} {
			r := newTrainRig(t, thirds(8, 2), nil)
			r.w.Server("server1").Node.Wrap(func(proto string, s wire.Stream) wire.Stream {
				if proto == wire.ProtoPass {
					return &lyingPass{s, lie}
				}
				return s
			})
			if got, err := r.pass(t.Context(), all, client.RemoteOptions{}, r.batch(all, 0, false)); err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", name, got, err, want)
			}
		}
	})
}

// lyingPass alters the chunks that a server writes.
type lyingPass struct {
	wire.Stream
	lie func([]byte) []byte
}

func (l *lyingPass) Write(b []byte) (int, error) {
	if wire.Type(b[wire.HeadSize-1]) == wire.TypeChunk {
		b = l.lie(slices.Clone(b))
	}
	return l.Stream.Write(b)
}
