// Package health judges how well the blocks of a model are held: coverage, condition, what
// limits its speed, and the sentences that say so. It is pure, and the only place that
// judges: api, web and route ask it, and store keeps what it said.
//
// It does not judge peers (who is slow or lies) and chooses nothing (swarm/balance).
package health

import (
	"math"
	"slices"

	"whorl/swarm"
)

// Coverage is how the blocks of a model are held at one moment. Only online servers count.
type Coverage struct {
	Counts        []int        // holders, per block
	Missing       []swarm.Span // blocks without a holder
	MinRedundancy int          // the least of Counts
	Servers       int
	// Bottleneck is the least, over the blocks, of the summed throughput of the holders, in
	// tokens per second: what all sessions together can get. nil if it is not measured.
	Bottleneck *float64
	// SessionTPS is what one session can get at best, in tokens per second: the fastest
	// holder of every block, the network left out. nil if it is not measured.
	SessionTPS *float64
	CacheLeft  int64 // the least, over the blocks, of the tokens free
}

// Measure computes the coverage of a view.
func Measure(v swarm.View) Coverage {
	n := v.Manifest.Blocks
	c := Coverage{Counts: v.Counts(swarm.Online)}
	sum, best, cache := make([]float64, n), make([]float64, n), make([]int64, n)
	for i := range v.Servers {
		if v.Servers[i].State == swarm.Online {
			c.Servers++
		}
	}
	for b, r := range v.Held(swarm.Online) {
		sum[b] = min(sum[b]+r.Throughput, math.MaxFloat64) // a sum of claims stays a number
		cache[b] += r.CacheLeft
		if r.Rates.InferenceRPS != nil {
			best[b] = max(best[b], *r.Rates.InferenceRPS)
		}
	}
	c.Missing = c.Thin(1)
	if n == 0 {
		return c
	}
	c.MinRedundancy, c.CacheLeft = slices.Min(c.Counts), slices.Min(cache)
	if m := slices.Min(sum); m > 0 {
		c.Bottleneck = &m
	}
	c.SessionTPS = chained(best)
	return c
}

// chained is the speed of a chain through blocks of the given speeds, in tokens per second;
// nil if one of them is not known.
func chained(blocks []float64) *float64 {
	var seconds float64
	for _, rps := range blocks {
		if rps <= 0 {
			return nil
		}
		seconds += 1 / rps
	}
	tps := 1 / seconds
	return &tps
}

// Thin lists the blocks with fewer holders than wanted.
func (c *Coverage) Thin(wanted int) []swarm.Span {
	return swarm.SpansWhere(len(c.Counts), func(b int) bool { return c.Counts[b] < wanted })
}

// Loading lists the missing blocks that a joining server is about to hold.
func (c *Coverage) Loading(v swarm.View) []swarm.Span {
	coming := v.Counts(swarm.Joining)
	return swarm.SpansWhere(min(len(c.Counts), len(coming)), func(b int) bool { return c.Counts[b] == 0 && coming[b] > 0 })
}

// Condition is the state of a model in one word.
type Condition string

// The conditions. Broken means that a block has no live holder, at once and without smoothing.
const (
	Healthy  Condition = "healthy"  // every block has as many holders as wanted
	Degraded Condition = "degraded" // usable, but spare holders are lacking
	Broken   Condition = "broken"
	Unknown  Condition = "unknown" // not asked yet, or the last refresh failed
)

// Rank orders conditions from the worst to the best.
func (c Condition) Rank() int {
	return slices.Index([]Condition{Broken, Unknown, Degraded, Healthy}, c)
}

// Condition judges the coverage: wanted is how many holders each block should have, at
// least 1.
func (c *Coverage) Condition(wanted int) Condition {
	switch {
	case len(c.Counts) == 0:
		return Unknown
	case c.MinRedundancy == 0:
		return Broken
	case c.MinRedundancy < wanted:
		return Degraded
	}
	return Healthy
}
