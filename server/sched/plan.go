package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Shares of what an iteration takes.
const (
	// stretch is by how much prompts may lengthen an iteration of running answers at most, chained the
	// same for long ones, since their pieces lengthen the iterations of all stages. Where one stage
	// has all blocks long ones may lengthen a round by single on the mean.
	stretch, chained, single = 0.8, 0.65, 0.8
	// slowed is how many times its time alone a prompt may take beside running answers. Where less
	// than stretch is enough for that, since rows hide behind the reading of the weights, answers
	// keep the rest.
	slowed = 2
	// mild is the same as stretch for the rows of a prompt that are few enough to be through in so
	// many pieces: a newcomer with a short prompt lengthens no iteration by much.
	mild, pieces = 0.4, 2
	// crowded is the most that many short prompts have of these shares; what has more than short
	// rows left is a long one.
	crowded, short = 4, quantum
	// clients is how much of the time between two iterations counts as theirs at most where a stage
	// has all blocks, as a share of what decodes take: clients that are far away have prompts
	// computed meanwhile.
	clients = 0.5
	// spill is by how much a piece of a prompt alone may keep waiting who comes meanwhile.
	spill = 0.1
	// kind and kindShare are how much longer than those that are ready a session may take to
	// come back and still be waited for: so many times, and a share of an iteration. One that
	// takes longer finds the others again, who would only lose by waiting for it.
	kind, kindShare = 2, 0.25
)

// plan is what the next iteration may take, or how long it waits before it is asked again.
type plan struct {
	decodes, prefill int // rows
	divided          bool
	whole            bool // all who answer are in it, and no prompt
	wait             time.Duration
}

// guest is a session that is likely to come soon.
type guest struct {
	s    *session
	in   time.Duration
	rows int
	due  float64 // tokens it loses in a nanosecond of waiting
}

// present is what is ready, of one lane.
type present struct {
	l       *lane
	decodes []*session
	rows    int  // of those
	prompts int  // rows of prompts
	longest int  // of one of them
	short   int  // sessions that have few of them
	long    bool // there are others
	alone   bool // nothing of another lane is ready
}

// plan weighs what is ready against what is expected.
func (q *Queue) plan(now time.Duration, ready []*session, alone bool, budget int) plan {
	r := present{l: ready[0].lane, decodes: q.decodes[:0], alone: alone && !q.hasty}
	for _, s := range ready {
		if s.items[0].class == Prefill {
			r.prompts += s.items[0].left
			r.longest = max(r.longest, s.items[0].left)
			if len(s.items) == 1 && s.items[0].left <= short {
				r.short++
			}
			r.long = r.long || s.long
			continue
		}
		r.decodes = append(r.decodes, s)
		r.rows += s.items[0].left
	}
	q.decodes = r.decodes
	q.expect(now, &r)
	p := plan{decodes: budget, prefill: budget}
	if n := q.group(now, r.l); n < r.rows {
		p.decodes, p.divided = n, true
	} else if r.alone {
		p.wait = q.wait(now, &r)
	}
	p.whole = !p.divided && r.prompts == 0 && len(q.guests) == 0
	if p.wait == 0 && r.prompts > 0 {
		p.prefill = q.prefill(now, &r, budget)
	}
	return p
}

// expect lists in q.guests who is likely to come, the soonest first.
func (q *Queue) expect(now time.Duration, r *present) {
	limit := math.Inf(1)
	t := float64(r.l.cost.of(max(r.rows, 1)))
	for _, s := range r.decodes {
		switch {
		case len(s.items) > 1: // a replay: its next row is here already
			limit = min(limit, kindShare*t)
		case s.pace.known:
			limit = min(limit, kind*s.pace.mean+kindShare*t)
		}
	}
	q.guests = q.guests[:0]
	for _, s := range q.sessions {
		if s.lane != r.l || s.stopped || len(s.items) > 0 || s.pace.mean > limit {
			continue
		}
		if in, ok := s.pace.expected(now); ok {
			q.guests = append(q.guests, guest{s: s, in: in, rows: s.rows, due: 1 / (s.pace.mean + t)})
		}
	}
	slices.SortFunc(q.guests, func(a, b guest) int { return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.s.id, b.s.id)) })
}

// crowd is how many times the usual share of an iteration is for prompts: more where more sessions
// wait with short ones than answers run, as when many come at once.
func (r *present) crowd() float64 {
	return min(max(1, float64(r.short)/float64(max(r.rows, 1))), crowded)
}

// prefill is how many rows of prompts the next iteration takes: with nobody decoding all of
// them, beside running answers as many as hide behind the reading of the weights and a share
// more, and between two iterations of those as many as end in time.
func (q *Queue) prefill(now time.Duration, r *present, budget int) int {
	if !q.running(now) {
		return budget
	}
	l := r.l
	t := float64(l.cost.of(max(r.rows, 1)))
	away := 0.0 // in which an iteration of prompts alone would go on
	for _, s := range r.decodes {
		away = max(away, s.pace.mean)
	}
	crowd, c, longer := r.crowd(), &l.cost, 1.0
	if r.long {
		c, longer = &l.prompts, chained
	}
	switch {
	case t == 0:
		return min(budget, quantum)
	case r.rows == 0:
		limit := (1 + crowd*stretch) * t
		if len(q.guests) > 0 {
			limit = max(longer*t, float64(q.guests[0].in)+spill*t)
		}
		if c.count == 0 {
			return fewRows
		}
		return l.between(c.rows(0, budget, time.Duration(limit)), limit, r.long, q.grain)
	case !r.long:
		n := c.rows(r.rows, budget, time.Duration((1+crowd*stretch)*t))
		if few := c.rows(r.rows, n, time.Duration((1+crowd*mild)*t)); r.longest <= pieces*few && r.prompts <= 4*pieces*few {
			return few
		}
		return min(n, c.enough(r.rows, n, budget, away))
	case l.beside.since >= refresh:
		return 0
	default:
		extra := chained * t
		if l.key.Whole {
			extra = single * (t + min(away, t*clients))
		}
		most := l.most(r.rows, crowd*extra, budget, q.grain)
		return l.beside.grains(min(most, l.enough(r.rows, most, budget, away)), q.grain)
	}
}

// running tells whether some answer is under way.
func (q *Queue) running(now time.Duration) bool {
	for _, s := range q.sessions {
		if s.pace.running(now) || len(s.items) > 0 && s.items[0].class == Decode {
			return true
		}
	}
	return false
}

const (
	// unequal is how much larger than its share a group may be: what is cut off would take an
	// iteration of its own.
	unequal = 1.5
	// margin is how sure it must be that a group is back only after the others are through.
	margin = 0.88
)

// group is how many of the decodes that are ready the next iteration should take: all of them,
// unless everybody is away for so long after an iteration that others can be computed
// meanwhile, as in a chain, where one group should be in each stage. If those that were
// divided come back together, the chain does not want it, and it is tried ever less often.
func (q *Queue) group(now time.Duration, l *lane) int {
	if q.hasty || !l.divide.may(l.count) || l.cost.of(1) == 0 {
		return math.MaxInt
	}
	all, away := 0, math.Inf(1)
	for _, s := range q.sessions {
		if s.lane != l || s.stopped {
			continue
		}
		if len(s.items) == 0 || s.items[0].class != Decode {
			if _, ok := s.pace.expected(now); !ok {
				continue
			}
		}
		if !s.pace.known || s.rows > 1 { // a step of beams is not taken apart for this
			return math.MaxInt
		}
		away = min(away, s.pace.mean)
		all += s.rows
	}
	size := all
	for g := 2; g <= all; g++ {
		n := (all + g - 1) / g
		if float64(g-1)*float64(l.cost.of(n)) > margin*away {
			break
		}
		size = n
	}
	ready := 0
	for _, s := range q.decodes {
		ready += s.items[0].left
	}
	if size == all || float64(ready) <= unequal*float64(size) {
		return math.MaxInt
	}
	return size
}
