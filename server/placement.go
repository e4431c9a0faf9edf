package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/internal/backoff"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/health"
)

// lookEvery is how often a server looks whether blocks have lost their holders: such an alarm
// is a reason to decide at once, and not at the next check.
const lookEvery = 2 * time.Second

// shortest is the least time between two decisions.
const shortest = 100 * time.Millisecond

// choices is what a server remembers of its own choices of blocks.
type choices struct {
	mover balance.Mover
	past  health.Past
	rng   *rand.Rand
	holes map[int]time.Time // blocks that nobody holds, since when
}

// pinned tells whether there is nothing to choose: the operator chose, or all blocks fit.
func (s *Server) pinned() bool { return s.cfg.Span != nil || s.most == s.cfg.Manifest.Blocks }

// self is what balancing must know of this server beside its record.
func (s *Server) self(span *swarm.Span) balance.Self {
	s.mu.Lock()
	defer s.mu.Unlock()
	me := balance.Self{Peer: s.deps.Self, Span: span, Least: 1, Most: s.most, Pinned: s.pinned()}
	if s.cfg.NumBlocks > 0 {
		me.Least = s.most
	}
	switch {
	case s.cfg.Measuring == MeasureNever:
		me.Declared = s.cfg.Throughput
	case s.rates.ForwardRPS != nil:
		me.Rate = *s.rates.ForwardRPS
		me.Network, _ = s.network()
	}
	return me
}

// census is the present view as balancing sees it: count is balance.Count, or that of newcomers.
func (s *Server) census(ctx context.Context, count func(swarm.View, func(swarm.PeerID) bool) *balance.Census) (*balance.Census, swarm.View, error) {
	view, err := s.deps.Directory.View(ctx, s.uid)
	if err != nil {
		return nil, view, err
	}
	view.Manifest = s.cfg.Manifest // an empty swarm has none
	s.choosing.Lock()
	defer s.choosing.Unlock()
	now := time.Now()
	s.choices.past.See(view, now)
	return count(s.choices.past.Loads(view), func(p swarm.PeerID) bool { return s.choices.past.Unsteady(p, now) }), view, nil
}

// join chooses the span of a newcomer, which is announced before anything is loaded. Servers
// that start together would all choose the same blocks: each says that it chooses, hears of
// the others, and settles.
func (s *Server) join(ctx context.Context) (swarm.Span, error) {
	if s.pinned() {
		if s.cfg.Span != nil {
			return *s.cfg.Span, s.joining(ctx, *s.cfg.Span, nil, "")
		}
		span := swarm.Span{Start: 0, End: s.most}
		if err := s.joining(ctx, span, nil, ""); err != nil {
			return span, err
		}
		// A record that follows another at once may reach others an exchange later.
		if !backoff.Wait(ctx, min(s.cfg.Balance.Settle, time.Second)) {
			return span, ctx.Err()
		}
		return span, nil
	}
	for {
		census, _, err := s.census(ctx, balance.CountNew)
		if err != nil {
			return swarm.Span{}, fmt.Errorf("choose blocks: %w", err)
		}
		before := s.choices.mover.Intent()
		d := s.choices.mover.Next(s.cfg.Balance, census, s.self(nil), time.Now())
		s.decided(d)
		if next := s.choices.mover.Intent(); next != before {
			if err := s.joining(ctx, d.Span, next, d.Reason); err != nil {
				return d.Span, err
			}
		}
		if d.Do == balance.Go {
			return d.Span, nil
		}
		if !backoff.Wait(ctx, d.Again) {
			return d.Span, ctx.Err()
		}
	}
}

// joining announces what a newcomer intends.
func (s *Server) joining(ctx context.Context, span swarm.Span, next *swarm.Intent, why string) error {
	s.mu.Lock()
	s.span, s.state, s.next = &span, swarm.Joining, next
	s.mu.Unlock()
	if err := s.announce(ctx); err != nil {
		return err
	}
	s.log.Info("joining", "model", s.cfg.Manifest.Name, "blocks", span.String(), "why", why)
	return nil
}

// balancer decides again and again whether other blocks would be better, and has the server
// move, until ctx ends.
func (s *Server) balancer(ctx context.Context) {
	s.choices.mover.Loaded(time.Now())
	check := s.cfg.Balance.Check
	next, known := time.Now().Add(s.spread(check)), []swarm.Span(nil)
	for backoff.Wait(ctx, min(lookEvery, max(time.Until(next), shortest))) {
		census, view, err := s.census(ctx, balance.Count)
		if err != nil || s.pinned() {
			next = time.Now().Add(check)
		}
		if err != nil {
			continue
		}
		s.watchHoles(view)
		s.followSpeed()
		alarm, _ := census.Alarm()
		news := slices.ContainsFunc(alarm, func(a swarm.Span) bool {
			return !slices.ContainsFunc(known, func(k swarm.Span) bool { return k.Contains(a) })
		})
		known = alarm
		if s.pinned() || !news && time.Now().Before(next) {
			continue
		}
		s.mu.Lock()
		state, span, short := s.state, *s.span, s.memory.short != ""
		s.mu.Unlock()
		if state != swarm.Online || short { // what is loaded beside would take memory
			if s.choices.mover.Intent() != nil {
				s.choices.mover.Loaded(time.Now())
				s.intend(nil)
			}
			next = time.Now().Add(lookEvery)
			continue
		}
		before := s.choices.mover.Intent()
		d := s.choices.mover.Next(s.cfg.Balance, census, s.self(&span), time.Now())
		s.decided(d)
		if intent := s.choices.mover.Intent(); intent != before {
			s.log.Info("placement", "decision", d.Do.String(), "blocks", d.Span.String(), "why", d.Reason)
			s.intend(intent)
		}
		if d.Do == balance.Go {
			o := order{to: d.Span, why: d.Reason, cause: "throughput"}
			if d.Alarm {
				o.cause = "alarm"
			}
			if err := s.order(ctx, o); err != nil && ctx.Err() == nil {
				s.log.Warn("the server stays where it is: it could not move", "to", d.Span.String(), "reason", err)
			}
			s.choices.mover.Loaded(time.Now())
			s.intend(nil)
		}
		wait := d.Again
		if d.Do == balance.Stay && wait >= check {
			wait = s.spread(wait) // not in step with others
		}
		next = time.Now().Add(wait)
	}
}

// spread draws a time around a mean, so that servers do not check in step.
func (s *Server) spread(mean time.Duration) time.Duration {
	return time.Duration((0.5 + s.choices.rng.Float64()) * float64(mean))
}

// decided keeps a decision for those who ask.
func (s *Server) decided(d balance.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placement = placementOf(d)
}

func placementOf(d balance.Decision) *swarm.Placement {
	return &swarm.Placement{Do: d.Do.String(), Span: d.Span, To: d.Span.String(), Gain: d.Gain, Alarm: d.Alarm, Reason: d.Reason, At: time.Now()}
}

// watchHoles notes for how long blocks have no holder.
func (s *Server) watchHoles(v swarm.View) {
	now, missing := time.Now(), map[int]bool{}
	for _, span := range v.Missing() {
		for b := span.Start; b < span.End; b++ {
			missing[b] = true
			if _, known := s.choices.holes[b]; !known {
				s.choices.holes[b] = now
			}
		}
	}
	for b, since := range s.choices.holes {
		if !missing[b] {
			s.metrics.heals.Observe(now.Sub(since).Seconds())
			delete(s.choices.holes, b)
		}
	}
	s.metrics.holes.Set(float64(len(missing)))
}

// Consider says what the server would do about its blocks if nothing held it back: neither a
// pause after its last move nor others that gain more.
func (s *Server) Consider(ctx context.Context) (swarm.Placement, error) {
	s.mu.Lock()
	state := s.state
	var span swarm.Span
	if s.span != nil {
		span = *s.span
	}
	s.mu.Unlock()
	if state != swarm.Online {
		return swarm.Placement{}, errNotThere
	}
	census, _, err := s.census(ctx, balance.Count)
	if err != nil {
		return swarm.Placement{}, err
	}
	d := balance.Preview(s.cfg.Balance, census, s.self(&span))
	if d.Do == balance.Intend { // nothing is left to wait for
		d.Do = balance.Go
	}
	p := placementOf(d)
	p.From = span.String()
	return *p, nil
}

// Rebalance has the server move where Consider says so, and returns when it has.
func (s *Server) Rebalance(ctx context.Context) (swarm.Placement, error) {
	p, err := s.Consider(ctx)
	if err != nil || p.Do != balance.Go.String() {
		return p, err
	}
	s.mu.Lock()
	s.placement = &p
	s.mu.Unlock()
	return p, s.orderAndTell(ctx, order{to: p.Span, why: "the operator asked: " + p.Reason, cause: "operator"})
}
