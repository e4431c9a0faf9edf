package sched

import "time"

const (
	// patience is the longest wait for rows, as a share of the iteration that they join, and
	// lastingPatience the same where those that join stay together for good.
	patience, lastingPatience = 0.5, 0.9
	// soon is within how many rounds of all a lasting wait must have paid; sure the same where
	// what it gives was measured.
	soon, sure = 2, 4
	// burst is how long after somebody came others are waited for in any case, where an iteration will have
	// a piece of a long prompt too. While it is computed nobody's client may have a core, so they come
	// back together, whatever iterations they were in before.
	burst = 60 * time.Microsecond
	// tie is how much less than now all may get together by the estimate, and it is still tried
	// where it was not measured lately.
	tie = 0.85
)

// wait is how long the next iteration waits for guests; 0: not at all.
func (q *Queue) wait(now time.Duration, r *present) time.Duration {
	if len(q.guests) == 0 {
		return 0
	}
	q.piece = 0
	if piece := r.l.beside.piece(); r.long && r.l.key.Whole && q.guests[0].s.pace.mean < float64(r.l.cost.of(max(r.rows, 1))+piece) {
		q.piece = piece
		if since := now - q.came; r.rows > 0 && since < burst {
			return burst - since
		}
	}
	if r.rows == 0 { // a prompt alone costs as much time, and decodes beside it little
		all := 0
		for _, g := range q.guests {
			all += g.rows
		}
		if in := q.guests[0].in; in <= q.patience(now, r.l, all, lastingPatience) {
			return in
		}
		return 0
	}
	wait := q.best(now, r)
	lasting, try := q.steady(now, r)
	if lasting <= wait {
		return wait
	}
	if count := r.l.count; try {
		if !r.l.join.may(count) {
			return wait
		}
		r.l.join.try(count, maxJoinGap)
	}
	return lasting
}

// takes is how long the next iteration takes with so many rows of decodes, and the piece of a long
// prompt that it may have too: who comes too late waits for that as well. In a chain, or where clients are
// far away, who comes too late shares the next iteration with others, and pieces change nothing.
func (q *Queue) takes(l *lane, rows int) time.Duration { return l.cost.of(rows) + q.piece }

// patience is how much longer an iteration of so many rows may be waited for.
func (q *Queue) patience(now time.Duration, l *lane, rows int, share float64) time.Duration {
	t := time.Duration(share * float64(q.takes(l, rows)))
	if q.waits {
		t -= now - q.since
	}
	return t
}

// best is how long to wait for guests so that the least is lost, in tokens, by all: by those
// that are ready, by those that come and wait for others, and by those that come when the
// iteration has begun and wait for its end. It looks no further than that.
func (q *Queue) best(now time.Duration, r *present) time.Duration {
	t := float64(q.takes(r.l, r.rows))
	due := 0.0 // of those that are ready or have come
	for _, s := range r.decodes {
		due += 1 / (s.pace.mean + t)
	}
	wait, least := time.Duration(0), 0.0
	rows, came := r.rows, 0.0 // came is what guests do not lose before they come
	for k := 0; k <= len(q.guests); k++ {
		start := time.Duration(0)
		if k > 0 {
			g := q.guests[k-1]
			start = g.in
			rows += g.rows
			due += g.due
			came += g.due * float64(g.in)
			if start > q.patience(now, r.l, rows, patience) {
				break
			}
		}
		end := start + q.takes(r.l, rows)
		loss := due*float64(end) - came
		late := 0
		for _, g := range q.guests[k:] {
			if g.in < end {
				late += g.rows
			}
		}
		for _, g := range q.guests[k:] {
			loss += g.due * float64(max(end, g.in)-g.in+q.takes(r.l, max(late, g.rows)))
		}
		if k == 0 || loss < least {
			wait, least = start, loss
		}
	}
	return wait
}

// steady is how long to wait for guests so that all together get the most from then on, if
// those that share an iteration come back for the next one: what best does not see, since
// it looks at one iteration only. A wait pays by joining for good what would alternate. try
// says that others decide too, since guests are away for longer than an iteration, or that it
// is not known what it gives.
func (q *Queue) steady(now time.Duration, r *present) (wait time.Duration, try bool) {
	back, all := 0.0, r.rows // back: the longest that those in the iteration are away
	for _, s := range r.decodes {
		back = max(back, s.pace.mean)
	}
	for _, g := range q.guests {
		all += g.rows
	}
	rows := r.rows
	hasty := q.rate(r.l, rows, all, 0, back)
	best := hasty
	for k, g := range q.guests {
		rows += g.rows
		back = max(back, g.s.pace.mean)
		if g.in > q.patience(now, r.l, rows, lastingPatience) {
			break
		}
		chain := g.s.pace.mean > float64(q.takes(r.l, r.rows))
		rate, within := q.rate(r.l, rows, all, k+1, back), float64(soon)
		round, known := r.l.shared(all)
		if known = known && rows == all && !chain; known {
			rate, within = float64(all)/float64(round+q.piece), sure
		}
		if saved := float64(all)/hasty - float64(all)/rate; rate > best && float64(g.in) < within*saved {
			best, wait, try = rate, g.in, chain
		} else if rows == all && !chain && !known && wait == 0 && rate > tie*hasty {
			wait, try = g.in, true
		}
	}
	return wait, try
}

// rate is what all get, in rows a nanosecond, where an iteration has so many rows, among them
// those of the first came guests, and the others find the stage as it is then.
func (q *Queue) rate(l *lane, rows, all, came int, back float64) float64 {
	t := func(rows int) float64 { return float64(q.takes(l, rows)) }
	first := t(rows)
	// In a round everybody has a turn: those that come in time for an iteration share it. It
	// takes no less than anybody is away and computed.
	round, cycle := first, back+first
	end := first
	if came > 0 {
		end += float64(q.guests[came-1].in)
	}
	for rest := q.guests[came:]; len(rest) > 0; {
		end = max(end, float64(rest[0].in))
		n, away := 0, 0.0
		for len(rest) > 0 && float64(rest[0].in) <= end {
			n, away, rest = n+rest[0].rows, max(away, rest[0].s.pace.mean), rest[1:]
		}
		round += t(n)
		end += t(n)
		cycle = max(cycle, away+t(n))
	}
	turns := float64(all) / max(round, cycle)
	if rows == all {
		return turns
	}
	// Or those of the iteration are back at once, and the others find them then.
	return max(turns, float64(rows+all)/(2*back+first+t(all)))
}
