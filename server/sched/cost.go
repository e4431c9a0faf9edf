package sched

import (
	"math/bits"
	"time"
)

// cost learns how long an iteration takes, by its rows. Few rows cost little more than one,
// since the weights are read once; where that ends differs by machine, span and format, so
// it is measured, and kept as a curve of points between which it interpolates.
type cost struct {
	points [40]point
	count  uint64 // of samples
}

// point is what was measured of iterations with about so many rows. The zero value is none.
type point struct {
	rows, took float64 // means; nanoseconds
	n          int
	seen       uint64 // the last sample
}

const (
	costGain = 0.125 // of a new sample
	// forget is after how many other iterations a point is too old: the machine may be
	// another one by then, and what is believed to be dear would never be tried again.
	forget = 512
	// guess is what a row more is taken to cost where only one size was measured, as a
	// share of the mean of those rows.
	guess = 0.25
)

// slot is where iterations of so many rows are kept: two slots to each doubling.
func slot(rows int) int {
	n := bits.Len(uint(rows)) - 1
	i := 2 * n
	if n > 0 {
		i += rows >> (n - 1) & 1
	}
	return min(i, len(cost{}.points)-1)
}

// add takes in a measured iteration. A single one that took far longer or shorter than
// others like it counts in part.
func (c *cost) add(rows int, took time.Duration) {
	c.count++
	p := &c.points[slot(rows)]
	if !c.fresh(p) {
		*p = point{rows: float64(rows), took: float64(took), n: 1, seen: c.count}
		return
	}
	p.n++
	gain := max(1/float64(p.n), costGain)
	// Compared with what this many rows would take at the point's rate.
	t := float64(took)
	if p.n > 3 {
		t = min(max(t, p.took/2), p.took*2)
	}
	p.rows += gain * (float64(rows) - p.rows)
	p.took += gain * (t - p.took)
	p.seen = c.count
}

func (c *cost) fresh(p *point) bool { return p.n > 0 && c.count-p.seen <= forget }

// of estimates how long an iteration of so many rows takes; 0 if nothing is known.
func (c *cost) of(rows int) time.Duration {
	r := float64(rows)
	var before, low, high *point // the two highest points up to r, and the first beyond
	for i := range c.points {
		p := &c.points[i]
		if !c.fresh(p) {
			continue
		}
		if p.rows > r {
			high = p
			break
		}
		before, low = low, p
	}
	switch {
	case low == nil && high == nil:
		return 0
	case low == nil:
		return time.Duration(high.took * r / high.rows) // at least: nobody waits for long by a guess
	case high != nil:
		return time.Duration(low.took + (high.took-low.took)*(r-low.rows)/(high.rows-low.rows))
	}
	slope := low.took / low.rows * guess
	if before != nil {
		slope = max(0, low.took-before.took) / (low.rows - before.rows)
	}
	return time.Duration(low.took + slope*(r-low.rows))
}

// rows is how many rows more than have, at least 1 and at most most, an iteration may have
// to end within limit.
func (c *cost) rows(have, most int, limit time.Duration) int {
	n := 1
	for step := 1; step > 0; {
		if n+step <= most && c.of(have+n+step) <= limit {
			n, step = n+step, 2*step
		} else {
			step /= 2
		}
	}
	return n
}
