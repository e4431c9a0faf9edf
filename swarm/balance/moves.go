package balance

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"whorl/swarm"
	"whorl/swarm/health"
)

// move is where a server that serves, and that the census does not count, should go: the
// place, with what it gains there. nil if it should stay, and why.
func (c *Census) move(cfg Config, me *Self, weight float64) (*place, string) {
	s := c.scale(me.offer(c, me.Span.Len()) * float64(me.Span.Len()))
	keep := c.needed(*me.Span)
	to := c.best(s, me, weight, cfg.Shorter, keep)
	if keep.Len() > 0 && to.span.Len() == 0 || to.span == *me.Span {
		if keep.Len() > 0 {
			return nil, fmt.Sprintf("%s would be left without a steady holder", health.Blocks([]swarm.Span{keep}))
		}
		return nil, fmt.Sprintf("it is worth most where it is, at %v", *me.Span)
	}
	here := c.worth(s, *me.Span, me.offer(c, me.Span.Len()), weight)
	to.gain, to.lift = gain(here, to.worth), to.worth-here
	if to.gain < cfg.Gain {
		return nil, fmt.Sprintf("%v would be worth %s more than %v, and %s is asked", to.span, percent(to.gain), *me.Span, percent(cfg.Gain))
	}
	return &to, ""
}

// gain is how many times as much one worth is as another, beyond 1.
func gain(here, there float64) float64 {
	switch {
	case there <= here:
		return 0
	case here*(MaxGain+1) <= there:
		return MaxGain
	}
	return there/here - 1
}

// worth of a server that the census does not count on a span.
func (c *Census) worth(s scale, span swarm.Span, rate, weight float64) float64 {
	var sum float64
	for b := span.Start; b < min(span.End, len(c.rate)); b++ {
		sum += value((c.rate[b]+rate)*s[b], c.holders[b]+weight) - value(c.rate[b]*s[b], c.holders[b])
	}
	return sum
}

// needed are the blocks of a span, from the first to the last, that would be left without a
// steady holder if a server that the census does not count gave them up.
func (c *Census) needed(span swarm.Span) swarm.Span {
	var keep swarm.Span
	for b := span.Start; b < min(span.End, len(c.present)); b++ {
		if c.present[b] < sureHolder {
			if keep.Len() == 0 {
				keep.Start = b
			}
			keep.End = b + 1
		}
	}
	return keep
}

// self is what a census knows of another server, as if it were the one that asks.
func (m *member) self() Self {
	span, n := m.span, m.span.Len()
	return Self{Peer: m.peer, Span: &span, Most: n, Rate: m.rate * float64(n+1) / 2}
}

// chooser is a server that has announced an open intent.
type chooser struct {
	Self
	*member
}

// choosers lists them in the order in which they are asked: who began first, then by peer.
func (c *Census) choosers() (all []*chooser) {
	for i := range c.members {
		if m := &c.members[i]; m.next != nil && m.next.Open {
			x := &chooser{m.self(), m}
			if m.state == swarm.Joining { // what it offers is for the span that it intends
				x.Self = Self{Peer: m.peer, Most: m.span.Len(), Declared: m.rate}
			}
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *chooser) int { return cmp.Compare(a.next.Since, b.next.Since) })
	return all
}

// agree goes through all that choose at this time, as everybody with the same view does,
// and changes the census to what comes of it. In their order each keeps the place that it
// has announced if that is still nearly the best; a newcomer that cannot keep it chooses
// again, around all the others, when all have been asked, and who serves stays where it is.
// It ends at the server that asks: the result is its place, or its gain; nil if it has
// announced none, or lost it.
func (c *Census) agree(cfg Config, self swarm.PeerID) *place {
	var again []*chooser
	for _, x := range c.choosers() {
		claim := c.join
		if x.Span != nil {
			claim = c.leave
		}
		p := claim(cfg, x)
		if x.Peer == self && (p != nil || x.Span != nil) {
			return p
		}
		if p == nil && x.Span == nil {
			again = append(again, x)
		}
	}
	for _, x := range again {
		p := c.best(c.scale(0), &x.Self, x.weight, cfg.Shorter, swarm.Span{})
		if x.Peer == self {
			return &p
		}
		c.hold(p.span, x.offer(c, p.span.Len()), x.weight, 1)
	}
	return nil
}

// join lets a newcomer keep what it announced; nil if it has announced no place, or is
// needed less there by now.
func (c *Census) join(cfg Config, x *chooser) *place {
	s, span := c.scale(0), x.next.Span
	if span.Len() == 0 { // it has none yet
		return nil
	}
	rate := x.offer(c, span.Len())
	p := place{span: span, worth: c.worth(s, span, rate, x.weight)}
	if p.worth < nearly*c.best(s, &x.Self, x.weight, cfg.Shorter, swarm.Span{}).worth {
		return nil
	}
	c.hold(span, rate, x.weight, 1)
	return &p
}

// leave lets a server that serves go where it announced, and gives its gain; nil if it is
// needed where it is.
func (c *Census) leave(cfg Config, x *chooser) *place {
	old, span := *x.Span, x.next.Span
	here, there := x.offer(c, old.Len()), x.offer(c, span.Len())
	c.hold(old, here, x.weight, -1)
	c.stay(x.member, -1)
	s := c.scale(here * float64(old.Len()))
	p := place{span: span, gain: gain(c.worth(s, old, here, x.weight), c.worth(s, span, there, x.weight))}
	if keep := c.needed(old); p.gain < cfg.Gain*nearly || keep.Len() > 0 && !span.Contains(keep) {
		c.hold(old, here, x.weight, 1)
		c.stay(x.member, 1)
		return nil
	}
	c.hold(span, there, x.weight, 1)
	left := *x.member
	left.next = &swarm.Intent{Span: span}
	c.stay(&left, 1)
	return &p
}

// nearly is the share of the best place, or of the asked gain, that must be left of what
// was announced.
const nearly = 0.9

// sampled is how many others are asked at most whether they gain more.
const sampled = 512

// gainMore counts the servers that gain more by a move than this one, those among equals
// whose peers come first included; 0 if they are fewer than slots. In a large swarm a
// sample is asked.
func (c *Census) gainMore(cfg Config, self swarm.PeerID, mine float64, alarms []swarm.Span, alarm bool, slots int) int {
	step := max(1, len(c.members)/sampled)
	more := 0
	for i := int(hash(self) % uint64(step)); i < len(c.members); i += step {
		m := &c.members[i]
		if m.peer == self || m.state != swarm.Online || m.next != nil || !m.here {
			continue
		}
		rest, _ := c.without(m.peer)
		s := m.self()
		to, _ := rest.move(cfg, &s, m.weight)
		if to == nil || alarm && !slices.ContainsFunc(alarms, func(a swarm.Span) bool { return overlap(a, to.span) && !m.span.Contains(a) }) {
			continue
		}
		if to.lift > mine*(1+tie) || to.lift >= mine*(1-tie) && m.peer < self {
			if more++; more*step >= slots {
				continue
			}
		}
	}
	if more *= step; more < slots {
		return 0
	}
	return more
}

// hash spreads peers evenly, the same everywhere (FNV-1a).
func hash(p swarm.PeerID) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(p) {
		h = (h ^ uint64(p[i])) * 1099511628211
	}
	return h
}

func overlap(a, b swarm.Span) bool { return a.Start < b.End && b.Start < a.End }

// percent writes a share.
func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 0, 64) + " %" }
