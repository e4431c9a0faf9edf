package server

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"whorl/server/admission"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// nullEngine does nothing.
type nullEngine struct{ fakeEngine }

func (nullEngine) Step(*tensor.Batch, []int, int, int, tensor.Activations, []float32, []float32) error {
	return nil
}

// sink takes what is written and tells the number of frames.
type sink struct{ frames chan struct{} }

func (s sink) Write(p []byte) (int, error)    { s.frames <- struct{}{}; return len(p), nil }
func (sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (sink) Close() error                     { return nil }
func (sink) Reset() error                     { return nil }
func (sink) SetDeadline(time.Time) error      { return nil }
func (sink) SetReadDeadline(time.Time) error  { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// benchSession is a committed session of a server whose streams are a sink; its loops run.
func benchSession(tb testing.TB) (*session, sink, context.Context) {
	cfg := DefaultConfig()
	cfg.Manifest, cfg.Manifest.Hidden = manifest, 2048
	s, err := New(cfg, Deps{Self: "a", Loader: &fakeLoader{}, Directory: &world{}, Dialer: fakeDialer{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	cache, err := kvcache.New(1000, 1)
	if err != nil {
		tb.Fatal(err)
	}
	admits, err := admission.New(admission.Config{Pages: 1000, Sessions: 1})
	if err != nil {
		tb.Fatal(err)
	}
	e := &nullEngine{}
	e.end = modelSize
	s.install(e, swarm.Span{Start: 0, End: modelSize}, cache, admits)
	s.state = swarm.Online
	ctx, cancel := context.WithCancel(context.Background())
	out := sink{make(chan struct{})}
	o := openMsg(swarm.Span{Start: 0, End: modelSize})
	o.UID, o.MaxLength = s.uid, 60_000
	o = named(o)
	x, err := s.admit(ctx, "client", &o, out)
	if err != nil {
		tb.Fatal(err)
	}
	x.tasks.Go(func() { x.out.run(ctx) })
	x.tasks.Go(func() { s.newComputer(e).run(ctx) })
	<-out.frames // accept
	if err := x.handle(ctx, wire.TypeCommit, nil); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.mu.Lock()
		x.endLocked()
		s.mu.Unlock()
		cancel()
		x.tasks.Wait()
	})
	return x, out, ctx
}

// decode runs one decode step from the frame's bytes to the written result and Done.
func decode(tb testing.TB, x *session, out sink, ctx context.Context, pos int, payload []byte, head *[]byte) {
	h := wire.RowsHeader{Session: x.id, Epoch: 1, Step: uint64(pos), Start: uint32(pos), Count: 1, Codec: 1}
	*head = append(h.Append((*head)[:0]), payload...)
	if err := x.takeRows(ctx, fromClient, "client", *head); err != nil {
		tb.Fatal(err)
	}
	<-out.frames
	<-out.frames
}

// BenchmarkHop is what a decode step costs on a server beside compute and network.
func BenchmarkHop(b *testing.B) {
	x, out, ctx := benchSession(b)
	payload, head := make([]byte, 2048*4), []byte(nil)
	b.ReportAllocs()
	pos := 0
	for b.Loop() {
		if pos == 60_000 {
			x.srv.mu.Lock()
			x.length, x.next, pos = 0, 0, 0
			x.srv.mu.Unlock()
		}
		decode(b, x, out, ctx, pos, payload, &head)
		pos++
	}
}

var poolsForget bool

// A decode step allocates nothing once its buffers are there.
func TestDecodeDoesNotAllocate(t *testing.T) {
	if poolsForget {
		t.Skip("allocations are counted without the race detector")
	}
	x, out, ctx := benchSession(t)
	payload, head := make([]byte, 2048*4), []byte(nil)
	pos := 0
	step := func() { decode(t, x, out, ctx, pos, payload, &head); pos++ }
	for range 100 {
		step()
	}
	// Pools are emptied by the collector, so a little is allowed.
	if n := testing.AllocsPerRun(1000, step); n > 0.5 {
		t.Errorf("%v allocations per step", n)
	}
}

var _ Engine = (*blocks.Span)(nil)
