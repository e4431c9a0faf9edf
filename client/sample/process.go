package sample

import (
	"math"
	"slices"
)

// processor changes logits by what was said before: everything in the list of the package
// comment up to temperature. It counts in float32, as transformers does, so that greedy
// answers agree. It allocates only at its first call. Not for concurrent use.
type processor struct {
	p     *Params
	start int     // length of the history before the answer
	end   []int32 // ids that end the answer
	bad   [][]int32
	runs  RunBiases
	sums  map[int32]float32
	count []uint32 // per id, all zero between calls

	diversity float32
	said      map[int32]int // what other groups of beams say in this step, and how many of them
}

func newProcessor(p *Params, start int, end []int32) processor {
	r := processor{p: p, start: start, end: end}
	if len(p.Runs) > 0 {
		r.runs, r.sums = p.Runs.ordered(), map[int32]float32{}
	}
	for _, w := range p.BadWords {
		// Transformers never forbids the end itself.
		if len(w) > 1 || !slices.Contains(end, w[0]) {
			r.bad = append(r.bad, w)
		}
	}
	return r
}

// idle tells whether logits stay as they are.
func (r *processor) idle() bool {
	p := r.p
	return len(p.Bias) == 0 && !r.repetition() && p.FrequencyPenalty == 0 && p.PresencePenalty == 0 &&
		p.NoRepeatNGram == 0 && len(r.bad) == 0 && p.MinNewTokens == 0 && p.Decay.Factor == 0 && len(p.Suppress) == 0 && len(p.BeginSuppress) == 0 &&
		len(p.Runs) == 0 && len(p.ForcedEOS) == 0 && len(r.said) == 0
}

func (r *processor) repetition() bool {
	return r.p.RepetitionPenalty != 0 && r.p.RepetitionPenalty != 1
}

// apply changes logits in place; history holds the ids before them.
func (r *processor) apply(logits []float32, history []int32) {
	for _, b := range r.p.Bias {
		logits[b.ID] += float32(b.Value)
	}
	r.runs.add(logits, history, r.sums)
	for id, n := range r.said {
		logits[id] -= float32(r.diversity * float32(n))
	}
	if len(r.count) < len(logits) {
		r.count = make([]uint32, len(logits))
	}
	if r.repetition() {
		penalty := float32(r.p.RepetitionPenalty)
		r.each(history, func(id int32, _ uint32) {
			if logits[id] < 0 {
				logits[id] *= penalty
			} else {
				logits[id] /= penalty
			}
		})
	}
	r.p.Decay.hasten(logits, r.end, len(history)-r.start)
	if r.p.FrequencyPenalty != 0 || r.p.PresencePenalty != 0 {
		frequency, presence := float32(r.p.FrequencyPenalty), float32(r.p.PresencePenalty)
		r.each(history[min(r.start, len(history)):], func(id int32, n uint32) {
			logits[id] = logits[id] - float32(frequency*float32(n)) - presence
		})
	}
	r.ban(logits, history)
	if len(r.p.ForcedEOS) > 0 && r.p.Most > 0 && len(history)-r.start == r.p.Most-1 {
		for i := range logits {
			logits[i] = float32(math.Inf(-1))
		}
		for _, id := range r.p.ForcedEOS {
			logits[id] = 0
		}
	}
}

// each calls f once for every id of ids, with the number of times it is there.
func (r *processor) each(ids []int32, f func(id int32, n uint32)) {
	known := func(id int32) bool { return id >= 0 && int(id) < len(r.count) }
	for _, id := range ids {
		if known(id) {
			r.count[id]++
		}
	}
	for _, id := range ids {
		if known(id) && r.count[id] > 0 {
			f(id, r.count[id])
			r.count[id] = 0
		}
	}
}

// ban takes away every chance of ids that may not come next.
func (r *processor) ban(logits []float32, history []int32) {
	never := func(id int32) {
		if id >= 0 && int(id) < len(logits) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	if n := r.p.NoRepeatNGram; n > 0 && len(history) >= n {
		prefix := history[len(history)+1-n:]
		for i := 0; i+n <= len(history); i++ {
			if slices.Equal(history[i:i+n-1], prefix) {
				never(history[i+n-1])
			}
		}
	}
	for _, w := range r.bad {
		if n := len(w) - 1; endsWith(history, w[:n]) {
			never(w[n])
		}
	}
	for _, id := range r.p.Suppress {
		never(id)
	}
	if len(history) == r.start {
		for _, id := range r.p.BeginSuppress {
			never(id)
		}
	}
	if len(history)-r.start < r.p.MinNewTokens {
		for _, id := range r.end {
			never(id)
		}
	}
}

// endsWith tells whether the last ids are these.
func endsWith(history, ids []int32) bool {
	return len(ids) <= len(history) && slices.Equal(history[len(history)-len(ids):], ids)
}
