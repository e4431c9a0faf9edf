package balance

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"

	"whorl/swarm"
)

// Census is a view as balancing sees it: how much serves each block, now and once all final
// intents are carried out, in sums that one record changes in the time of its span.
type Census struct {
	rate    []float64 // per block, tokens per second of those who will hold it
	holders []float64 // per block, those who will hold it, of those reached; an unsteady one counts for half
	rumours []float64 // per block, half of those who say that they will, and were not reached
	present []float64 // per block, those who hold it now and stay, and were reached
	busy    []float64 // per block, the sum of rate times load, of those who tell their load
	told    []float64 // per block, the rate of those who tell their load

	members  []member // sorted by peer
	middle   float64  // what a server without a figure counts for
	believed float64  // what one that nobody here has reached counts for at most
	moving   int      // online servers with an intent, of those reached
	choosing int
	version  int    // counts changes
	who      uint64 // changes when somebody comes or goes
	trusting bool   // a newcomer asks, who has reached few
	memo     memo
}

// memo is what was worked out of a census and holds until it changes: many servers ask one
// census in a simulation, and one server asks it again.
type memo struct {
	agreed   *Census // what comes of all open intents
	agreedAt int
	rank     *ranking
	rest     *Census // sums to work in
	s        scale
	sum      []float64
}

// member is one server of a census.
type member struct {
	peer   swarm.PeerID
	state  swarm.State
	span   swarm.Span
	next   *swarm.Intent
	rate   float64 // per block
	weight float64 // as a holder
	steady bool
	here   bool    // reached
	load   float64 // NaN if not told
	mark   uint64  // of the peer
}

// Weights of a holder. What nobody here has reached, or what comes and goes, is half of one.
const (
	sureHolder   = 1
	unsureHolder = 0.5
)

// Count makes a census of a view. unsteady tells of servers that came and went lately
// (health.Past); nil knows none.
func Count(v swarm.View, unsteady func(swarm.PeerID) bool) *Census { return counted(v, unsteady, 1) }

// CountNew is Count for a newcomer. It has not had the time to reach most of the swarm, and if it took all of them for equals it
// would go where nobody is needed: it takes their word for up to newcomerBelieves times the middle one.
func CountNew(v swarm.View, unsteady func(swarm.PeerID) bool) *Census {
	return counted(v, unsteady, newcomerBelieves)
}

// newcomerBelieves is what the fastest servers of a swarm give beside its middle one.
const newcomerBelieves = 4

func counted(v swarm.View, unsteady func(swarm.PeerID) bool, believed float64) *Census {
	n := v.Manifest.Blocks
	c := &Census{middle: middle(v)}
	c.believed = believed * c.middle
	for _, s := range []*[]float64{&c.rate, &c.holders, &c.rumours, &c.present, &c.busy, &c.told} {
		*s = make([]float64, n)
	}
	c.members = make([]member, 0, len(v.Servers))
	for i := range v.Servers { // sorted by peer, so that all get the same sums
		r := &v.Servers[i]
		if r.State >= swarm.Joining {
			m := c.member(r, v.Hearsay(r.Peer), unsteady != nil && unsteady(r.Peer))
			c.members = append(c.members, m)
			c.sum(&m, 1)
		}
	}
	return c
}

// Put brings a census up to date with one record; a server that leaves is taken out.
func (c *Census) Put(r *swarm.Record, hearsay, unsteady bool) {
	c.version++
	i, known := c.find(r.Peer)
	if known {
		c.sum(&c.members[i], -1)
	}
	switch {
	case r.State >= swarm.Joining && known:
		c.members[i] = c.member(r, hearsay, unsteady)
		c.sum(&c.members[i], 1)
	case r.State >= swarm.Joining:
		c.members = slices.Insert(c.members, i, c.member(r, hearsay, unsteady))
		c.sum(&c.members[i], 1)
	case known:
		c.members = slices.Delete(c.members, i, i+1)
	}
}

func (c *Census) find(p swarm.PeerID) (int, bool) {
	return slices.BinarySearchFunc(c.members, p, func(m member, p swarm.PeerID) int { return cmp.Compare(m.peer, p) })
}

// member reads a record: what nobody here has reached counts for no more than is believed.
func (c *Census) member(r *swarm.Record, hearsay, unsteady bool) member {
	m := member{peer: r.Peer, state: r.State, span: c.clip(r.Span), rate: r.Throughput, weight: sureHolder, steady: !unsteady, here: !hearsay, load: math.NaN(), mark: mark(r.Peer)}
	if r.Next != nil {
		m.next = &swarm.Intent{Span: c.clip(r.Next.Span), Open: r.Next.Open, Since: r.Next.Since}
	}
	if hearsay {
		m.rate = min(m.rate, c.believed)
	}
	if m.rate <= 0 {
		m.rate = c.unmeasured()
	}
	if hearsay || unsteady {
		m.weight = unsureHolder
	}
	if r.Load != nil && !hearsay && r.State == swarm.Online {
		m.load = r.Load.Busy
	}
	return m
}

// mark is a number that stands for a peer.
func mark(p swarm.PeerID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(p))
	return h.Sum64()
}

// unmeasured is what a server counts for that gives no figure: as much as the middle one.
func (c *Census) unmeasured() float64 {
	if c.middle > 0 {
		return c.middle
	}
	return 1
}

func (c *Census) clip(s swarm.Span) swarm.Span {
	return swarm.Span{Start: max(0, min(s.Start, len(c.rate))), End: max(0, min(s.End, len(c.rate)))}
}

// sum adds a member to all sums, or takes it out of them.
func (c *Census) sum(m *member, sign float64) {
	c.who ^= m.mark
	c.count(m, sign)
	if m.state == swarm.Online && m.next != nil && m.here { // what strangers claim takes nobody's turn
		c.moving += int(sign)
	}
	if m.next != nil && m.next.Open {
		c.choosing += int(sign)
	}
	if m.state == swarm.Online && !math.IsNaN(m.load) {
		for b := m.span.Start; b < m.span.End; b++ {
			c.busy[b] = rest(c.busy[b] + sign*m.rate*m.load)
			c.told[b] = rest(c.told[b] + sign*m.rate)
		}
	}
}

// count adds a member to those that will hold its blocks, and to those that do.
func (c *Census) count(m *member, sign float64) {
	future := m.span
	switch {
	case m.next != nil && !m.next.Open:
		future = m.next.Span
	case m.state == swarm.Joining && m.next != nil:
		future = swarm.Span{} // it still chooses
	}
	c.hold(m, future, m.rate, sign)
	if m.state == swarm.Online {
		c.stay(m, sign)
	}
}

// hold adds a holder of a span to what will be.
func (c *Census) hold(m *member, s swarm.Span, rate, sign float64) {
	holders := c.holders
	if !m.here {
		holders = c.rumours
	}
	for b := s.Start; b < s.End; b++ {
		c.rate[b] = rest(c.rate[b] + sign*rate)
		holders[b] = rest(holders[b] + sign*m.weight)
	}
}

// held is how many will hold a block. What nobody here has reached counts for half of one
// in all, or records that cost nothing would keep a hole from being healed. Only a newcomer
// takes their word: it has not had the time to reach most of the swarm.
func (c *Census) held(block int) float64 {
	if c.trusting {
		return c.holders[block] + c.rumours[block]
	}
	return c.holders[block] + min(c.rumours[block], unsureHolder)
}

// stay adds an online server to those that hold the blocks of its span and keep them.
func (c *Census) stay(m *member, sign float64) {
	if !m.here {
		return
	}
	for b := m.span.Start; b < m.span.End; b++ {
		if m.next == nil || m.next.Open || m.next.Span.Holds(b) {
			c.present[b] = rest(c.present[b] + sign*m.weight)
		}
	}
}

// rest clears what rounding leaves of a sum.
func rest(x float64) float64 {
	if x < 1e-9 {
		return 0
	}
	return x
}

// clone copies the sums that moves change; the members and loads are shared.
func (c *Census) clone() *Census {
	out := *c
	out.memo = memo{}
	out.rate, out.holders, out.rumours, out.present = slices.Clone(c.rate), slices.Clone(c.holders), slices.Clone(c.rumours), slices.Clone(c.present)
	return &out
}

// without is a census that does not count a server, whose member it returns if it has one.
// It is good until the next call.
func (c *Census) without(p swarm.PeerID) (*Census, *member) {
	i, ok := c.find(p)
	if !ok {
		return c, nil
	}
	return c.less(&c.members[i]), &c.members[i]
}

// less is the census without one of its members, good until the next call.
func (c *Census) less(m *member) *Census {
	out := c.memo.rest
	if out == nil {
		out = c.clone()
		c.memo.rest = out
	}
	copy(out.rate, c.rate)
	copy(out.holders, c.holders)
	copy(out.rumours, c.rumours)
	copy(out.present, c.present)
	out.members, out.busy, out.told, out.middle, out.believed, out.moving, out.choosing, out.trusting = c.members, c.busy, c.told, c.middle, c.believed, c.moving, c.choosing, c.trusting
	out.count(m, -1)
	return out
}

// telling is a census that counts a server as it is now: its record there may be older than
// its last word, or may not be there yet.
func (c *Census) telling(me *Self, intent *swarm.Intent) *Census {
	i, known := c.find(me.Peer)
	switch {
	case known && me.Span != nil && c.members[i].state == swarm.Online && c.members[i].span == *me.Span && same(c.members[i].next, intent):
		return c
	case known && me.Span == nil && c.members[i].state == swarm.Joining && same(c.members[i].next, intent):
		return c
	case !known && intent == nil: // it has announced nothing
		return c
	}
	r := swarm.Record{Peer: me.Peer, State: swarm.Joining, Next: intent, Span: swarm.Span{End: min(max(1, me.Most), len(c.rate))}}
	if me.Span != nil {
		r.State, r.Span = swarm.Online, *me.Span
	}
	unsteady := false
	if known {
		unsteady = !c.members[i].steady
	}
	out := c.clone()
	out.members, out.busy, out.told = slices.Clone(c.members), slices.Clone(c.busy), slices.Clone(c.told)
	if r.Throughput = me.offer(c, r.Span.Len()); known && c.members[i].span.Len() == r.Span.Len() {
		r.Throughput = c.members[i].rate
	}
	out.Put(&r, false, unsteady)
	return out
}

func same(a, b *swarm.Intent) bool { return a == b || a != nil && b != nil && *a == *b }

// Level is what an even spread would give each block, in tokens per second.
func (c *Census) Level() float64 {
	sum := 0.0
	for _, r := range c.rate {
		sum += r
	}
	return sum / float64(max(1, len(c.rate)))
}

// quality is the worst-served block, and its share of an even spread.
func (c *Census) quality() (block int, share float64) {
	for b, r := range c.rate {
		if r < c.rate[block] {
			block = b
		}
	}
	if level := c.Level(); level > 0 {
		return block, c.rate[block] / level
	}
	return block, 1
}

// alarmed tells whether there are alarms.
func (c *Census) alarmed() bool {
	for b := range c.holders {
		if c.held(b) < sureHolder {
			return true
		}
	}
	return false
}
