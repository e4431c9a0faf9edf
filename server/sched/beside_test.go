package sched

import (
	"slices"
	"testing"
	"time"
)

// A prompt of 2000 rows beside four answers, of a model whose attention costs as much as its
// products (SmolLM2's times on two cores): a row of the prompt costs the more the longer its past is, a
// little more in large pieces, and four cost little more than one. Now and then an iteration
// takes three times as long for reasons of its own, an answer's next row comes when the others have
// begun, and once the machine does something else for a while. The answers stay in one group, keep half
// of their rate, and the prompt is not forgotten.
func TestLongPromptBesideAnswers(t *testing.T) {
	const answers, rows, chunk, grain = 4, 2000, 512, 4
	key := Key{End: 30, Whole: true}
	q := New()
	q.Grain(grain)
	for id := range Session(answers + 2) {
		q.Open(id, "a peer", key)
	}
	var (
		now       time.Duration
		past      int // of the prompt that runs
		n         int
		item      uint64
		shared    int // iterations of decodes in which all four are
		steps     int
		last      [answers]time.Duration
		back      [answers]time.Duration // when their next rows come; 0: they wait in the queue
		gaps      []time.Duration
		disturbed = false
		stall     = 0
	)
	push := func(at time.Duration, id Session, rows int, c Class) {
		item++
		q.Push(at, id, item, rows, c)
	}
	// run computes until the prompt's rows are through, or for a number of iterations.
	run := func(until int) {
		for limit := n + until; n < limit && past < rows; {
			for i, at := range back {
				if at > 0 && at <= now {
					back[i] = 0
					push(at, Session(i), 1, Decode)
				}
			}
			grants, wait := q.Next(now, chunk)
			if len(grants) == 0 {
				next := now + wait
				for _, at := range back {
					if at > 0 && (wait == 0 && next == now || at < next) {
						next = at
					}
				}
				now = max(next, now+1)
				continue
			}
			n++
			decodes, took := 0, 1.3
			for _, g := range grants {
				if g.Session < answers {
					decodes++
					took += 0.28
				}
			}
			for _, g := range grants {
				if g.Session >= answers {
					walks := float64((g.Rows + grain - 1) / grain * grain)
					took += float64(g.Rows)*0.19 + walks*0.22*float64(past)/1000
					if g.Rows > 64 {
						took += float64(g.Rows) * 0.06
					}
					past += g.Rows
				}
			}
			if disturbed && n%37 == 0 {
				took *= 3
			}
			if decodes > 0 {
				steps++
				if decodes == answers {
					shared++
				}
			}
			done := slices.Clone(grants)
			now += ms(took)
			q.Computed(now, ms(took))
			for _, g := range done {
				if g.Session < answers {
					gaps = append(gaps, now-last[g.Session])
					last[g.Session] = now
					back[g.Session] = now + ms(0.8) + time.Duration(g.Session)*20*time.Microsecond
					switch {
					case disturbed && n == stall:
						back[g.Session] += ms(50)
					case disturbed && n%50 == 13 && g.Session == Session(n/50%answers):
						back[g.Session] += ms(2.5) // and it may be two groups
					}
				}
			}
		}
	}
	prompt := func(id Session) time.Duration {
		past, gaps, steps, shared = 0, nil, 0, 0
		from := now
		for left := rows; left > 0; left -= chunk {
			push(now, id, min(left, chunk), Prefill)
		}
		run(1 << 30)
		return now - from
	}
	of := func(share float64) time.Duration {
		slices.Sort(gaps)
		return gaps[int(share*float64(len(gaps)))]
	}
	alone := prompt(answers)
	past = 0
	for id := range Session(answers) {
		push(now, id, 1, Decode)
	}
	disturbed, stall = true, n+1000 // while the prompt is computed
	run(700)                        // so long that nothing measured before counts by itself
	gaps = nil
	run(200)
	usual, total := of(0.5), time.Duration(0)
	for _, g := range gaps {
		total += g
	}
	mean := total / time.Duration(len(gaps))
	took := prompt(answers + 1)
	if n < stall {
		t.Fatalf("through after %d iterations: want more than %d", n, stall)
	}
	rate := float64(mean) * float64(len(gaps)) / float64(answers) / float64(took)
	if p95 := of(0.95); rate < 0.5 || float64(p95) > 2.5*float64(usual) || float64(took) > 2.5*float64(alone) {
		t.Errorf("%.2f of the rate, 95 %% within %.2f of the usual %v, the prompt takes %.2f times its %v alone",
			rate, float64(p95)/float64(usual), usual, float64(took)/float64(alone), alone)
	}
	t.Logf("%.2f of the rate, 95 %% within %.2f of the usual %v, the prompt takes %.2f times its %v alone; all share %d of %d", rate, float64(of(0.95))/float64(usual), usual, float64(took)/float64(alone), alone, shared, steps)
	if float64(shared) < 0.9*float64(steps) {
		t.Errorf("all four share %d of %d iterations", shared, steps)
	}
}
