package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/tensor"
)

const (
	// trialRows is how many rows a step of a benchmark has at most, and how many positions its
	// decode grows to: enough for the speed of prompts, few enough that nobody waits long.
	trialRows = 128
	// trialPatience is how long a benchmark waits for moments without work, beyond its own time.
	trialPatience = 20 * time.Second
	// trialLook is how often it is looked at.
	trialLook = 20 * time.Millisecond
)

// trial measures a span while it serves. The compute loop runs one step of it where no session
// has rows ready, on pages that nobody holds just then. Guarded by Server.mu, but for in and out.
type trial struct {
	each    time.Duration // of steps that are timed, for each kind
	pages   int           // borrowed for a step
	in, out []float32
	kinds   [2]trialKind // decode, prompts
	now     int          // which is measured
	err     error
}

type trialKind struct {
	rows, steps int
	spent       time.Duration
}

// share is how much of the trial is done, 0 to 1.
func (t *trial) share() float64 {
	sum := 0.0
	for i := range t.kinds {
		sum += min(1, t.kinds[i].spent.Seconds()/t.each.Seconds())
	}
	return sum / float64(len(t.kinds))
}

// over tells whether nothing is left to do.
func (t *trial) over() bool { return t.err != nil || t.now == len(t.kinds) }

// took notes a step. The first of a kind warms up, and is not timed.
func (t *trial) took(d time.Duration, err error) {
	k := &t.kinds[t.now]
	switch {
	case err != nil:
		t.err = err
		return
	case k.steps > 0:
		k.spent += d
	}
	if k.steps++; k.spent >= t.each && k.steps > 1 {
		t.now++
	}
}

// rates are what was measured, in tokens per second through one block.
func (t *trial) rates(blocks int) (inference, forward float64) {
	rate := func(k trialKind) float64 { return float64(k.rows*(k.steps-1)*blocks) / k.spent.Seconds() }
	return rate(t.kinds[0]), rate(t.kinds[1])
}

func newTrial(each time.Duration, cachePages, stepRows, hidden int) *trial {
	t := &trial{each: each, pages: min(cachePages, trialRows/tensor.PageTokens)}
	rows := min(stepRows, t.pages*tensor.PageTokens)
	t.kinds[0].rows, t.kinds[1].rows = 1, rows
	t.in, t.out = make([]float32, rows*hidden), make([]float32, rows*hidden)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range t.in {
		t.in[i] = float32(rng.NormFloat64())
	}
	return t
}

// try runs a step of a trial; false if there is none, or no memory for it just now.
func (c *computer) try() bool {
	s := c.s
	s.mu.Lock()
	t := c.home.trial
	if t == nil || t.over() || c.home.broken != nil {
		s.mu.Unlock()
		return false
	}
	pages := c.home.cache.Take(t.pages)
	if pages == nil {
		s.mu.Unlock()
		return false
	}
	k, span := t.kinds[t.now], *c.home.span
	c.home.borrowed, c.home.since, c.home.rows = true, time.Now(), k.rows
	s.mu.Unlock()

	b := &tensor.Batch{Seqs: []tensor.KVView{{Pages: pages}}}
	for i := range k.rows {
		pos := i
		if k.rows == 1 {
			pos = k.steps % (t.pages * tensor.PageTokens)
		}
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(pos)})
	}
	n := k.rows * c.hidden
	c.enter()
	start := time.Now()
	err := caught(func() error {
		return c.engine.Step(b, nil, span.Start, span.End, tensor.Mode{}, t.in[:n], t.out[:n])
	})
	took := time.Since(start)

	s.mu.Lock()
	defer s.mu.Unlock()
	c.home.cache.Put(pages)
	c.home.borrowed, c.home.since = false, time.Time{}
	t.took(took, err)
	c.judgeLocked(err)
	s.placeInLocked(c.home, time.Now()) // who asked for cache meanwhile
	return true
}

// Benchmark measures what the blocks compute, for about the given time for each kind of step,
// while the server serves: sessions go first. What it finds is announced and remembered, unless
// the operator declared a throughput. tell hears how much is done, 0 to 1.
func (s *Server) Benchmark(ctx context.Context, each time.Duration, tell func(share float64)) (swarm.Benchmark, error) {
	began := time.Now()
	s.mu.Lock()
	c := s.container
	switch {
	case c.engine == nil || c.cache == nil || c.broken != nil || s.state != swarm.Online && s.state != swarm.Draining:
		s.mu.Unlock()
		return swarm.Benchmark{}, swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "the server is not online: its blocks can be measured once they are served")
	case c.trial != nil:
		s.mu.Unlock()
		return swarm.Benchmark{}, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "a benchmark is running already")
	}
	t := newTrial(each, int(c.cache.Stats().TotalTokens/tensor.PageTokens), s.cfg.StepRows, s.cfg.Manifest.Hidden)
	c.trial = t
	span, before := *c.span, s.rates
	offered := s.offered
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		c.trial = nil
		s.mu.Unlock()
	}()
	look := time.NewTicker(trialLook)
	defer look.Stop()
	last := time.NewTimer(2*each + trialPatience)
	defer last.Stop()
	for {
		poke(c.work)
		s.mu.Lock()
		share, over, gone, err := t.share(), t.over(), s.container != c || c.broken != nil, t.err
		s.mu.Unlock()
		switch {
		case err != nil:
			s.log.Error("a benchmark failed", "blocks", span.String(), "reason", err)
			return swarm.Benchmark{}, swarm.Errorf(swarm.CodeInternal, swarm.Again, "the blocks could not be computed: see the node's log")
		case over:
			return s.measured(t, span, before, offered, began), nil
		case gone:
			return swarm.Benchmark{}, swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "the blocks that were measured were left: measure those that are served now")
		}
		tell(share)
		select {
		case <-look.C:
		case <-last.C:
			return swarm.Benchmark{}, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "sessions left too little time within %v: what they are computed with is announced in any case; try again when fewer run", 2*each+trialPatience)
		case <-ctx.Done():
			return swarm.Benchmark{}, context.Cause(ctx)
		}
	}
}

// measured announces what a trial found.
func (s *Server) measured(t *trial, span swarm.Span, before swarm.Rates, offered float64, began time.Time) swarm.Benchmark {
	var r blocks.Rates
	r.Inference, r.Forward = t.rates(span.Len())
	r = s.whole(r)
	out := swarm.Benchmark{
		Span: span, Rates: swarm.Rates{InferenceRPS: &r.Inference, ForwardRPS: &r.Forward}, Before: before, ThroughputBefore: offered,
	}
	s.mu.Lock()
	s.found = &r
	if out.Announced = s.cfg.Measuring != MeasureNever; out.Announced {
		s.rateLocked(r)
		poke(s.publish)
	}
	out.Throughput, out.Took = s.offered, time.Since(began)
	s.mu.Unlock()
	s.log.Info("benchmark", "inference_tok_s_per_block", r.Inference, "forward_tok_s_per_block", r.Forward, "announced", out.Announced)
	if out.Announced && s.deps.Speeds != nil {
		if err := s.deps.Speeds.Keep(span.Len(), r); err != nil {
			s.log.Warn("throughput could not be kept for the next run", "reason", err)
		}
	}
	return out
}

// errGivenUp ends what an operator asked for and then did not want any more.
var errGivenUp = errors.New("given up before it was done")

// within is ctx that also ends when whoever gave the order gives it up.
func (o *order) within(ctx context.Context) (context.Context, context.CancelFunc) {
	trip, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-o.gone:
			cancel(fmt.Errorf("%w: the blocks stay as they were", errGivenUp))
		case <-trip.Done():
		}
	}()
	return trip, func() { cancel(nil) }
}
