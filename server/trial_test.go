package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// A benchmark measures between the steps of a session, which has the bits that it would have
// without, and what it finds is announced.
func TestBenchmark(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 2}
		speeds := &fakeSpeeds{known: blocks.Rates{Inference: 900, Forward: 5000}}
		n := w.serve("a", span, func(_ *Config, n *node) { n.speeds = speeds })
		n.engine.takes = 10 * time.Millisecond // a row, or 128, through two blocks
		p := w.opened(n, "client", span, nil)
		in := input(1, 20)
		p.rows(in, 0, 10, 0)
		p.position(10)
		var out swarm.Benchmark
		var err error
		done := make(chan struct{})
		last := 0.0
		go func() {
			defer close(done)
			out, err = n.Benchmark(t.Context(), 300*time.Millisecond, func(share float64) { last = max(last, share) })
		}()
		time.Sleep(50 * time.Millisecond)
		if _, err := n.Benchmark(t.Context(), time.Second, func(float64) {}); swarm.CodeOf(err) != swarm.CodeTooMany {
			t.Errorf("two at once: %v", err)
		}
		asked := time.Now()
		p.rows(in, 10, 20, 10)
		h := p.expect(wire.TypeRows)
		if took := time.Since(asked); took > 25*time.Millisecond {
			t.Errorf("a session waited %v", took)
		}
		if want := reference(in, 0, 2)[10*hidden:]; !equalBits(h.rows, want) {
			t.Error("the session's rows are others beside a benchmark")
		}
		<-done
		if err != nil || *out.Rates.InferenceRPS != 200 || *out.Rates.ForwardRPS != 25600 || *out.Before.InferenceRPS != 900 || !out.Announced || last < 0.5 {
			t.Errorf("%+v, %v, told %v", out, err, last)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
		if r := w.last("a"); *r.Rates.InferenceRPS != 200 || r.Throughput != out.Throughput || len(speeds.kept) != 1 {
			t.Errorf("announced %+v, kept %v", r.Rates, speeds.kept)
		}
		p.close()
		n.idle(t)
	})
}

// A benchmark that finds no moment, is given up or fails says so, and leaves nothing behind.
func TestBenchmarkEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 2}
		n := w.serve("a", span, func(c *Config, _ *node) { c.Measuring, c.Throughput = MeasureNever, 77 })
		n.engine.takes = time.Millisecond
		measure := func(ctx context.Context) error {
			out, err := n.Benchmark(ctx, 100*time.Millisecond, func(float64) {})
			if err == nil && (out.Announced || out.Throughput != 77) {
				t.Errorf("a declared throughput is replaced: %+v", out)
			}
			return err
		}
		if err := measure(t.Context()); err != nil {
			t.Error(err)
		}
		// All pages are held.
		p := w.opened(n, "client", span, func(o *wire.Open) { o.MaxLength = cachePages * 64 })
		if err := measure(t.Context()); swarm.CodeOf(err) != swarm.CodeTooMany || !strings.Contains(err.Error(), "too little time") {
			t.Errorf("without a page: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGivenUp) })
		if err := measure(ctx); !errors.Is(err, errGivenUp) {
			t.Errorf("given up: %v", err)
		}
		p.close()
		n.idle(t)
		n.engine.fail = errors.New("a fault")
		if err := measure(t.Context()); swarm.CodeOf(err) != swarm.CodeInternal {
			t.Errorf("failed: %v", err)
		}
		n.engine.fail = nil
		if err := measure(t.Context()); err != nil {
			t.Errorf("after a failure: %v", err)
		}
	})
}

// A move or a restart that its operator gives up while sessions still go leaves all as it was.
func TestGiveUpMove(t *testing.T) {
	for _, what := range []string{"move", "restart"} {
		bubble(t, func(t *testing.T, w *world) {
			span := swarm.Span{Start: 0, End: 3}
			n := w.start("a", func(c *Config, _ *node) {
				c.NumBlocks, c.Balance.Check = 3, time.Hour
				tightMemory(c, nil)
			})
			<-n.Ready()
			span = *n.Status().Span
			p := w.opened(n, "client", span, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(2*time.Second, func() { cancel(errGivenUp) })
			var err error
			if began := time.Now(); what == "move" {
				err = n.Move(ctx, swarm.Span{Start: 3, End: 6}, "a test")
			} else if err = n.Restart(ctx); time.Since(began) > 3*time.Second {
				t.Errorf("%s: it took %v", what, time.Since(began))
			}
			if !errors.Is(err, errGivenUp) || n.Status().State != swarm.Online || *n.Status().Span != span {
				t.Errorf("%s: %v, %v %v", what, err, n.Status().State, n.Status().Span)
			}
			p.rows(input(1, 4), 0, 4, 0)
			p.position(4)
			time.Sleep(time.Minute / 4) // beyond the time that it was to leave by
			p.rows(input(1, 5), 4, 5, 0)
			p.position(5)
			p.close()
			n.idle(t)
		})
	}
}
