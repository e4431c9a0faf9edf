package sample

import (
	"fmt"
	"math"
	"slices"
)

// Groups searches for diverse answers: the beams are divided into groups, each of which is a search
// of its own that shuns what the groups before it say in the same step (num_beam_groups and
// diversity_penalty of the transformers library, which had it until release 4.49 in its core). It is used
// like Beams. A group that is over says the first end id. Not for concurrent use.
type Groups struct {
	b      BeamParams
	prompt int
	most   int
	size   int // beams of a group
	groups []*group
	steps  int
}

// group is one search. Its Beams finds the ways to go on, and no more.
type group struct {
	*Beams
	found   []hypothesis
	worst   float64 // of found
	over    bool
	parents []uint8 // among the beams of the group
}

// hypothesis is a finished answer.
type hypothesis struct {
	ids   []int32
	score float64
}

// NewGroups begins a search in b.Groups groups, which should be more than 1; all else is as for
// NewBeams, but nothing is drawn.
func NewGroups(p Params, b BeamParams, history []int32, most int, end []int32, stops func(seq int, id int32) bool) *Groups {
	s := &Groups{b: b, prompt: len(history), most: most, size: b.Beams / b.Groups}
	p.Temperature = 0
	for i := range b.Groups {
		one := b
		one.Beams, one.Return = s.size, s.size
		within := stops
		if stops != nil {
			within = func(seq int, id int32) bool {
				if s.steps > 0 {
					seq += i * s.size
				}
				return stops(seq, id)
			}
		}
		g := &group{Beams: NewBeams(p, one, history, most, end, within), worst: math.Inf(1)}
		g.proc.diversity = float32(b.Diversity)
		s.groups = append(s.groups, g)
	}
	return s
}

// Next is as for Beams. What a group that is over goes on with is of no account.
func (s *Groups) Next() (ids []int32, parents []uint8) {
	if s.steps == 0 {
		return nil, nil
	}
	for i, g := range s.groups {
		for j, o := range g.open {
			ids = append(ids, o.ids[len(o.ids)-1])
			if s.steps > 1 {
				parents = append(parents, uint8(i*s.size)+g.parents[j])
			} else {
				parents = append(parents, 0)
			}
		}
	}
	return ids, parents
}

// Done tells whether the search is over.
func (s *Groups) Done() bool {
	return !slices.ContainsFunc(s.groups, func(g *group) bool { return !g.over })
}

// Answers are the best of all groups, best first; complete when the search is done.
func (s *Groups) Answers() []Answer {
	var all []hypothesis
	for _, g := range s.groups {
		all = append(all, g.found...)
	}
	slices.SortStableFunc(all, func(x, y hypothesis) int { return falling(float32(y.score), float32(x.score)) })
	slices.Reverse(all) // of equals the library takes the last
	var out []Answer
	for _, h := range all[:min(len(all), s.b.Return)] {
		out = append(out, Answer{h.ids[s.prompt:], float64(float32(h.score))})
	}
	return out
}

// Step is as for Beams.
func (s *Groups) Step(logits []float32) error {
	vocab := len(logits)
	if s.steps > 0 {
		vocab /= s.b.Beams
	}
	said := map[int32]int{} // in this step, by the groups so far
	for i, g := range s.groups {
		if g.over {
			g.rest()
		} else {
			rows := logits
			if s.steps > 0 {
				rows = logits[i*s.size*vocab : (i+1)*s.size*vocab]
			}
			g.proc.said = said
			if err := g.best(rows); err != nil {
				return fmt.Errorf("group %d: %w", i, err)
			}
			g.advance()
		}
		for _, o := range g.open {
			said[o.ids[len(o.ids)-1]]++
		}
	}
	s.steps++
	return nil
}

// rest has a group that is over say the first end id, as one that is padded does in the library.
func (g *group) rest() {
	for j := range g.open {
		g.parents[j] = uint8(j)
		if len(g.end) > 0 {
			g.open[j].ids = append(g.open[j].ids[:len(g.open[j].ids):len(g.open[j].ids)], g.end[0])
		}
	}
}

// advance makes the candidates, best first, into open beams and finished answers.
func (g *group) advance() {
	length := g.steps + 1
	var open, ended []beam
	var parents, late []uint8
	for rank, c := range g.cand {
		if len(open) == g.b.Beams {
			break
		}
		grown := beam{ids: g.ids(rank), score: c.score}
		if !slices.Contains(g.end, c.id) && (g.stops == nil || !g.stops(c.beam, c.id)) {
			open, parents = append(open, grown), append(parents, uint8(c.beam))
			continue
		}
		if rank < g.b.Beams {
			g.add(grown, length)
		}
		grown.score += none
		ended, late = append(ended, grown), append(late, uint8(c.beam))
	}
	for i := 0; len(open) < g.b.Beams; i++ { // stop texts may end more ways than there are others
		open, parents = append(open, ended[i]), append(parents, late[i])
	}
	g.open, g.parents = open, parents
	g.steps++
	g.over = g.full(length) || open[0].score < none/2
	if length == g.most && !g.over {
		for _, o := range open {
			g.add(o, length)
		}
		g.over = true
	}
}

// add takes an answer in that is among the best of the group.
func (g *group) add(b beam, length int) {
	if b.score < none/2 {
		return
	}
	score := g.over64(b.score, length)
	if len(g.found) == g.b.Beams && score <= g.worst {
		return
	}
	g.found = append(g.found, hypothesis{b.ids, score})
	least := func() int {
		at := 0
		for i, h := range g.found {
			if h.score < g.found[at].score {
				at = i
			}
		}
		return at
	}
	if len(g.found) > g.b.Beams {
		g.found = slices.Delete(g.found, least(), least()+1)
	}
	g.worst = g.found[least()].score
}

// full tells whether the group has its answers, and no open beam may become better.
func (g *group) full(length int) bool {
	if len(g.found) < g.b.Beams {
		return false
	}
	if g.b.Early == EarlyTrue {
		return true
	}
	if g.b.Early == EarlyNever && g.b.LengthPenalty > 0 {
		length = g.most
	}
	return g.worst >= g.over64(g.cand[0].score, length)
}

// over64 is a score over the penalty of a length, in float64 as the library has it here.
func (g *group) over64(score float32, length int) float64 {
	return float64(score) / max(math.Pow(float64(length), g.b.LengthPenalty), leastPenalty)
}
