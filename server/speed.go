package server

import (
	"context"
	"fmt"
	"time"

	"whorl/server/blocks"
	"whorl/swarm/balance"
)

// Speeds remembers what spans of this machine compute, between runs and for all processes.
type Speeds interface {
	// Of gives the rates of a span of so many blocks as they are known, or as measure finds
	// them, while no other process of this machine measures; fresh has them measured in any case.
	Of(ctx context.Context, blocks int, fresh bool, measure func() (blocks.Rates, error)) (r blocks.Rates, known bool, err error)
	// Keep remembers rates of a span of so many blocks.
	Keep(blocks int, r blocks.Rates) error
}

// measure finds the rates to announce: they are known from an earlier run, or measured.
func (s *Server) measure(ctx context.Context, c *container) error {
	s.mu.Lock()
	how := s.cfg.Measuring
	if how == MeasureNever {
		s.offered = s.cfg.Throughput
	}
	s.mu.Unlock()
	if how == MeasureNever {
		return nil
	}
	n, known := c.span.Len(), false
	run := func() (blocks.Rates, error) {
		r, err := c.engine.Measure(ctx, s.cfg.MeasureFor)
		return s.whole(r), err
	}
	var r blocks.Rates
	var err error
	if s.deps.Speeds == nil {
		r, err = run()
	} else {
		r, known, err = s.deps.Speeds.Of(ctx, n, how != MeasureAuto, run)
	}
	if err != nil {
		return fmt.Errorf("measure throughput: %w", err)
	}
	s.mu.Lock()
	s.rateLocked(r)
	_, offered := s.pacedLocked()
	rps, measured := s.network()
	s.mu.Unlock()
	s.log.Info("throughput", "inference_tok_s_per_block", r.Inference, "forward_tok_s_per_block", r.Forward, "network_tok_s", rps, "network_measured", measured, "offered_tok_s", offered, "known_from_before", known)
	if how == MeasureDryRun {
		return ErrDryRun
	}
	return nil
}

// whole is what was measured on a machine of which others left a part: that is not its speed.
func (s *Server) whole(r blocks.Rates) blocks.Rates {
	if s.deps.Left != nil {
		left := max(s.deps.Left(), leastLeft)
		r.Inference, r.Forward = r.Inference/left, r.Forward/left
	}
	return r
}

// rateLocked announces rates.
func (s *Server) rateLocked(r blocks.Rates) {
	s.rates.InferenceRPS, s.rates.ForwardRPS = &r.Inference, &r.Forward
	s.offered = balance.Offer(r.Forward, s.span.Len())
	s.figures, s.found = figures{}, &r
}

const (
	// drift is how far, as a share, live figures may leave those that are announced.
	drift = 0.2
	// liveLeast is how many iterations of a kind say something together.
	liveLeast = 64
	// liveGain is the weight of one of them.
	liveGain = 1.0 / 32
	// liveRows is how many rows make an iteration one of prompts: as many as are measured with.
	liveRows = 128
)

// figures are what sessions of the present span were computed with, in tokens per second through
// one block, on average over the last iterations: of a row alone, and of prompts.
type figures struct {
	inference, forward figure
}

type figure struct {
	mean float64 // seconds for a row through a block
	n    int
}

func (f *figure) add(seconds float64) {
	if f.n++; f.n == 1 {
		f.mean = seconds
	}
	f.mean += max(liveGain, 1/float64(f.n)) * (seconds - f.mean)
}

// left tells whether the figure has left an announced rate.
func (f *figure) left(announced float64) (rate float64, left bool) {
	if f.n < liveLeast || f.mean <= 0 || announced <= 0 {
		return 0, false
	}
	rate = 1 / f.mean
	return rate, rate < announced*(1-drift) || rate > announced*(1+drift)
}

// add takes an iteration in that went through so many blocks.
func (l *figures) add(took time.Duration, rows, blocks int) {
	each := took.Seconds() / float64(max(1, rows*blocks))
	switch {
	case rows == 1:
		l.inference.add(each)
	case rows >= liveRows:
		l.forward.add(each)
	}
}

// followSpeed announces what sessions are computed with where that has left what was measured,
// so that a machine that is throttled, or shared, says what it gives now.
func (s *Server) followSpeed() {
	s.mu.Lock()
	if s.rates.ForwardRPS == nil || s.rates.InferenceRPS == nil || s.deps.Left != nil { // that says it at once
		s.mu.Unlock()
		return
	}
	r, changed := blocks.Rates{Inference: *s.rates.InferenceRPS, Forward: *s.rates.ForwardRPS}, false
	was := r
	if rate, left := s.figures.inference.left(r.Inference); left {
		r.Inference, changed = rate, true
	}
	if rate, left := s.figures.forward.left(r.Forward); left {
		r.Forward, changed = rate, true
	}
	if changed {
		s.rateLocked(r)
		poke(s.publish)
	}
	n := s.span.Len()
	s.mu.Unlock()
	if !changed {
		return
	}
	s.log.Info("throughput has changed", "inference_tok_s_per_block", r.Inference, "was", was.Inference, "forward_tok_s_per_block", r.Forward, "before", was.Forward)
	if s.deps.Speeds != nil {
		if err := s.deps.Speeds.Keep(n, r); err != nil {
			s.log.Warn("throughput could not be kept for the next run", "reason", err)
		}
	}
}
