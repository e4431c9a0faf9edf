package sched

import (
	"math"
	"time"
)

// beside learns what rows of prompts add to iterations of running answers. It is not a part of the
// curve of costs: how much a row adds depends on how long its past is, which grows while a prompt
// is computed, and what decodes cost must not be told by iterations that have prompts too.
type beside struct {
	row   float64 // nanoseconds that each of about so many rows adds; 0: not known
	rows  int     // of the last iteration that had prompts
	since int     // iterations with prompts since the last one of decodes alone
	rest  float64 // rows that the last iteration might have had too
}

const (
	besideGain = 0.25 // of a new sample
	// refresh is after how many iterations with prompts one has none, so that what decodes cost
	// without them stays known while their pasts grow too. It counts as so many of them.
	refresh, stands = 24, 4
	// step is by how many times the rows may be more than in the iteration before: they hide behind
	// the reading of the weights up to a number that only trying tells. fewRows are always tried.
	step, fewRows = 2, 4
	// uneven is how many times the mean the rows of one iteration may have, if they are more than a grain.
	uneven = 1.5
	// unknownRows is the most where nothing was measured.
	unknownRows = 16
)

// add takes in an iteration with so many rows of prompts, which took longer by extra nanoseconds
// than it would have without them. least is what a row is taken to add at least.
func (b *beside) add(rows int, extra, least float64) {
	b.rows = rows
	b.since++
	x := max(extra/float64(rows), least)
	if b.row == 0 {
		b.row = x
		return
	}
	// A single iteration that was disturbed counts in part.
	b.row += besideGain * (min(max(x, b.row/step), b.row*step) - b.row)
}

// most is how many rows of prompts an iteration of so many decodes may have to take no longer than
// limit nanoseconds more, on the mean. Where that was never measured a row is one like a decode's.
func (l *lane) most(decodes int, limit float64, budget, grain int) int {
	b := &l.beside
	if b.row == 0 {
		return l.cost.rows(decodes, min(budget, unknownRows), l.cost.of(decodes)+time.Duration(limit))
	}
	n := min(max(limit/b.row+b.rest, 1), float64(max(step*b.rows, fewRows)), float64(budget))
	if most := max(uneven*limit/b.row, float64(grain)); n > most {
		b.rest = 0
		return int(most)
	}
	b.rest = n - math.Floor(n)
	return int(n)
}

// piece is what the prompts of the next iteration are likely to add to it.
func (b *beside) piece() time.Duration {
	if b.since >= refresh {
		return 0
	}
	return time.Duration(b.row * float64(b.rows))
}

// between bounds what a long prompt takes, where one stage has all blocks, between two iterations of answers, in limit nanoseconds, if by
// what chunks took it is so many rows. Few rows cost more: the weights are read for them too, and
// attention takes a grain as fast as a row.
func (l *lane) between(rows int, limit float64, long bool, grain int) int {
	if !long || !l.key.Whole || l.beside.row == 0 {
		return rows
	}
	few := int(max(limit-float64(l.cost.of(1)), 0) / l.beside.row)
	return max(min(rows, few)/grain*grain, grain)
}

// grains makes rows a multiple of grain, perhaps none, and keeps the rest for the next iteration.
func (b *beside) grains(rows, grain int) int {
	if b.row == 0 {
		return rows
	}
	whole := rows / grain * grain
	b.rest += float64(rows - whole)
	return whole
}

// content is as slowed, of a long prompt where one stage has all blocks: alone its first rows take
// less than the mean and its last ones more, so to be through in time it must be ahead at first.
const content = 1.3

// enough is the least number of rows of a long prompt, at most most, with which it takes slowed times
// as long as alone; see [cost.enough].
func (l *lane) enough(decodes, most, budget int, away float64) int {
	if l.beside.row == 0 || l.prompts.count == 0 {
		return l.cost.enough(decodes, most, budget, away)
	}
	round, times := away+float64(l.cost.of(decodes)), float64(slowed)
	if l.key.Whole {
		times = content
	}
	if spare := times*float64(l.prompts.of(budget))/float64(budget) - l.beside.row; spare*float64(most) > round {
		return min(most, int(round/spare)+1)
	}
	return most
}
