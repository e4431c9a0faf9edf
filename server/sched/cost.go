package sched

import (
	"math/bits"
	"sort"
	"time"
)

// cost learns how long an iteration takes, by its rows. Few rows cost little more than one,
// since the weights are read once; where that ends differs by machine, span and format, so
// it is measured, and kept as a curve of points between which it interpolates.
type cost struct {
	points [40]point
	count  uint64 // of samples
	line   []knot // what is believed
}

// knot is a point of the curve as it is believed: more rows take no less time, and no more than
// as many iterations of fewer rows. A disturbed moment would have it otherwise, and a number of
// rows that seems dear is not tried again for long.
type knot struct{ rows, took float64 }

// point is what was measured of iterations with about so many rows. The zero value is none.
type point struct {
	rows, took float64 // means; nanoseconds
	n          int
	seen       uint64 // the last sample
}

const (
	costGain  = 0.125 // of a new sample
	renewGain = 0.4   // of one that stands for several
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
func (c *cost) add(rows int, took time.Duration) { c.sample(rows, took, 1, costGain, 2) }

// renew takes in an iteration that stands for so many which were not measured. It counts more than
// one, but must not be believed if it was disturbed: what it says more than before counts up to a quarter.
func (c *cost) renew(rows int, took time.Duration, stands uint64) {
	c.sample(rows, took, stands, renewGain, 1.25)
}

// sample is add, of a sample that counts by gain and makes others so much older, if it took at most so
// many times as long as those before.
func (c *cost) sample(rows int, took time.Duration, ages uint64, gain, most float64) {
	c.count += ages
	p := &c.points[slot(rows)]
	if !c.fresh(p) {
		*p = point{rows: float64(rows), took: float64(took), n: 1, seen: c.count}
		c.draw()
		return
	}
	p.n++
	gain = max(1/float64(p.n), gain)
	// Compared with what this many rows would take at the point's rate.
	t := float64(took)
	if p.n > 3 {
		t = min(max(t, p.took/2), p.took*most)
	}
	p.rows += gain * (float64(rows) - p.rows)
	p.took += gain * (t - p.took)
	p.seen = c.count
	c.draw()
}

// draw makes the line of the points.
func (c *cost) draw() {
	c.line = c.line[:0]
	for i := range c.points {
		if p := &c.points[i]; c.fresh(p) {
			c.line = append(c.line, knot{p.rows, p.took})
		}
	}
	for i := len(c.line) - 2; i >= 0; i-- {
		c.line[i].took = min(c.line[i].took, c.line[i+1].took)
	}
	for i := 1; i < len(c.line); i++ {
		c.line[i].took = min(c.line[i].took, c.line[i-1].took*c.line[i].rows/c.line[i-1].rows)
	}
}

func (c *cost) fresh(p *point) bool { return p.n > 0 && c.count-p.seen <= forget }

// of estimates how long an iteration of so many rows takes; 0 if nothing is known.
func (c *cost) of(rows int) time.Duration {
	r := float64(rows)
	var before, low, high *knot // the two highest up to r, and the first beyond
	for i := range c.line {
		k := &c.line[i]
		if k.rows > r {
			high = k
			break
		}
		before, low = low, k
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

// enough is the least number of rows of a prompt, at most most, with which it takes slowed times
// as long as alone, in iterations of budget rows, where have others share each iteration and
// nothing is computed for away nanoseconds between two.
func (c *cost) enough(have, most, budget int, away float64) int {
	row := slowed * float64(c.of(budget)) / float64(budget)
	return 1 + sort.Search(most-1, func(i int) bool { return row*float64(i+1) >= away+float64(c.of(have+i+1)) })
}
