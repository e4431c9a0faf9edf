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
var ErrAllBanned = errors.New("bad words, n-grams, biases and the grammar forbid every token")

// Sampler draws the tokens of one answer; the package comment has the order. Each token
// takes exactly one number from the generator, so that ids depend on seed and logits
// alone. It allocates only at the first tokens. Not for concurrent use.
type Sampler struct {
	p     Params
	least int // candidates that are left if there are so many
	rng   *rand.Rand
	proc  processor
	raw   []float32   // logits as processed
	cand  []candidate // what may be drawn
	sums  []float64   // of the weights of blocks of logits
	reach float64     // how far below the best candidates were found last
}

// candidate is an id with its logit (its distance from the best, divided by the
// temperature: 0 for the best) and its weight, Exp(logit).
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
	s := &Sampler{p: p, least: 1, rng: rand.New(rand.NewPCG(p.Seed, stream)), reach: firstReach}
	s.proc = newProcessor(&s.p, start, end)
	return s
}

// Sample draws the next id from the logits of a position; logits are not changed. history
// holds the ids before it. The error is ErrNotFinite, ErrAllBanned, or that there are no
// logits.
func (s *Sampler) Sample(logits []float32, history []int32) (int32, error) {
	return s.SampleAmong(logits, history, nil)
}

// SampleAmong draws among the ids of a mask, a bit each, and nil for all.
func (s *Sampler) SampleAmong(logits []float32, history []int32, mask []uint64) (int32, error) {
	if len(logits) == 0 {
		return 0, finite(logits)
	}
	best, sound := argmax(logits)
	if !sound {
		if err := finite(logits); err != nil {
			return 0, err
		}
	}
	if !s.proc.idle() || mask != nil {
		logits = s.process(logits, history)
		keep(logits, mask)
		best, _ = argmax(logits)
	}
	top := logits[best]
	switch {
	case math.IsInf(float64(top), -1):
		return 0, fmt.Errorf("sample: %w", ErrAllBanned)
	case s.p.Temperature == 0:
		return best, nil
	case math.IsInf(float64(top), 1):
		return 0, fmt.Errorf("sample: %w: penalties make that of id %d infinite", ErrNotFinite, best)
	}
	by := scaleOf(top, s.p.Temperature)
	if !s.truncates(len(logits)) {
		return s.drawAny(by, logits), nil
	}
	s.truncate(by, logits)
	return s.draw(), nil
}

// process applies penalties and bans to a copy of the logits.
func (s *Sampler) process(logits []float32, history []int32) []float32 {
	s.raw = append(s.raw[:0], logits...)
	s.proc.apply(s.raw, history)
	return s.raw
}

// keep takes away every chance of ids that a mask does not have.
func keep(logits []float32, mask []uint64) {
	if mask == nil {
		return
	}
	never := float32(math.Inf(-1))
	for i := 0; i < len(logits); i += 64 {
		word := uint64(0)
		if i/64 < len(mask) {
			word = mask[i/64]
		}
		part := logits[i:min(i+64, len(logits))]
		if word == 0 {
			for k := range part {
				part[k] = never
			}
			continue
		}
		for k := range part {
			if word>>k&1 == 0 {
				part[k] = never
			}
		}
	}
}

// truncates tells whether anything but penalties and bans keeps ids from being drawn.
func (s *Sampler) truncates(vocab int) bool {
	p := &s.p
	return p.TopK > 0 && p.TopK < vocab || p.TopP > 0 && p.TopP < 1 || p.MinP > 0 || p.TypicalP > 0 && p.TypicalP < 1 ||
		p.TopH > 0 || p.Epsilon > 0 || p.Eta > 0
}

// truncate fills cand with what top-h, top-k, top-p, min-p, typical-p, epsilon and eta leave, at
// least one, and all of them but top-h at least so many as least says.
func (s *Sampler) truncate(by scale, logits []float32) {
	k, topP := s.p.TopK, s.p.TopP
	if k >= len(logits) {
		k = 0
	}
	if topP == 0 {
		topP = 1
	}
	if k > 0 {
		k = min(max(k, s.least), len(logits))
	}
	switch {
	case s.p.TopH > 0:
		s.rank(by, logits, min(mostTopH, len(logits)), 1)
		s.cand = topShare(firstK(topH(s.cand, s.p.TopH), k), topP, s.least)
	case k > 0 || topP < 1:
		s.rank(by, logits, k, topP)
	case s.p.MinP > 0: // a little further than it reaches: weights decide
		reach := 1e-9 - math.Log(s.p.MinP)
		s.cand = by.above(s.cand[:0], logits, reach)
		for len(s.cand) < s.least && reach <= mostReach {
			reach = max(2*reach, leastReach)
			s.cand = by.above(s.cand[:0], logits, reach)
		}
		weigh(s.cand)
	default:
		s.cand = by.above(s.cand[:0], logits, math.Inf(1))
		weigh(s.cand)
	}
	if s.p.MinP > 0 { // the best weight is 1: a candidate's weight is its ratio to the best
		stays := min(s.p.MinP, nth(s.cand, s.least))
		kept := s.cand[:0]
		for _, c := range s.cand {
			if c.weight >= stays {
				kept = append(kept, c)
			}
		}
		s.cand = kept
	}
	if s.p.TypicalP > 0 && s.p.TypicalP < 1 {
		s.cand = typical(s.cand, s.p.TypicalP, s.least)
	}
	if s.p.Epsilon > 0 {
		s.cand = cutoff(s.cand, s.p.Epsilon, false, s.least)
	}
	if s.p.Eta > 0 {
		s.cand = cutoff(s.cand, s.p.Eta, true, s.least)
	}
}

// How far below the best candidates are looked for. What is taken does not depend on it:
// if too few are there, the reach doubles, and it is halved for the next token if many are.
const (
	firstReach = 8
	leastReach = 1
	mostReach  = 1024 // more is infinite: weights are 0 there
	manyFound  = 2048
)

// rank fills cand with the candidates that top-k, 0 for all, and then top-p keep, best
// first.
func (s *Sampler) rank(by scale, logits []float32, k int, topP float64) {
	var total float64
	if k == 0 {
		s.sums, total = by.sums(s.sums[:0], logits)
	}
	for ; ; s.reach *= 2 {
		if s.reach > mostReach {
			s.reach = math.Inf(1)
		}
		s.cand = by.above(s.cand[:0], logits, s.reach)
		found := len(s.cand)
		enough := found >= k
		if k > 0 && enough {
			s.cand = topShare(topK(s.cand, k), topP, s.least)
		} else if k == 0 {
			weigh(s.cand)
			s.cand, enough = takeShare(s.cand, topP*total, s.least)
		}
		if enough || found == len(logits) {
			if found > manyFound {
				s.reach = max(min(s.reach, mostReach)/2, leastReach)
			}
			return
		}
	}
}

// weigh sets the weights of candidates.
func weigh(c []candidate) {
	var w [blockSize]float64
	for len(c) > 0 {
		n := min(len(c), blockSize)
		for i := range n {
			w[i] = c[i].logit
		}
		Exp(w[:n])
		for i := range n {
			c[i].weight = w[i]
		}
		c = c[n:]
	}
}

// drawAny picks any id in proportion to its weight.
func (s *Sampler) drawAny(by scale, logits []float32) int32 {
	var total float64
	s.sums, total = by.sums(s.sums[:0], logits)
	return by.pick(logits, s.sums, s.rng.Float64()*total)
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
