package sched

import "time"

// lane is what is known of the iterations of one key.
type lane struct {
	key          Key
	sessions     int
	cost         cost       // of iterations of decodes
	prompts      cost       // of those of prompts
	beside       beside     // and what these add to the others
	count        uint64     // iterations
	cohorts      [16]cohort // of the last iterations
	divide, join trials

	// together is what a round takes where all share each iteration: until the last of them is
	// back, and the iteration. Away and cost alone do not tell that: while others compute, a client
	// of the same machine is away for longer, and iterations take longer beside its head.
	together cost
	whole    bool          // the last iteration was of all
	ended    time.Duration // and when it was done
}

// computed notes what an iteration took with so many rows of decodes and of prompts. Rows of short
// prompts take as long as so many decodes.
func (l *lane) computed(decodes, prompts int, long bool, took time.Duration) {
	l.count++
	if l.key.Whole {
		l.together.count = l.count - 1 // what was measured long ago is forgotten
	}
	switch alone := l.cost.of(decodes); {
	case !long && l.beside.since >= refresh:
		l.cost.renew(decodes+prompts, took, stands)
		l.beside.since = 0
	case !long:
		l.cost.add(decodes+prompts, took)
		l.beside.since = 0
	case decodes == 0:
		l.prompts.add(prompts, took)
	case alone > 0:
		l.beside.add(prompts, float64(took-alone), float64(alone)/leastRow)
	}
}

// leastRow bounds what a row of a prompt is taken to add to decodes: they take no longer than this
// many of them.
const leastRow = 256

// wholly notes an iteration of all who answer, which were so many rows. After a pause it says
// nothing of what a round takes.
func (l *lane) wholly(rows int, now, took time.Duration) {
	if round := now - l.ended; l.whole && round < gone*took {
		l.together.add(rows, round)
	}
	l.whole, l.ended = true, now
}

const (
	// believed is for how many iterations after the last round of all it counts what these took, where
	// one stage has all blocks, and measured how many of them must have been measured: a disturbed
	// moment would keep sessions apart. In a chain attempts cost more, and it counts for as long as it can.
	believed, measured = 32, 3
)

// shared is what a round of all takes, where that was measured lately.
func (l *lane) shared(rows int) (took time.Duration, ok bool) {
	p := &l.together.points[slot(rows)]
	if ok = l.together.fresh(p); l.key.Whole {
		ok = p.n >= measured && l.count-p.seen <= believed
	}
	return l.together.of(rows), ok
}

// maxLanes bounds the keys that are remembered while no session has them.
const maxLanes = 64

// cohort begins one of those whose results leave now.
func (l *lane) cohort(now time.Duration) *cohort {
	c := &l.cohorts[l.count%uint64(len(l.cohorts))]
	*c = cohort{left: now}
	return c
}

// trials spaces attempts to change how a chain's sessions are grouped, in iterations. Where
// one lasts no other is wanted for long. Where the next is wanted at once the chain does not
// take to it, or another stage tries the same, and they become rarer: sessions that come and
// go do not make a chain swing.
type trials struct {
	last, next, gap uint64
	any             bool
}

// Widest gaps between attempts, in iterations. Dividing in vain costs more.
const (
	maxDivideGap = 4096
	maxJoinGap   = 64
)

// may tells whether the iteration after so many may be an attempt, or already is.
func (t *trials) may(count uint64) bool { return !t.any || count >= t.next || count == t.last }

// try notes an attempt; most is the widest gap.
func (t *trials) try(count, most uint64) {
	if t.any && count == t.last {
		return
	}
	if t.any && count-t.last <= 2*t.gap+8 {
		t.gap = min(max(2*t.gap, 4), most)
	} else {
		t.gap = 0
	}
	// Some more, by a number that looks like chance, so as not to be in step with others.
	t.any, t.last, t.next = true, count, count+t.gap+count*0x9E3779B97F4A7C15>>32%(t.gap/2+1)
}
