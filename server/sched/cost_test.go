package sched

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever was measured, more rows are believed to take no less time, and no more than as many
// iterations of fewer rows; and one disturbed moment does not make a number of rows dear.
func TestCostIsWhatCanBe(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		var c cost
		for range 1 + r.IntN(60) {
			c.add(1+r.IntN(24), ms(1+9*r.Float64()))
		}
		for n := 1; n < 40; n++ {
			if a, b := c.of(n), c.of(n+1); b < a {
				t.Fatalf("seed %d: %d rows take %v, %d take %v", seed, n, a, n+1, b)
			}
		}
		for i := 1; i < len(c.line); i++ {
			if a, b := c.line[i-1], c.line[i]; b.took > a.took*b.rows/a.rows*1.0001 {
				t.Fatalf("seed %d: %v rows take %v, but %v take %v", seed, b.rows, time.Duration(b.took), a.rows, time.Duration(a.took))
			}
		}
	}
	var c cost
	for range 10 {
		for _, n := range []int{1, 2, 3, 8} {
			c.add(n, ms(2+0.2*float64(n)))
		}
	}
	c.add(4, ms(40)) // the machine did something else
	if got := c.of(4); got > ms(3.6) {
		t.Errorf("4 rows are believed to take %v: 8 take 3.6 ms", got)
	}
}

// A short prompt beside answers takes no more than a mild share, a long one as much as makes it
// twice as long as alone, and many short ones more where they are the majority.
func TestPromptShares(t *testing.T) {
	for _, c := range []struct {
		name            string
		answers         int
		prompts         []int
		least, most     int
		fewest, dearest float64 // of the answers' own iteration
	}{
		{"short", 12, []int{8}, 2, 8, 1, 1.45},
		{"long, little hides", 12, []int{2000}, 8, 40, 1.5, 1.85},
		{"long, much hides", 2, []int{2000}, 4, 8, 1, 1.4},
		{"many short ones", 1, []int{10, 10, 10, 10}, 16, 40, 1, 4.3},
	} {
		e := engine{18, 0.5, 2.5}
		s := newScripted(c.answers + len(c.prompts))
		for n := range 9 { // so that the costs are known
			for range 5 {
				s.q.lane(Key{}).cost.add(1<<n, ms(e.took(1<<n)))
				s.q.lane(Key{}).prompts.add(1<<n, ms(e.took(1<<n)))
			}
		}
		for i := range c.prompts {
			s.push(Session(c.answers+i+1), c.prompts[i])
		}
		for id := range c.answers {
			s.push(Session(id+1), 1)
		}
		grants, _ := s.q.Next(s.now, 512)
		rows := -c.answers
		for _, g := range grants {
			rows += g.Rows
		}
		took := e.took(rows+c.answers) / e.took(c.answers)
		if rows < c.least || rows > c.most || took < c.fewest || took > c.dearest {
			t.Errorf("%s: %d rows of prompts beside %d answers, %.2f times their iteration", c.name, rows, c.answers, took)
		}
	}
}

// What rounds of all take is believed where a few were measured lately: one that was disturbed must not
// keep sessions apart for long.
func TestRoundsOfAllAreForgotten(t *testing.T) {
	l := lane{key: Key{Whole: true}}
	now := time.Duration(0)
	round := func(took time.Duration, whole bool) {
		now += took
		l.computed(8, 0, false, took/2)
		if whole {
			l.wholly(8, now, took/2)
		} else {
			l.whole = false
		}
	}
	for n := range measured + 1 { // the first one has no beginning
		if _, ok := l.shared(8); ok {
			t.Errorf("after %d rounds it is known what they take", n)
		}
		round(4*time.Millisecond, true)
	}
	if took, ok := l.shared(8); !ok || took != 4*time.Millisecond {
		t.Errorf("a round takes %v, %v", took, ok)
	}
	for range believed {
		round(4*time.Millisecond, false)
	}
	if _, ok := l.shared(8); !ok {
		t.Error("it is forgotten too soon")
	}
	round(4*time.Millisecond, false)
	if _, ok := l.shared(8); ok {
		t.Error("it is believed for ever")
	}
}
