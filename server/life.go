package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"whorl/server/admission"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/balance"
)

// sweepEvery is how often sessions are looked after.
const sweepEvery = 250 * time.Millisecond

// Run is the server's life: plan memory, choose a span, announce it, load, measure, go
// online and serve until ctx ends; then drain, announce OFFLINE and free everything. It
// returns nil when ctx ended it, ErrDryRun after a dry run, or why it could not serve.
// Stop it only when no more streams are handed in, or they are refused.
func (s *Server) Run(ctx context.Context) error {
	err := s.live(ctx)
	if end := ctx.Err(); end != nil && (errors.Is(err, end) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

func (s *Server) live(ctx context.Context) error {
	plan, err := s.plan()
	if err != nil {
		return err
	}
	s.log.Info("memory plan", "plan", plan.String())
	s.budgets(plan.Queues)
	span, err := s.join(ctx, plan.Blocks)
	if err != nil {
		s.leave(ctx)
		return err
	}
	c, err := s.load(ctx, span, plan, nil)
	if err != nil {
		s.leave(ctx)
		return err
	}
	s.mu.Lock()
	s.container, s.room = c, plan
	s.mu.Unlock()
	defer func() { s.unload(s.container) }()
	if err := s.measure(ctx, c.engine, span); err != nil {
		s.leave(ctx)
		return err
	}
	return s.serve(ctx)
}

// plan finds out what fits into memory.
func (s *Server) plan() (MemoryPlan, error) {
	return s.cfg.Plan(s.deps.Loader.Sizes(), s.cfg.Manifest.Blocks)
}

// join chooses the span and announces it before anything is loaded. Servers that start
// together would all choose the same blocks: each says what it intends, waits a little,
// and looks again.
func (s *Server) join(ctx context.Context, n int) (swarm.Span, error) {
	span, err := s.choose(ctx, n)
	if err != nil {
		return span, err
	}
	for again := s.cfg.Span == nil; ; again = false {
		s.mu.Lock()
		s.span, s.state = &span, swarm.Joining
		s.mu.Unlock()
		if err := s.announce(ctx); err != nil {
			return span, err
		}
		s.log.Info("joining", "model", s.cfg.Manifest.Name, "blocks", span.String())
		if !again {
			return span, nil
		}
		rng := rand.New(rand.NewPCG(s.cfg.Seed, 0))
		if !sleep(ctx, time.Duration(rng.Float64()*float64(s.cfg.JoinDelay))) {
			return span, ctx.Err()
		}
		better, err := s.choose(ctx, n)
		if err != nil || better == span {
			return span, err
		}
		span = better
	}
}

func (s *Server) choose(ctx context.Context, n int) (swarm.Span, error) {
	if s.cfg.Span != nil {
		return *s.cfg.Span, nil
	}
	view, err := s.deps.Directory.View(ctx, s.uid)
	if err != nil {
		return swarm.Span{}, fmt.Errorf("choose blocks: %w", err)
	}
	view.Manifest = s.cfg.Manifest // an empty swarm has none
	return balance.Choose(view, s.deps.Self, n), nil
}

// load loads the blocks and makes the cache.
func (s *Server) load(ctx context.Context, span swarm.Span, plan MemoryPlan, keep Engine) (*container, error) {
	start := time.Now()
	s.mu.Lock()
	for b := span.Start; b < span.End; b++ {
		if _, held := s.loading[b]; !held {
			s.loading[b] = swarm.BlockStatus{Index: b, State: "loading"}
		}
	}
	s.mu.Unlock()
	pages := kvcache.PagesFor(plan.CacheToken)
	engine, err := s.deps.Loader.Load(ctx, span.Start, span.End, pages, keep, func(b blocks.Info) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loading[b.Index] = blockStatus(b, "loaded")
	})
	if err != nil {
		s.mu.Lock()
		maps.DeleteFunc(s.loading, func(b int, st swarm.BlockStatus) bool { return span.Holds(b) && st.State == "loading" })
		s.mu.Unlock()
		return nil, fmt.Errorf("load blocks %v of %s: %w", span, s.cfg.Manifest.Name, err)
	}
	c := newContainer()
	c.span, c.engine = &span, engine
	if c.cache, err = kvcache.New(pages, engine.PageBytes()); err == nil {
		c.admits, err = admission.New(s.admission(plan.CacheToken))
	}
	if err != nil {
		engine.Close()
		return nil, err
	}
	s.log.Info("loaded", "blocks", span.String(), "took", time.Since(start).Round(time.Millisecond).String())
	return c, nil
}

// maxLength is the longest session the server takes.
func (s *Server) maxLength(cache int) int {
	if s.cfg.MaxLength > 0 {
		return min(s.cfg.MaxLength, cache)
	}
	return cache
}

// measure finds the rates to announce.
func (s *Server) measure(ctx context.Context, e Engine, span swarm.Span) error {
	if s.cfg.Measuring == MeasureNever {
		s.mu.Lock()
		s.offered = s.cfg.Throughput
		s.mu.Unlock()
		return nil
	}
	r, err := e.Measure(ctx, s.cfg.MeasureFor)
	if err != nil {
		return fmt.Errorf("measure throughput: %w", err)
	}
	// A request enters a span anywhere, so on average it uses half of it.
	offered := r.Forward / (float64(span.Len()+1) / 2)
	s.mu.Lock()
	s.rates.InferenceRPS, s.rates.ForwardRPS, s.offered = &r.Inference, &r.Forward, offered
	if s.deps.Left != nil {
		s.leftMeasured = s.deps.Left()
	}
	s.mu.Unlock()
	s.log.Info("throughput", "inference_tok_s_per_block", r.Inference, "forward_tok_s_per_block", r.Forward, "network", "not measured", "offered_tok_s", offered)
	if s.cfg.Measuring == MeasureDryRun {
		return ErrDryRun
	}
	return nil
}

// serve is online until ctx ends.
func (s *Server) serve(ctx context.Context) error {
	s.setState(swarm.Online)
	if err := s.announce(ctx); err != nil {
		s.leave(ctx)
		s.endAll() // a client may have been quick
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	notes, noMore := context.WithCancel(context.WithoutCancel(ctx))
	loops.Go(func() { s.notary.run(notes) })
	s.compute(work, s.container)
	loops.Go(func() { s.announcer(work) })
	loops.Go(func() { s.sweeper(work) })
	if s.cfg.StatsEvery > 0 {
		loops.Go(func() { s.reporter(work) })
	}
	s.mu.Lock()
	total := s.cache.Stats().TotalTokens // a client may have been quick
	s.mu.Unlock()
	s.log.Info("online", "model", s.cfg.Manifest.Name, "blocks", s.span.String(), "cache_tokens", total)
	close(s.ready)
	s.keep(ctx, work)

	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.Drain()
	s.log.Info("draining")
	s.emptied()
	stop()
	s.container.loops.Wait()
	for _, c := range slices.Clone(s.left) {
		s.discard(c)
	}
	noMore()
	loops.Wait() // the announcer must not speak after the last word
	s.leave(ctx)
	return nil
}

// emptied waits until no session is left; the sweeper ends those that stay too long.
func (s *Server) emptied() {
	for {
		s.mu.Lock()
		n, c := len(s.byKey), s.changed.next()
		s.mu.Unlock()
		if n == 0 {
			return
		}
		<-c
	}
}

// endAll ends what sessions there are.
func (s *Server) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byKey {
		x.finishLocked(errDraining(s.deps.Self))
	}
}

// leave announces OFFLINE, if anything was announced.
func (s *Server) leave(ctx context.Context) {
	s.setState(swarm.Offline)
	s.mu.Lock()
	known := s.span != nil
	s.mu.Unlock()
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.announce(ctx); err != nil {
		s.log.Warn("could not announce leaving", "reason", err)
	}
}

func (s *Server) sweeper(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			s.sweep(now)
		case <-s.freed:
			s.place(time.Now())
		}
	}
}

// sleep waits; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
