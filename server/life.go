package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"whorl/server/admission"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
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
	plan, err := s.plan(s.cfg.NumBlocks)
	if err != nil {
		return err
	}
	s.log.Info("memory plan", "plan", plan.String())
	s.budgets(plan.Queues, plan.Passes)
	s.mu.Lock()
	s.most = plan.Blocks
	if s.cfg.Measuring == MeasureNever && !s.pinned() {
		s.offered = s.cfg.Throughput // others reckon with it while they choose
	}
	s.mu.Unlock()
	span, err := s.join(ctx)
	if err != nil {
		s.leave(ctx)
		return err
	}
	if span.Len() != plan.Blocks {
		if plan, err = s.plan(span.Len()); err != nil {
			s.leave(ctx)
			return err
		}
	}
	defer func() { s.unload(s.container) }()
	if err := s.prepare(ctx, span, plan); err != nil {
		s.leave(ctx)
		return err
	}
	return s.serve(ctx)
}

// prepare loads and measures the blocks. To fetch them may take hours, and a record lives for
// seconds: it is announced anew meanwhile.
func (s *Server) prepare(ctx context.Context, span swarm.Span, plan MemoryPlan) error {
	telling, stop := context.WithCancel(ctx)
	var announcer sync.WaitGroup
	announcer.Go(func() { s.announcer(telling, s.cfg.Timeouts.Update) })
	defer announcer.Wait()
	defer stop()
	c, err := s.load(ctx, span, plan, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.container, s.room = c, plan
	s.mu.Unlock()
	return s.measure(ctx, c)
}

// plan finds out what fits into memory, of so many blocks or, for 0, of as many as there is
// room for.
func (s *Server) plan(blocks int) (MemoryPlan, error) {
	cfg := s.cfg
	cfg.NumBlocks = blocks
	return cfg.Plan(s.deps.Loader.Sizes(), s.cfg.Manifest.Blocks)
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
	if e, ok := engine.(grained); ok {
		c.queue.Grain(e.Grain())
	}
	if c.cache, err = kvcache.New(pages, engine.PageBytes()); err == nil {
		s.mu.Lock()
		c.admits, err = admission.New(s.admissionLocked(plan.CacheToken))
		s.mu.Unlock()
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

// serve is online until ctx ends.
func (s *Server) serve(ctx context.Context) error {
	s.intend(nil)
	s.mu.Lock()
	s.openLocked()
	what := map[swarm.State]string{swarm.Online: "online", swarm.Draining: "loaded, and drained"}[s.state]
	s.mu.Unlock()
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
	loops.Go(func() { s.announcer(work, 0) })
	loops.Go(func() { s.sweeper(work) })
	loops.Go(func() { s.balancer(ctx) })
	if s.deps.Memory != nil {
		loops.Go(func() { s.watchMemory(work) })
	}
	if s.cfg.StatsEvery > 0 {
		loops.Go(func() { s.reporter(work) })
	}
	s.mu.Lock()
	total := s.cache.Stats().TotalTokens // a client may have been quick
	s.mu.Unlock()
	s.log.Info(what, "model", s.cfg.Manifest.Name, "blocks", s.span.String(), "cache_tokens", total)
	close(s.ready)
	s.keep(ctx, work)

	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.Drain(0)
	s.hurry()
	s.log.Info("draining")
	s.Emptied(context.WithoutCancel(ctx), func(int) {}) // the sweeper ends those that stay too long
	stop()
	s.rest(s.container)
	for _, c := range slices.Clone(s.left) {
		s.discard(c)
	}
	noMore()
	loops.Wait() // the announcer must not speak after the last word
	s.leave(ctx)
	return nil
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
