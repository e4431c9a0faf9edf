package sample

import (
	"math"
	"slices"
)

// drawing has a search draw the ways to go on: transformers' beam sampling (num_beams with
// do_sample). Temperature and what leaves candidates out apply to each beam; then as many ways as a
// search looks at are drawn without replacement from all beams together, each in proportion to
// Exp of its score. Each takes one number from the generator.
type drawing struct {
	*Sampler
	number func() float64 // from [0, 1)
	all    []float32      // scores of all ways to go on, [beams][vocab]
}

// leastTemperature keeps the scores of long answers finite in float32.
const leastTemperature = 1e-25

func newDrawing(p Params, start int, end []int32) *drawing {
	s := New(p, start, end...)
	s.least = max(2, 1+len(end)) // a beam that can only end is no beam
	return &drawing{Sampler: s, number: s.rng.Float64}
}

// offer notes the ways to go on from a beam: those of its processed log-probabilities that are
// left, behind a score. Beams come in their order, from 0.
func (d *drawing) offer(beam int, logprobs []float32, before float32) {
	if beam == 0 {
		d.all = d.all[:0]
	}
	at := len(d.all)
	d.all = append(d.all, logprobs...)
	scores, temperature := d.all[at:], float32(max(d.p.Temperature, leastTemperature))
	best, _ := argmax(logprobs)
	if top := logprobs[best]; d.truncates(len(logprobs)) && !math.IsInf(float64(top), 0) {
		d.truncate(scaleOf(top, d.p.Temperature), logprobs)
		for i := range scores {
			scores[i] = float32(math.Inf(-1))
		}
		for _, c := range d.cand {
			scores[c.id] = logprobs[c.id]
		}
	}
	for i, l := range scores {
		scores[i] = l/temperature + before
	}
}

// leastWeight is the least normal number of float32: what is less likely has no chance, as in
// transformers.
const leastWeight = 0x1p-126

// ways draws so many of the ways to go on. Where fewer are possible the best of the others come
// behind them, such as have a score of -Inf.
func (d *drawing) ways(vocab, n int) []step {
	never := float32(math.Inf(-1))
	var out []step
	take := func(i int) {
		out = append(out, step{i / vocab, int32(i % vocab), d.all[i]})
		d.all[i] = never
	}
	best, _ := argmax(d.all)
	if top := d.all[best]; top > never {
		by := scaleOf(top, 1)
		d.sums, _ = by.sums(d.sums[:0], d.all)
		for len(out) < n {
			var total float64
			for _, v := range d.sums {
				total += v
			}
			if total < leastWeight {
				break
			}
			i := int(by.pick(d.all, d.sums, d.number()*total))
			take(i)
			block := i / blockSize
			d.sums[block] = by.sum(d.all[block*blockSize : min((block+1)*blockSize, len(d.all))])
		}
	}
	for i := 0; len(out) < n; i++ {
		if best, _ := argmax(d.all); d.all[best] > never {
			take(int(best))
		} else if w := (step{i / vocab, int32(i % vocab), never}); !hasWay(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// hasWay tells whether a way was drawn already.
func hasWay(ways []step, w step) bool {
	return slices.ContainsFunc(ways, func(x step) bool { return x.beam == w.beam && x.id == w.id })
}
