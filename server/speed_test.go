package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
)

// fakeSpeeds knows a span of two blocks.
type fakeSpeeds struct {
	known blocks.Rates
	kept  []blocks.Rates
}

func (f *fakeSpeeds) Of(_ context.Context, n int, fresh bool, measure func() (blocks.Rates, error)) (blocks.Rates, bool, error) {
	if n == 2 && !fresh {
		return f.known, true, nil
	}
	r, err := measure()
	return r, false, err
}

func (f *fakeSpeeds) Keep(_ int, r blocks.Rates) error {
	f.kept = append(f.kept, r)
	return nil
}

func TestKnownSpeeds(t *testing.T) {
	for _, c := range []struct {
		name      string
		end       int
		measuring Measuring
		want      float64
	}{
		{"known", 2, MeasureAuto, 5000}, {"another length", 3, MeasureAuto, 700}, {"eval", 2, MeasureFresh, 700},
	} {
		bubble(t, func(t *testing.T, w *world) {
			w.serve("a", swarm.Span{Start: 0, End: c.end}, func(cfg *Config, n *node) {
				cfg.Measuring, n.speeds = c.measuring, &fakeSpeeds{known: blocks.Rates{Inference: 900, Forward: 5000}}
			})
			if r := w.last("a"); *r.Rates.ForwardRPS != c.want {
				t.Errorf("%s: %v", c.name, *r.Rates.ForwardRPS)
			}
		})
	}
}

// A machine that has become slower than it measured announces what it gives, once that is
// certain; a few slow steps change nothing.
func TestThrottledMachine(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		speeds := &fakeSpeeds{known: blocks.Rates{Inference: 1000, Forward: 5000}}
		span := swarm.Span{Start: 0, End: 2}
		n := w.serve("a", span, func(cfg *Config, n *node) { n.speeds = speeds })
		n.engine.takes = 20 * time.Millisecond // 100 tokens a second through a block
		p := w.opened(n, "client", span, nil)
		in := input(1, 200)
		step := func(from, to int) {
			for i := from; i < to; i++ {
				p.rows(in, i, i+1, 0)
				p.position(i + 1)
			}
		}
		step(0, 30)
		time.Sleep(5 * time.Second)
		if r := w.last("a"); *r.Rates.InferenceRPS != 1000 {
			t.Errorf("30 steps change it to %v", *r.Rates.InferenceRPS)
		}
		step(30, 130)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r := w.last("a"); *r.Rates.InferenceRPS < 95 || *r.Rates.InferenceRPS > 105 || *r.Rates.ForwardRPS != 5000 {
			t.Errorf("announced %v and %v", *r.Rates.InferenceRPS, *r.Rates.ForwardRPS)
		}
		if len(speeds.kept) != 1 {
			t.Errorf("kept %v", speeds.kept)
		}
		p.close()
	})
}
