package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// ErrNotFinite marks logits that hold a NaN or an infinity: some server computed rubbish.
var ErrNotFinite = errors.New("logits are not finite")

// ErrAllBanned says that no token may come next.
var ErrAllBanned = errors.New("bad words, n-grams and biases forbid every token")

// Sampler draws the tokens of one answer; the package comment has the order. Each token
// takes exactly one number from the generator, so that ids depend on seed and logits
// alone. It allocates only at the first token. Not for concurrent use.
type Sampler struct {
	p    Params
	rng  *rand.Rand
	proc processor
	raw  []float32   // logits as processed
	cand []candidate // what may be drawn
}

// candidate is an id with its logit (its distance from the best, divided by the
// temperature: 0 for the best) and its weight, exp(logit).
type candidate struct {
	id     int32
	logit  float64
	weight float64
}

// before orders candidates: the better first, of equals the lower id.
func (c candidate) before(d candidate) bool {
	return c.logit > d.logit || c.logit == d.logit && c.id < d.id
}

// stream is the second word of the generator's seed; a fixed choice.
const stream = 0x77686f726c // "whorl"

// New makes a sampler. p should have passed Validate. start is the length of the history
// before the answer, and end the ids that end the answer.
func New(p Params, start int, end ...int32) *Sampler {
	s := &Sampler{p: p, rng: rand.New(rand.NewPCG(p.Seed, stream))}
	s.proc = newProcessor(&s.p, start, end)
	return s
}

// Sample draws the next id from the logits of a position; logits are not changed. history
// holds the ids before it. The error is ErrNotFinite, ErrAllBanned, or that there are no
// logits.
func (s *Sampler) Sample(logits []float32, history []int32) (int32, error) {
	if err := finite(logits); err != nil {
		return 0, err
	}
	logits = s.process(logits, history)
	best := argmax(logits)
	if math.IsInf(float64(logits[best]), -1) {
		return 0, fmt.Errorf("sample: %w", ErrAllBanned)
	}
	if s.p.Temperature == 0 {
		return best, nil
	}
	s.gather(logits)
	s.truncate()
	return s.draw(), nil
}

// finite refuses logits that no healthy model gives.
func finite(logits []float32) error {
	if len(logits) == 0 {
		return errors.New("sample: no logits")
	}
	for id, l := range logits {
		if l-l != 0 { // NaN for NaN and infinities
			return fmt.Errorf("sample: %w: %v at id %d", ErrNotFinite, l, id)
		}
	}
	return nil
}

// process applies penalties and bans to a copy of the logits.
func (s *Sampler) process(logits []float32, history []int32) []float32 {
	if s.proc.idle() {
		return logits
	}
	s.raw = append(s.raw[:0], logits...)
	s.proc.apply(s.raw, history)
	return s.raw
}

// argmax is the id of the best logit, of equals the lowest.
func argmax(logits []float32) int32 {
	best := 0
	for id, l := range logits {
		if l > logits[best] {
			best = id
		}
	}
	return int32(best)
}

// gather fills cand, in the order of ids.
func (s *Sampler) gather(logits []float32) {
	if cap(s.cand) < len(logits) {
		s.cand = make([]candidate, len(logits))
	}
	s.cand = s.cand[:len(logits)]
	best := float64(logits[argmax(logits)])
	for id, l := range logits {
		v := (float64(l) - best) / s.p.Temperature
		s.cand[id] = candidate{id: int32(id), logit: v, weight: math.Exp(v)}
	}
}

// truncate cuts cand to what top-k, top-p, min-p and typical-p leave, at least one.
func (s *Sampler) truncate() {
	topP := s.p.TopP
	if topP == 0 {
		topP = 1
	}
	if k := s.p.TopK; k > 0 && k < len(s.cand) || topP < 1 {
		s.cand = rank(s.cand, k, topP)
	}
	if s.p.MinP > 0 { // the best weight is 1: a candidate's weight is its ratio to the best
		kept := s.cand[:0]
		for _, c := range s.cand {
			if c.weight >= s.p.MinP {
				kept = append(kept, c)
			}
		}
		s.cand = kept
	}
	if s.p.TypicalP > 0 && s.p.TypicalP < 1 {
		s.cand = typical(s.cand, s.p.TypicalP)
	}
}

// draw picks a candidate in proportion to its weight.
func (s *Sampler) draw() int32 {
	var sum float64
	for _, c := range s.cand {
		sum += c.weight
	}
	u := s.rng.Float64() * sum
	for _, c := range s.cand {
		if u -= c.weight; u < 0 {
			return c.id
		}
	}
	// Rounding left a rest: the last candidate with any weight has it.
	for i := len(s.cand) - 1; i > 0; i-- {
		if s.cand[i].weight > 0 {
			return s.cand[i].id
		}
	}
	return s.cand[0].id
}
