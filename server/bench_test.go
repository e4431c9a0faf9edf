package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"whorl/internal/meter"
	"whorl/server/admission"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// nullEngine does nothing, or as much as it is told on every core.
type nullEngine struct {
	fakeEngine
	work int // additions on each core
}

func (e *nullEngine) Step(*tensor.Batch, []int, int, int, tensor.Mode, []float32, []float32) error {
	if e.work == 0 {
		return nil
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() { spin(e.work) })
	}
	all.Wait()
	return nil
}

//go:noinline
func spin(n int) (sum float64) {
	for i := range n {
		sum += float64(i)
	}
	return sum
}

// sink takes what is written and tells the number of frames but receipts, which come rarely.
type sink struct{ frames chan struct{} }

func (s sink) Write(p []byte) (int, error) {
	if wire.Type(p[wire.HeadSize-1]) != wire.TypeReceipt {
		s.frames <- struct{}{}
	}
	return len(p), nil
}
func (sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (sink) Close() error                     { return nil }
func (sink) Reset() error                     { return nil }
func (sink) SetDeadline(time.Time) error      { return nil }
func (sink) SetReadDeadline(time.Time) error  { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// benchSession is a committed session of a server whose streams are a sink; its loops run.
func benchSession(tb testing.TB, width int, change func(*wire.Open)) (*session, sink, context.Context) {
	cfg := DefaultConfig()
	cfg.Manifest, cfg.Manifest.Hidden = manifest, width
	s, err := New(cfg, Deps{Self: "a", Loader: &fakeLoader{}, Directory: &world{}, Dialer: fakeDialer{}, Signer: &fakeSigner{id: "a"}, Log: slog.New(slog.DiscardHandler)})
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
	s.engine, s.span, s.cache, s.admits = e, &swarm.Span{Start: 0, End: modelSize}, cache, admits
	s.state = swarm.Online
	ctx, cancel := context.WithCancel(context.Background())
	out := sink{make(chan struct{})}
	o := openMsg(swarm.Span{Start: 0, End: modelSize})
	o.UID, o.MaxLength = s.uid, 60_000
	if change != nil {
		change(&o)
	}
	o = named(o)
	x, err := s.admit(ctx, "client", &o, out)
	if err != nil {
		tb.Fatal(err)
	}
	x.tasks.Go(func() { x.out.run(ctx) })
	notes, noMore := context.WithCancel(context.Background())
	x.tasks.Go(func() { s.notary.run(notes) })
	x.tasks.Go(func() {
		defer noMore()
		s.newComputer(s.container).run(ctx)
	})
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
	for name, change := range map[string]func(*wire.Open){"plain": nil, "receipts": asking} {
		b.Run(name, func(b *testing.B) { benchmarkHop(b, change) })
	}
}

func benchmarkHop(b *testing.B, change func(*wire.Open)) {
	x, out, ctx := benchSession(b, 2048, change)
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

// BenchmarkStage is a decode step of a stage that keeps all cores busy for about 1 ms, of a
// client that answers at once: the notary has no time of its own. Runs of steps with receipts and
// without alternate; ratio is the median of the time with by that without, and cpu-ratio the same of
// processor time, which others on the machine disturb less.
func BenchmarkStage(b *testing.B) {
	work := int(100_000_000 * time.Millisecond / meter.Worked(b, func() { spin(100_000_000) }))
	const steps = 100
	type took struct{ wall, cpu time.Duration }
	side := func(change func(*wire.Open)) func() took {
		x, out, ctx := benchSession(b, 2048, change)
		x.srv.engine.(*nullEngine).work = work
		payload, head, pos := make([]byte, 2048*4), []byte(nil), 0
		return func() took {
			begin := time.Now()
			cpu := meter.Worked(b, func() {
				for range steps {
					decode(b, x, out, ctx, pos, payload, &head)
					pos++
				}
			})
			return took{time.Since(begin), cpu}
		}
	}
	plain, receipts := side(nil), side(asking)
	var ratios, cpu, alone []float64
	for b.Loop() {
		for i := range 30 {
			var p, r took
			if i%2 == 0 {
				p = plain()
				r = receipts()
			} else {
				r = receipts()
				p = plain()
			}
			ratios, cpu, alone = append(ratios, float64(r.wall)/float64(p.wall)), append(cpu, float64(r.cpu)/float64(p.cpu)), append(alone, float64(p.wall.Microseconds())/steps)
		}
	}
	slices.Sort(ratios)
	slices.Sort(cpu)
	slices.Sort(alone)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(alone[len(alone)/2], "us/step")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(ratios[len(ratios)/4], "ratio-25%")
	b.ReportMetric(ratios[3*len(ratios)/4], "ratio-75%")
	b.ReportMetric(cpu[len(cpu)/2], "cpu-ratio")
	b.ReportMetric(cpu[3*len(cpu)/4], "cpu-ratio-75%")
}

// BenchmarkPrompt is what a row of a prompt costs on a server beside compute and network, with
// and without receipts: the stage's compute must not be counted, so the difference is all
// that the notary's thread adds where it has no core of its own.
func BenchmarkPrompt(b *testing.B) {
	const chunk = 512
	for _, width := range []int{576, 4096} {
		for name, change := range map[string]func(*wire.Open){"plain": nil, "receipts": asking} {
			b.Run(fmt.Sprint(width, " ", name), func(b *testing.B) {
				x, out, ctx := benchSession(b, width, change)
				payload, head, pos := make([]byte, chunk*width*4), []byte(nil), 0
				for b.Loop() {
					if pos+chunk > 60_000 {
						x.srv.mu.Lock()
						x.length, x.next, pos = 0, 0, 0
						x.srv.mu.Unlock()
					}
					h := wire.RowsHeader{Session: x.id, Epoch: 1, Start: uint32(pos), Count: chunk, Want: uint32(pos + chunk), Codec: 1}
					head = append(h.Append(head[:0]), payload...)
					if err := x.takeRows(ctx, fromClient, "client", head); err != nil {
						b.Fatal(err)
					}
					for x.lengthNow() < pos+chunk {
						<-out.frames
					}
					pos += chunk
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/chunk, "us/row")
			})
		}
	}
}

// lengthNow is x.length for benchmarks.
func (x *session) lengthNow() int {
	x.srv.mu.Lock()
	defer x.srv.mu.Unlock()
	return x.length
}

var poolsForget bool

// A decode step allocates nothing once its buffers are there.
func TestDecodeDoesNotAllocate(t *testing.T) {
	if poolsForget {
		t.Skip("allocations are counted without the race detector")
	}
	x, out, ctx := benchSession(t, 2048, nil)
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
