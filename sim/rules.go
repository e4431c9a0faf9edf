package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// Rule is a policy of placement that is compared.
type Rule interface {
	Name() string
	pilot() pilot         // for one stay of one server
	beside() bool         // whether a mover serves while it loads
	check() time.Duration // mean time between checks
}

// pilot decides for one server.
type pilot interface {
	next(w *world, s *server) balance.Decision
	intent() *swarm.Intent
	loaded(w *world)
}

// Rules are those that can be asked for, ours first.
func Rules() []string { return []string{"ours", "petals", "random", "greedy", "mind"} }

// RuleOf finds a rule by its name.
func RuleOf(name string) (Rule, error) {
	switch name {
	case "ours":
		return ours{balance.DefaultConfig()}, nil
	case "petals":
		return petals{moves: true, quality: petalsQuality}, nil
	case "greedy":
		return petals{}, nil
	case "mind":
		return mind{}, nil
	case "random":
		return petals{random: true}, nil
	}
	if share, ok := strings.CutPrefix(name, "petals:"); ok {
		if q, err := strconv.ParseFloat(share, 64); err == nil && q > 0 && q <= 1 {
			return petals{moves: true, quality: q}, nil
		}
		return nil, fmt.Errorf("policy %q: want a quality above 0 and up to 1, as in petals:0.9", name)
	}
	return nil, fmt.Errorf("policy %q: want one of %s", name, strings.Join(Rules(), ", "))
}

// ours is the product's own.
type ours struct{ cfg balance.Config }

func (o ours) Name() string         { return "ours" }
func (o ours) pilot() pilot         { return &ourPilot{cfg: o.cfg} }
func (o ours) beside() bool         { return true }
func (o ours) check() time.Duration { return o.cfg.Check }

type ourPilot struct {
	cfg   balance.Config
	mover balance.Mover
	known []swarm.Span // that alarms were about
}

// lookEvery is how often a server looks for new alarms, as package server does: one has it decide at once.
const lookEvery = 2 * time.Second

// alarmed tells whether a census has an alarm that the last one had not.
func (p *ourPilot) alarmed(c *balance.Census) bool {
	now, _ := c.Alarm()
	news := slices.ContainsFunc(now, func(a swarm.Span) bool {
		return !slices.ContainsFunc(p.known, func(k swarm.Span) bool { return k.Contains(a) })
	})
	p.known = now
	return news
}

func (p *ourPilot) next(w *world, s *server) balance.Decision {
	me := s.Self
	me.Rate *= s.boast
	return p.mover.Next(p.cfg, w.views.census(s), me, w.clock())
}

func (p *ourPilot) intent() *swarm.Intent { return p.mover.Intent() }
func (p *ourPilot) loaded(w *world)       { p.mover.Loaded(w.clock()) }

// petals is Petals' rule, and its choice alone: greedy is the first choice and no move,
// random not even that.
type petals struct {
	moves, random bool
	quality       float64 // --balance_quality
}

// Petals' own figures.
const (
	petalsQuality = 0.75
	petalsCheck   = time.Minute
	petalsDelay   = 5 * time.Second // mean, before a choice
)

func (p petals) Name() string {
	switch {
	case p.moves && p.quality != petalsQuality:
		return fmt.Sprint("petals:", p.quality)
	case p.moves:
		return "petals"
	case p.random:
		return "random"
	}
	return "greedy"
}

func (p petals) pilot() pilot         { return &petalsPilot{petals: p} }
func (p petals) beside() bool         { return false } // it shuts its blocks down and starts anew
func (p petals) check() time.Duration { return petalsCheck }

type petalsPilot struct {
	petals
	delayed bool
	going   *swarm.Intent
}

func (p *petalsPilot) intent() *swarm.Intent { return p.going }

func (p *petalsPilot) loaded(*world) { p.delayed, p.going = false, nil }

func (p *petalsPilot) next(w *world, s *server) balance.Decision {
	rng := s.draws(w)
	if s.Span != nil && !p.delayed {
		if !p.moves || !(balance.Petals{Quality: p.quality}).Moves(w.views.view(s), s.Peer, rng) {
			return balance.Decision{Span: *s.Span, Again: time.Duration(rng.Float64() * float64(2*petalsCheck))}
		}
	}
	if !p.delayed {
		p.delayed = true
		if s.Span != nil { // its container is shut down before it chooses
			w.serve(s, nil)
			w.announce(s, swarm.Offline, *s.Span, nil)
			s.left, s.Span = s.Span, nil
		}
		return balance.Decision{Span: swarm.Span{End: s.Most}, Again: time.Duration(rng.Float64() * float64(2*petalsDelay))}
	}
	var to swarm.Span
	if p.random {
		to.Start = rng.IntN(w.sc.Blocks - s.Most + 1)
		to.End = to.Start + s.Most
	} else {
		to = balance.Choose(w.views.view(s), s.Peer, s.Most)
	}
	p.going = &swarm.Intent{Span: to}
	return balance.Decision{Do: balance.Go, Span: to}
}

// draws is a source for what a policy draws: it must not disturb what befalls the server.
func (s *server) draws(w *world) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(s.id), uint64(w.now)))
}
