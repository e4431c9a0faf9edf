package sample

import (
	"fmt"
	"math"
	"slices"
)

// Early says when a search with as many finished answers as it has beams is over.
type Early uint8

// The ways, as transformers has them.
const (
	EarlyFalse Early = iota // when no open beam is likely to become better; by its length now
	EarlyTrue               // at once
	EarlyNever              // when no open beam can become better
)

// ParseEarly reads "false", "true" or "never".
func ParseEarly(s string) (Early, error) {
	if i := slices.Index([]string{"false", "true", "never"}, s); i >= 0 {
		return Early(i), nil
	}
	return 0, &FieldError{"early_stopping", fmt.Sprintf("%q", s), `true, false or "never"`}
}

// MaxBeams bounds the sequences of one search.
const MaxBeams = 32

// BeamParams chooses a beam search.
type BeamParams struct {
	Beams         int     `json:"num_beams"`      // open beams, 1 to MaxBeams
	LengthPenalty float64 `json:"length_penalty"` // a finished answer's log-probability is divided by its length to this power
	Early         Early   `json:"early_stopping"`
	Groups        int     `json:"num_beam_groups"`   // that the beams are divided into; 0 or 1 for none (NewGroups)
	Diversity     float64 `json:"diversity_penalty"` // taken from what the groups before say in the same step, for each beam that says it
	Return        int     `json:"-"`                 // answers, at most Beams
}

// Validate refuses values that mean nothing; the error is a *FieldError.
func (b *BeamParams) Validate() error {
	bad := func(f string, v any, want string) error { return &FieldError{f, v, want} }
	switch {
	case b.Beams < 1 || b.Beams > MaxBeams:
		return bad("num_beams", b.Beams, fmt.Sprintf("1 to %d", MaxBeams))
	case b.Return < 1 || b.Return > b.Beams:
		return bad("num_return_sequences", b.Return, fmt.Sprintf("1 to num_beams, which is %d", b.Beams))
	case !(math.Abs(b.LengthPenalty) <= 100):
		return bad("length_penalty", b.LengthPenalty, "-100 to 100")
	case b.Groups < 0 || b.Groups > 1 && b.Beams%b.Groups != 0:
		return bad("num_beam_groups", b.Groups, fmt.Sprintf("a divisor of num_beams, which is %d", b.Beams))
	case b.Groups > 1 && !(b.Diversity > 0 && b.Diversity <= 100):
		return bad("diversity_penalty", b.Diversity, "more than 0, to 100, with num_beam_groups")
	case b.Groups <= 1 && b.Diversity != 0:
		return bad("diversity_penalty", b.Diversity, "0 without num_beam_groups")
	case b.Early > EarlyNever:
		return bad("early_stopping", b.Early, `true, false or "never"`)
	}
	return nil
}

// Suits refuses parameters that exclude a search; the error is a *FieldError.
func (b *BeamParams) Suits(p *Params) error {
	if b.Groups > 1 && p.Temperature > 0 {
		return &FieldError{"num_beam_groups", b.Groups, "1 where beams are drawn, with a temperature above 0: groups are searched without draws"}
	}
	return nil
}

// Answer is what a beam search found: its ids, an end id included, and the sum of their
// log-probabilities over the penalty of its length.
type Answer struct {
	IDs   []int32
	Score float64
}

// none is added to the score of what should not go on: more than any sum of
// log-probabilities takes away.
const none = -1e9

// Beams searches for the answers with the best score, step by step, as the transformers
// library does (its float32 sums included, so that close calls fall alike). It knows no
// model: Step is handed logits, Next says which sequences want the next ones. Not for
// concurrent use.
type Beams struct {
	b      BeamParams
	proc   processor
	draw   *drawing // nil: the best ways to go on are taken
	prompt int      // length of the history before the answer
	most   int      // new ids
	keep   int      // candidates of a step
	end    []int32
	stops  func(seq int, id int32) bool

	open     []beam
	finished []beam // best first
	parents  []uint8
	steps    int
	done     bool
	scores   []float32 // scratch: [vocab]
	cand     []step    // scratch: a heap, the worst on top
}

// beam is a sequence: the history with the answer so far.
type beam struct {
	ids   []int32
	score float32
	over  bool
}

// step is a way to go on: an id after an open beam.
type step struct {
	beam  int
	id    int32
	score float32
}

// before orders steps: the better first, of equals the one that comes first in the logits.
func (a step) before(b step) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return a.beam < b.beam || a.beam == b.beam && a.id < b.id
}

// NewBeams begins a search after a history, for answers of at most the given number of
// new ids, which must be positive. p gives the processors, and with a temperature above 0 the ways
// to go on are drawn. end
// lists the ids that end an answer. stops, if not nil, tells whether an answer ends once an
// id is put behind sequence seq of Next; it must not change what it knows of the sequences,
// since most of what is asked does not come about. p and b should have passed Validate.
func NewBeams(p Params, b BeamParams, history []int32, most int, end []int32, stops func(seq int, id int32) bool) *Beams {
	s := &Beams{b: b, prompt: len(history), most: most, end: end, stops: stops, keep: max(2, 1+len(end)) * b.Beams}
	p.Most = most
	s.proc = newProcessor(&p, len(history), end)
	if p.Temperature > 0 {
		s.draw = newDrawing(p, len(history), end)
	}
	s.open = []beam{{ids: slices.Clone(history)}}
	s.finished = make([]beam, b.Beams)
	return s
}

// Next says what the coming Step must be about: the logits after sequence i, which is the
// sequence parents[i] of the step before with ids[i] put behind it. Before the first Step
// there is one sequence, the history, and both are nil.
func (s *Beams) Next() (ids []int32, parents []uint8) {
	if s.steps == 0 {
		return nil, nil
	}
	for _, o := range s.open {
		ids = append(ids, o.ids[len(o.ids)-1])
	}
	return ids, s.parents
}

// Done tells whether the search is over.
func (s *Beams) Done() bool { return s.done }

// Answers are the best finished ones, best first; complete when the search is done.
func (s *Beams) Answers() []Answer {
	var out []Answer
	for _, f := range s.finished[:s.b.Return] {
		if f.over {
			out = append(out, Answer{f.ids[s.prompt:], float64(f.score)})
		}
	}
	return out
}

// Step takes the logits of every sequence of Next, [sequences][vocab]; they are not
// changed. The error is ErrNotFinite, ErrAllBanned, or a vocabulary that is too small.
func (s *Beams) Step(logits []float32) error {
	if err := s.best(logits); err != nil {
		return err
	}
	s.advance()
	return nil
}

// best finds the best ways to go on, best first.
func (s *Beams) best(logits []float32) error {
	vocab := len(logits) / len(s.open)
	if vocab < s.keep {
		return &FieldError{"num_beams", s.b.Beams, fmt.Sprintf("less: a vocabulary of %d has no %d ways to go on", vocab, s.keep)}
	}
	s.cand = s.cand[:0]
	for i := range s.open {
		if err := s.consider(i, logits[i*vocab:(i+1)*vocab]); err != nil {
			return err
		}
	}
	if s.draw != nil {
		s.cand = s.draw.ways(vocab, s.keep)
	}
	slices.SortFunc(s.cand, func(a, b step) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	if math.IsInf(float64(s.cand[0].score), -1) {
		return fmt.Errorf("beam search: %w", ErrAllBanned)
	}
	return nil
}

// consider puts the ways to go on from an open beam among the best of all beams.
func (s *Beams) consider(i int, logits []float32) error {
	if _, sound := argmax(logits); !sound {
		if err := finite(logits); err != nil {
			return err
		}
	}
	s.scores = append(s.scores[:0], logits...)
	logSoftmax(s.scores)
	if !s.proc.idle() {
		s.proc.apply(s.scores, s.open[i].ids)
	}
	before := s.open[i].score
	if s.draw != nil {
		s.draw.offer(i, s.scores, before)
		return nil
	}
	worst := float32(math.Inf(-1)) // of enough candidates
	if len(s.cand) == s.keep {
		worst = s.cand[0].score
	}
	for id, l := range s.scores {
		score := l + before
		if score < worst { // nearly all
			continue
		}
		c := step{i, int32(id), score}
		if len(s.cand) < s.keep {
			if s.cand = append(s.cand, c); len(s.cand) < s.keep {
				continue
			}
			for j := s.keep/2 - 1; j >= 0; j-- {
				s.sink(j)
			}
		} else if c.before(s.cand[0]) {
			s.cand[0] = c
			s.sink(0)
		}
		worst = s.cand[0].score
	}
	return nil
}

// sink restores the heap below i: its top is the worst.
func (s *Beams) sink(i int) {
	c := s.cand
	for {
		child := 2*i + 1
		if child >= len(c) {
			return
		}
		if child+1 < len(c) && c[child].before(c[child+1]) {
			child++
		}
		if !c[i].before(c[child]) {
			return
		}
		c[i], c[child] = c[child], c[i]
		i = child
	}
}

// logSoftmax turns logits into log-probabilities, in place.
func logSoftmax(l []float32) {
	first, _ := argmax(l)
	best := l[first]
	var w [blockSize]float64
	var sum float64
	for i := 0; i < len(l); i += blockSize {
		rest := l[i:min(i+blockSize, len(l))]
		for j, v := range rest {
			w[j] = float64(v - best)
		}
		Exp(w[:len(rest)])
		for _, v := range w[:len(rest)] {
			sum += v
		}
	}
	log := float32(math.Log(sum))
	for i, v := range l {
		l[i] = v - best - log
	}
}

// ids are those of a candidate. They are put together only for candidates that last.
func (s *Beams) ids(i int) []int32 {
	return slices.Concat(s.open[s.cand[i].beam].ids, []int32{s.cand[i].id})
}

// advance makes the candidates, best first, into open and finished beams.
func (s *Beams) advance() {
	length := s.steps + 1
	hits := make([]bool, len(s.cand))
	grown := make([]beam, len(s.cand))
	for i, c := range s.cand {
		grown[i].score = c.score
		hits[i] = length == s.most || slices.Contains(s.end, c.id) || s.stops != nil && s.stops(c.beam, c.id)
	}
	full := s.b.Early == EarlyTrue && s.full()
	s.finish(grown, hits, full, length)
	s.reopen(grown, hits)
	s.steps++
	worst := s.finished[len(s.finished)-1].score
	hypothetical := length
	if s.b.Early == EarlyNever && s.b.LengthPenalty > 0 {
		hypothetical = s.most
	}
	best := s.penalised(s.open[0].score, hypothetical)
	alive := !math.IsInf(float64(s.open[0].score), -1)
	improvable := alive && best > worst
	if !s.full() { // only a beam that has not ended gives another answer
		improvable = alive && slices.ContainsFunc(s.open, func(o beam) bool { return !o.over && !math.IsInf(float64(o.score), -1) })
	}
	s.done = !improvable || s.full() && s.b.Early == EarlyTrue || !slices.Contains(hits, false)
}

// full tells whether there are as many finished answers as beams.
func (s *Beams) full() bool {
	return !slices.ContainsFunc(s.finished, func(f beam) bool { return !f.over })
}

// leastPenalty keeps the scores of a strong negative penalty finite.
const leastPenalty = 1e-30

func (s *Beams) penalised(score float32, length int) float32 {
	return score / float32(max(math.Pow(float64(length), s.b.LengthPenalty), leastPenalty))
}

// finish takes in the candidates that ended; only the best as many as beams may, and once
// there are enough for a search that stops then, none.
func (s *Beams) finish(grown []beam, hits []bool, full bool, length int) {
	merged := slices.Clone(s.finished)
	for i, g := range grown {
		if hits[i] && i < s.b.Beams && !full && !math.IsInf(float64(g.score), -1) {
			g.ids, g.score, g.over = s.ids(i), s.penalised(g.score, length), true
			merged = append(merged, g)
		}
	}
	// What is over comes before what is not yet, however low a penalty makes its score.
	slices.SortStableFunc(merged, func(x, y beam) int {
		if x.over != y.over {
			if x.over {
				return -1
			}
			return 1
		}
		return falling(x.score, y.score)
	})
	s.finished = merged[:s.b.Beams]
}

// reopen chooses the beams that go on: those that have not ended come first.
func (s *Beams) reopen(grown []beam, hits []bool) {
	order := make([]int, len(grown))
	for i := range grown {
		order[i] = i
		if hits[i] {
			grown[i].score += none
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return falling(grown[a].score, grown[b].score) })
	var open []beam
	s.parents = s.parents[:0:0]
	for _, i := range order[:s.b.Beams] {
		grown[i].ids, grown[i].over = s.ids(i), hits[i]
		open = append(open, grown[i])
		s.parents = append(s.parents, uint8(s.cand[i].beam))
	}
	s.open = open
}

func falling(a, b float32) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}
