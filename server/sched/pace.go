package sched

import "time"

// cohort is who was in one iteration. Those who were come back about together: what holds
// one up, in other stages and on the way, holds up all.
type cohort struct {
	left  time.Duration // when its results left
	first time.Duration // when the first of them came back
	back  bool          // one did
}

// pace is how soon a session comes back with its next row after a result: its client's
// head, sampling and network, and the other stages of its chain. Means are in nanoseconds.
type pace struct {
	away      bool // a result left and no row came yet
	known     bool
	cohort    *cohort       // whose results left with it
	filled    time.Duration // what iterations of prompts alone had taken until then
	left      time.Duration // when; a cohort that left at another time is not its own any more
	mean, dev float64       // from a result to the next row
	lag, vary float64       // from the first row of its cohort to its own
}

const (
	paceGain = 0.25
	// late is by how much of its usual time a session may be overdue, beside twice its usual
	// deviation, before nobody waits for it: it has stopped, or fell behind. If others of its
	// cohort are back, it is late much sooner.
	late, lateAlone = 0.25, 0.03
	// gone is after how many times its usual time away a session's answer has ended, or is
	// of no concern to prompts.
	gone = 8
	// silent is for how long an answer is under way at least: a machine may do something else for so
	// long, and a prompt that took all meanwhile would keep the answers waiting for much longer.
	silent = 100 * time.Millisecond
	// first is for how long after its first token an answer is taken to be under way.
	first = 250 * time.Millisecond
	// leastAway is the least share of its time away that counts as its own.
	leastAway = 0.125
	// wakes is what a machine may take to let somebody know, whatever is computed.
	wakes = 300 * time.Microsecond
)

// sent notes that a result leaves, when iterations of prompts alone had taken so long.
func (p *pace) sent(c *cohort, filled time.Duration) {
	p.away, p.cohort, p.left, p.filled = true, c, c.left, filled
}

// back notes the next row. Who comes apart from the cohort by more than so much was
// separated from it, which says nothing of its lag. Where a prompt filled a part of the time, which
// may have held the client up, it counts only as far as it must: else the queue would expect it later
// because of that, fill more of the time, and so on.
func (p *pace) back(now, apart, filled time.Duration) {
	if !p.away {
		return
	}
	p.away = false
	t := float64(now - p.left)
	if c := p.cohort; c.left == p.left {
		if !c.back {
			c.back, c.first = true, now
		}
		if lag := now - c.first; lag < apart {
			d := float64(lag) - p.lag
			p.lag += paceGain * d
			p.vary += paceGain * (max(d, -d) - p.vary)
		}
	}
	if fill := float64(filled - p.filled); fill > 0 {
		t = min(max(p.mean, t-fill, leastAway*t), t)
	}
	switch {
	case !p.known:
		p.known, p.mean, p.dev = true, t, t/4
		return
	case t > 4*p.mean:
		// It did something else in between; what it will take now is not known from that,
		// unless it goes on like this.
		t = 4 * p.mean
	}
	d := t - p.mean
	p.mean += paceGain * d
	p.dev += paceGain * (max(d, -d) - p.dev)
}

// expected tells how long from now the next row is likely to take; ok is false if none is to
// be expected.
func (p *pace) expected(now time.Duration) (in time.Duration, ok bool) {
	if !p.away || !p.known {
		return 0, false
	}
	since, mean, dev, limit := float64(now-p.left), p.mean, p.dev, late*p.mean
	if c := p.cohort; c.left == p.left && c.back {
		since, mean, dev, limit = float64(now-c.first), p.lag, p.vary, late*p.lag+p.vary+max(lateAlone*p.mean, min(late*p.mean, float64(wakes)))
	}
	if in := mean - since; in > 0 {
		return time.Duration(in) + 1, true
	}
	if left := mean + 2*dev + limit - since; left > 0 {
		return time.Duration(min(left, max(dev/2, limit/4))) + 1, true
	}
	return 0, false
}

// running tells whether an answer is under way: it is not so long overdue that it must have
// ended.
func (p *pace) running(now time.Duration) bool {
	if !p.away {
		return false
	}
	if !p.known {
		return now-p.left < first
	}
	return float64(now-p.left) < max(gone*p.mean, float64(silent))
}
