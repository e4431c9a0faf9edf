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
		return nil, fmt.Sprintf("it would be worth little more at %v than at %v", to.span, *me.Span)
	}
	return &to, ""
}

// lifts is the block of a span that needs a server most, without those that it holds already,
// and its share of an even spread before and after. The census does not count the server.
func (c *Census) lifts(to, from swarm.Span, rate float64) (block int, before, after float64) {
	level := c.Level() + rate*float64(to.Len())/float64(max(1, len(c.rate)))
	if block = to.Start; from.Holds(block) && from.End < to.End {
		block = from.End
	}
	for b := to.Start; b < to.End; b++ {
		if !from.Holds(b) && c.rate[b] < c.rate[block] {
			block = b
		}
	}
	return block, c.rate[block] / level, (c.rate[block] + rate) / level
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
		h := c.held(b)
		sum += value((c.rate[b]+rate)*s[b], h+weight) - value(c.rate[b]*s[b], h)
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
// and changes the census to what comes of it. In their order newcomers keep the place that
// they have announced, servers that serve go where they have announced if they still gain by
// it, and then newcomers that have no place yet take the best one around all the others. It
// ends at the server that asks: the result is its place, or its gain; nil if it has
// announced none, or lost it. A newcomer whose place is needed less by then chooses again.
func (c *Census) agree(cfg Config, self swarm.PeerID) *place {
	s := slices.Clone(c.scale(0))
	var again []*chooser
	for _, x := range c.choosers() {
		mine := x.Peer == self
		switch span := x.next.Span; {
		case x.Span != nil:
			if p := c.leave(cfg, s, x); mine {
				return p
			}
		case span.Len() == 0:
			again = append(again, x)
		case mine:
			p := place{span: span, worth: c.worth(s, span, x.offer(c, span.Len()), x.weight)}
			if p.worth >= nearly*c.best(s, &x.Self, x.weight, cfg.Shorter, swarm.Span{}).worth {
				return &p
			}
			again = append(again, x)
		default:
			c.hold(x.member, span, x.offer(c, span.Len()), 1)
		}
	}
	for _, x := range again {
		p := c.best(s, &x.Self, x.weight, cfg.Shorter, swarm.Span{})
		if x.Peer == self {
			return &p
		}
		c.hold(x.member, p.span, x.offer(c, p.span.Len()), 1)
	}
	return nil
}

// leave lets a server that serves go where it announced, and gives its gain; nil if it is
// needed where it is.
func (c *Census) leave(cfg Config, s scale, x *chooser) *place {
	old, span := *x.Span, x.next.Span
	here, there := x.offer(c, old.Len()), x.offer(c, span.Len())
	c.hold(x.member, old, here, -1)
	c.stay(x.member, -1)
	p := place{span: span, gain: gain(c.worth(s, old, here, x.weight), c.worth(s, span, there, x.weight))}
	if keep := c.needed(old); p.gain < cfg.Gain*nearly || keep.Len() > 0 && !span.Contains(keep) {
		c.hold(x.member, old, here, 1)
		c.stay(x.member, 1)
		return nil
	}
	c.hold(x.member, span, there, 1)
	left := *x.member
	left.next = &swarm.Intent{Span: span}
	c.stay(&left, 1)
	return &p
}

// nearly is the share of the best place, or of the asked gain, that must be left of what
// was announced.
const nearly = 0.9

// settled is the census once all open intents are settled; the census itself if there are
// none.
func (c *Census) settled(cfg Config) *Census {
	if c.choosing == 0 {
		return c
	}
	if m := &c.memo; m.agreed == nil || m.agreedAt != c.version {
		m.agreed, m.agreedAt = c.clone(), c.version
		m.agreed.agree(cfg, "")
	}
	return c.memo.agreed
}

// sampled is how many others are asked at most whether they gain more, in a large swarm.
const sampled = 512

// ranking is what others would lift the swarm by.
type ranking struct {
	version, step int
	moves         []ranked
}

type ranked struct {
	place
	peer swarm.PeerID
	from swarm.Span
}

// rank works out what others would do. In a large swarm a sample is asked, and a ranking
// holds until a hundredth of the servers have changed.
func (c *Census) rank(cfg Config, settled *Census) *ranking {
	if r := c.memo.rank; r != nil && c.version-r.version <= len(c.members)/100 {
		return r
	}
	r := &ranking{version: c.version, step: max(1, len(c.members)/sampled)}
	for i := 0; i < len(c.members); i += r.step {
		m := &c.members[i]
		if m.state != swarm.Online || m.next != nil || !m.here {
			continue
		}
		s := m.self()
		if to, _ := settled.less(m).move(cfg, &s, m.weight); to != nil {
			r.moves = append(r.moves, ranked{*to, m.peer, m.span})
		}
	}
	c.memo.rank = r
	return r
}

// gainMore counts the servers whose move lifts the swarm by more than that of the one that
// asks, those among equals whose peers come first included; 0 if they are fewer than slots.
// After an alarm only moves that end it count.
func (c *Census) gainMore(cfg Config, settled *Census, self swarm.PeerID, lift float64, alarms []swarm.Span, alarm bool, slots int) int {
	r := c.rank(cfg, settled)
	more := 0
	for i := range r.moves {
		m := &r.moves[i]
		switch {
		case m.peer == self:
		case alarm && !slices.ContainsFunc(alarms, func(a swarm.Span) bool { return overlap(a, m.span) && !m.from.Contains(a) }):
		case m.lift > lift*(1+tie) || m.lift >= lift*(1-tie) && m.peer < self:
			more += r.step
		}
	}
	if more < slots {
		return 0
	}
	return more
}

func overlap(a, b swarm.Span) bool { return a.Start < b.End && b.Start < a.End }

// percent writes a share.
func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 0, 64) + " %" }
