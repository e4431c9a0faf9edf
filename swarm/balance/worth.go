package balance

import (
	"math"

	"whorl/swarm"
)

// Self is what a server knows of itself beside its record.
type Self struct {
	Peer swarm.PeerID
	// Span is what it holds; nil for a newcomer.
	Span *swarm.Span
	// Least and Most are how many blocks it may hold. Most is what memory has room for.
	Least, Most int
	// Rate is what it computes, in tokens per second through one block; 0 is not measured.
	Rate float64
	// Network is how many rows a second pass its link, however many blocks it holds; 0 for any
	// number.
	Network float64
	// Declared is what the operator says that it offers, per block, however many blocks it
	// holds; 0 leaves that to Rate.
	Declared float64
	// Pinned says that the operator chose the blocks.
	Pinned bool
}

// Offer is what a server that computes so many tokens per second through one block offers
// each block of a span of n. A request enters a span anywhere, so on average it uses half.
func Offer(rate float64, n int) float64 { return rate / (float64(n+1) / 2) }

// offer is what the server gives each block of a span of n.
func (s *Self) offer(c *Census, n int) float64 {
	switch {
	case s.Declared > 0:
		return s.Declared
	case s.Rate > 0 && s.Network > 0:
		return min(Offer(s.Rate, n), s.Network)
	case s.Rate > 0:
		return Offer(s.Rate, n)
	}
	return c.unmeasured()
}

// What a block is worth to the swarm, by its share of an even spread and its holders. The
// figures are pure numbers; only their ratios count.
const (
	// steep is how fast the value of a block falls with its share, as a power of it: a tenth
	// less than another counts thirty times as much. Less of it leaves the worst block behind
	// (docs/sim.md); with more of it hardly any block but the worst counts.
	steep = 32
	// bare is the share below which the value falls no faster.
	bare = 0.5
	// hole weighs that a block has no holder at all: above all else.
	hole = 1e13
	// lone weighs that a block depends on one unsteady server, spare that it has no second.
	lone  = 1e12
	spare = 0.2
)

// power is x to the power of -steep.
func power(x float64) float64 {
	x2 := x * x
	x4 := x2 * x2
	x8 := x4 * x4
	x16 := x8 * x8
	return 1 / (x16 * x16)
}

// value of a block that has so much of an even spread, and so many holders: it falls
// steeply where little is left, so that the worst-served block counts most, and flattens
// where there is plenty. What a server adds to a block is a difference of two values. Every
// move raises the sum over all blocks, which is why moves end.
func value(share, holders float64) float64 {
	v := -power(max(share, bare))
	if share < bare {
		v *= 1 + steep*(1-share/bare)
	}
	if holders < unsureHolder {
		v -= hole * (1 - holders/unsureHolder)
	}
	if holders < 1 {
		v -= lone * (1 - holders) * (1 - holders)
	}
	if holders < 2 {
		v -= spare * (2 - holders)
	}
	return v
}

// scale turns tokens per second into shares of an even spread, per block.
type scale []float64

// scale takes a server's own contribution into account, and load where it is told: every
// token goes through every block, so a block whose holders are busier than what they
// offer explains is worse served than they say. Half or twice is believed at most, and
// less while the swarm has little to do. The result is good until the next call.
func (c *Census) scale(own float64) scale {
	const busyEnough, most = 0.5, 2.0
	n := len(c.rate)
	level := c.Level() + own/float64(max(1, n))
	if level <= 0 {
		level = 1
	}
	if len(c.memo.s) != n {
		c.memo.s = make(scale, n)
	}
	s := c.memo.s
	for b := range s {
		s[b] = 1 / level
	}
	flow, busy, blocks := 0.0, 0.0, 0
	for b := range s {
		if c.told[b] > 0 {
			flow += c.busy[b] / c.told[b] * c.rate[b]
			busy += c.busy[b] / c.told[b]
			blocks++
		}
	}
	if blocks < n || flow <= 0 { // some block tells nothing: no comparison
		return s
	}
	flow, busy = flow/float64(n), busy/float64(n)
	trust := min(1, busy/busyEnough)
	for b := range s {
		if f := c.busy[b] / c.told[b] * c.rate[b]; f > 0 {
			s[b] *= math.Pow(min(max(flow/f, 1/most), most), trust)
		}
	}
	return s
}

// gains sums what a server of this rate and weight would add, from block 0 up to each
// block: gains[b] is for the blocks below b.
func (c *Census) gains(s scale, rate, weight float64, into []float64) []float64 {
	sum := append(into[:0], 0)
	for b, r := range c.rate {
		h := c.held(b)
		sum = append(sum, sum[b]+value((r+rate)*s[b], h+weight)-value(r*s[b], h))
	}
	return sum
}

// place is a span and what a server is worth there; of a move also what it gains, and by
// how much the swarm does.
type place struct {
	span              swarm.Span
	worth, gain, lift float64
}

// best is where a server that the census does not count is worth most: the leftmost on a
// tie. A span of less than the full length must be worth more by a share of shorter. keep
// are blocks that it must hold on to.
func (c *Census) best(s scale, me *Self, weight, shorter float64, keep swarm.Span) place {
	n := len(c.rate)
	most := max(1, min(me.Most, n))
	least := most
	if me.Least > 0 {
		least = min(me.Least, most)
	}
	best, needs := place{worth: math.Inf(-1)}, math.Inf(-1)
	buf := c.memo.sum
	defer func() { c.memo.sum = buf }()
	for length := most; length >= least; length-- {
		buf = c.gains(s, me.offer(c, length), weight, buf)
		at := place{worth: math.Inf(-1)}
		for start := 0; start+length <= n; start++ {
			span, worth := swarm.Span{Start: start, End: start + length}, buf[start+length]-buf[start]
			if keep.Len() > 0 && !span.Contains(keep) {
				continue
			}
			if worth > at.worth*(1+tie) {
				at = place{span: span, worth: worth}
			}
		}
		if at.worth <= needs {
			continue
		}
		if best = at; length == most {
			needs = at.worth * (1 + shorter)
		} else {
			needs = at.worth * (1 + tie)
		}
	}
	return best
}

// tie is what rounding may make of equal sums.
const tie = 1e-9
