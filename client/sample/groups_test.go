package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// Answers of groups, their order and their scores are those of transformers 4.49.
func TestGroupsEqualLibrary(t *testing.T) {
	file := recordedIn[struct {
		Prompt  []int32
		Answers [][]int32
		Scores  []float64
		Params  json.RawMessage
	}](t, "testdata/groups.json", 200)
	for i, c := range file.Cases {
		asked := DefaultAsked()
		asked.Temperature = 0
		var more struct {
			Most     int       `json:"max_new_tokens"`
			End      []int32   `json:"eos_token_id"`
			Return   int       `json:"num_return_sequences"`
			BadWords [][]int32 `json:"bad_words_ids"`
		}
		if err := errors.Join(json.Unmarshal(c.Params, &asked), json.Unmarshal(c.Params, &more)); err != nil {
			t.Fatal(err)
		}
		asked.Return, asked.BadWords = more.Return, more.BadWords
		p, bp, err := asked.Settle()
		if err := errors.Join(err, bp.Validate(), bp.Suits(&p)); err != nil {
			t.Fatal(err)
		}
		s := NewGroups(p, bp, c.Prompt, more.Most, more.End, nil)
		file.search(t, s, c.Prompt)
		got := s.Answers()
		if len(got) != len(c.Answers) {
			t.Errorf("case %d: %d answers, want %d", i, len(got), len(c.Answers))
			continue
		}
		for j, a := range got {
			ids := slices.Clone(a.IDs)
			if last := len(ids) - 1; slices.Contains(more.End, ids[last]) { // the library writes the first of them
				ids[last] = more.End[0]
			}
			if !slices.Equal(ids, c.Answers[j]) || math.Abs(a.Score-c.Scores[j]) > 2e-5*math.Abs(c.Scores[j])+1e-6 {
				t.Errorf("case %d, %s: answer %d is %v (%.6g), want %v (%.6g)", i, c.Params, j, ids, a.Score, c.Answers[j], c.Scores[j])
			}
		}
	}
}

// A stop that the caller finds ends an answer of a group as an end id does, and sequences are
// counted over all groups.
func TestGroupsStop(t *testing.T) {
	m := tables{W: [][]float32{{0, 40960, 0, 0, 0}, {0, 0, 40960, 0, 0}, {40960, 0, 0, 0, 0}, {0, 0, 0, 40960, 0}, {0, 0, 0, 0, 0}}, P: make([][]float32, 9)}
	for i := range m.P {
		m.P[i] = make([]float32, 5)
	}
	asked := map[int]bool{}
	s := NewGroups(Params{}, BeamParams{Beams: 2, Groups: 2, Diversity: 20, Return: 2, LengthPenalty: 1}, []int32{0}, 8, nil, func(seq int, id int32) bool {
		asked[seq] = true
		return id == 2
	})
	m.search(t, s, []int32{0})
	got := s.Answers()
	if len(got) != 2 || !slices.Equal(got[0].IDs, []int32{1, 2}) || got[1].IDs[0] == 1 || !asked[0] || !asked[1] || len(asked) != 2 {
		t.Errorf("answers %+v, asked for %v", got, asked)
	}
}

func TestGroupsRefuse(t *testing.T) {
	for _, c := range []struct{ text, field string }{
		{`{"num_beams":4,"num_beam_groups":2,"diversity_penalty":0.5}`, ""},
		{`{"num_beams":4,"num_beam_groups":1}`, ""},
		{`{"num_beams":4,"num_beam_groups":3,"diversity_penalty":0.5}`, "num_beam_groups"},
		{`{"num_beams":2,"num_beam_groups":4,"diversity_penalty":0.5}`, "num_beam_groups"},
		{`{"num_beams":4,"num_beam_groups":-2}`, "num_beam_groups"},
		{`{"num_beam_groups":2,"diversity_penalty":0.5}`, "num_beam_groups"},
		{`{"num_beams":4,"num_beam_groups":2}`, "diversity_penalty"},
		{`{"num_beams":4,"num_beam_groups":2,"diversity_penalty":-1}`, "diversity_penalty"},
		{`{"num_beams":4,"diversity_penalty":0.5}`, "diversity_penalty"},
		{`{"diversity_penalty":0.5}`, "diversity_penalty"},
		{`{"num_beams":4,"num_beam_groups":2,"diversity_penalty":0.5,"temperature":0.5}`, "num_beam_groups"},
	} {
		asked := DefaultAsked()
		asked.Temperature = 0
		if err := json.Unmarshal([]byte(c.text), &asked); err != nil {
			t.Fatal(err)
		}
		p, b, err := asked.Settle()
		if err == nil && b.Beams > 0 {
			err = errors.Join(b.Validate(), b.Suits(&p))
		}
		var f *FieldError
		if errors.As(err, &f); (c.field == "") != (err == nil) || f != nil && f.Field != c.field {
			t.Errorf("%s: %v, want field %q", c.text, err, c.field)
		}
	}
	banned := NewGroups(Params{NoRepeatNGram: 1}, BeamParams{Beams: 2, Groups: 2, Diversity: 1, Return: 1}, []int32{0, 1, 2, 3}, 3, nil, nil)
	if err := banned.Step(make([]float32, 4)); !errors.Is(err, ErrAllBanned) {
		t.Errorf("nothing left: %v", err)
	}
	nan := []float32{0, 1, 2, float32(math.NaN())}
	if err := NewGroups(Params{}, BeamParams{Beams: 2, Groups: 2, Diversity: 1, Return: 1}, []int32{0}, 3, nil, nil).Step(nan); !errors.Is(err, ErrNotFinite) {
		t.Errorf("not finite: %v", err)
	}
}

// Whatever ends answers and however much is forbidden, a search ends with answers that are sound.
func TestGroupsEnd(t *testing.T) {
	const vocab = 12
	m := tables{W: make([][]float32, vocab), P: make([][]float32, 40)}
	for i := range m.W {
		m.W[i] = make([]float32, vocab)
		for j := range m.W[i] {
			m.W[i][j] = float32((i*7919+j*104729)%9973) * 2
		}
	}
	for i := range m.P {
		m.P[i] = make([]float32, vocab)
	}
	for _, stopping := range []int32{0, 3, 9, vocab} { // ids below end answers
		for _, early := range []Early{EarlyFalse, EarlyTrue, EarlyNever} {
			for _, penalty := range []float64{-20, 0, 1, 20} {
				name := fmt.Sprintf("%d ends, early %v, penalty %v", stopping, early, penalty)
				s := NewGroups(Params{}, BeamParams{Beams: 6, Groups: 3, Diversity: 2, Return: 6, LengthPenalty: penalty, Early: early}, []int32{0}, 20, nil,
					func(_ int, id int32) bool { return id < stopping })
				m.search(t, s, []int32{0})
				got := s.Answers()
				if len(got) == 0 {
					t.Errorf("%s: no answer", name)
				}
				for i, a := range got {
					ended := a.IDs[len(a.IDs)-1] < stopping
					early := slices.ContainsFunc(a.IDs[:len(a.IDs)-1], func(id int32) bool { return id < stopping })
					if early || !ended && len(a.IDs) != 20 || i > 0 && got[i-1].Score < a.Score || math.IsInf(a.Score, 0) || math.IsNaN(a.Score) {
						t.Errorf("%s: answer %d of %+v", name, i, got)
					}
				}
			}
		}
	}
}
