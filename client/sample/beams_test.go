package sample

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// tables is a model without a context: the logits after id i at position p.
type tables struct{ W, P [][]float32 }

func (m tables) logits(dst []float32, ids []int32) []float32 {
	for v := range m.W[0] {
		dst = append(dst, m.W[ids[len(ids)-1]][v]/4096+m.P[len(ids)-1][v]/4096)
	}
	return dst
}

// searching is Beams or Groups.
type searching interface {
	Next() ([]int32, []uint8)
	Step([]float32) error
	Done() bool
}

// search runs a search as a session does: only by what Next says.
func (m tables) search(t *testing.T, s searching, prompt []int32) {
	t.Helper()
	seqs := [][]int32{prompt}
	for !s.Done() {
		if ids, parents := s.Next(); ids != nil {
			next := make([][]int32, len(ids))
			for i, id := range ids {
				next[i] = append(slices.Clone(seqs[parents[i]]), id)
			}
			seqs = next
		}
		var logits []float32
		for _, ids := range seqs {
			logits = m.logits(logits, ids)
		}
		if err := s.Step(logits); err != nil {
			t.Fatal(err)
		}
	}
}

// recorded is what transformers made of a model of tables.
type recorded[C any] struct {
	tables
	Cases []C
}

// recordedIn reads a file of at least so many cases.
func recordedIn[C any](t *testing.T, path string, least int) (file recorded[C]) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < least {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	return file
}

// The answers, their order and their scores are those of transformers.
func TestBeamsEqualLibrary(t *testing.T) {
	file := recordedIn[struct {
		Prompt  []int32
		Answers [][]int32
		Scores  []float64
		Params  struct {
			Beams      int       `json:"num_beams"`
			Return     int       `json:"num_return_sequences"`
			Most       int       `json:"max_new_tokens"`
			Length     float64   `json:"length_penalty"`
			Early      any       `json:"early_stopping"`
			EOS        []int32   `json:"eos_token_id"`
			Repetition float64   `json:"repetition_penalty"`
			NGram      int       `json:"no_repeat_ngram_size"`
			BadWords   [][]int32 `json:"bad_words_ids"`
			MinNew     int       `json:"min_new_tokens"`
		}
	}](t, "testdata/beams.json", 100)
	for i, c := range file.Cases {
		p := Params{RepetitionPenalty: c.Params.Repetition, NoRepeatNGram: c.Params.NGram, BadWords: c.Params.BadWords, MinNewTokens: c.Params.MinNew}
		bp := BeamParams{Beams: c.Params.Beams, Return: c.Params.Return, LengthPenalty: c.Params.Length}
		switch c.Params.Early {
		case true:
			bp.Early = EarlyTrue
		case "never":
			bp.Early = EarlyNever
		}
		s := NewBeams(p, bp, c.Prompt, c.Params.Most, c.Params.EOS, nil)
		file.search(t, s, c.Prompt)
		got := s.Answers()
		if len(got) != len(c.Answers) {
			t.Errorf("case %d: %d answers, want %d", i, len(got), len(c.Answers))
			continue
		}
		for j, a := range got {
			if !slices.Equal(a.IDs, c.Answers[j]) || math.Abs(a.Score-c.Scores[j]) > 2e-5*math.Abs(c.Scores[j]) {
				t.Errorf("case %d, %+v: answer %d is %v (%.6g), want %v (%.6g)", i, c.Params, j, a.IDs, a.Score, c.Answers[j], c.Scores[j])
			}
		}
	}
}

// A stop that the caller finds ends an answer as an end id does.
func TestBeamsStop(t *testing.T) {
	m := tables{W: [][]float32{{0, 40960, 0, 0, 0}, {0, 0, 40960, 0, 0}, {40960, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, P: make([][]float32, 9)}
	for i := range m.P {
		m.P[i] = make([]float32, 5)
	}
	s := NewBeams(Params{}, BeamParams{Beams: 2, Return: 1, LengthPenalty: 1}, []int32{0}, 8, nil, func(_ int, id int32) bool { return id == 2 })
	m.search(t, s, []int32{0})
	if got := s.Answers(); len(got) != 1 || !slices.Equal(got[0].IDs, []int32{1, 2}) {
		t.Errorf("answers %+v", got)
	}
}

// However much a penalty favours short answers, a search gives as many as were asked for.
func TestBeamsPenalty(t *testing.T) {
	m := tables{W: [][]float32{{0, 9000, 0, 500}, {0, 0, 9000, 0}, {9000, 0, 0, 100}, {0, 0, 0, 0}}, P: make([][]float32, 20)}
	for i := range m.P {
		m.P[i] = make([]float32, 4)
	}
	for _, penalty := range []float64{-100, -20, -8, 8, 100} {
		for _, early := range []Early{EarlyFalse, EarlyTrue, EarlyNever} {
			s := NewBeams(Params{}, BeamParams{Beams: 2, Return: 2, LengthPenalty: penalty, Early: early}, []int32{0}, 16, nil, nil)
			m.search(t, s, []int32{0})
			got := s.Answers()
			if len(got) != 2 || len(got[0].IDs) != 16 || got[0].Score < got[1].Score || math.IsInf(got[1].Score, 0) || math.IsNaN(got[0].Score) {
				t.Errorf("penalty %v, early %v: answers %+v", penalty, early, got)
			}
		}
	}
}

func TestBeamsRefuse(t *testing.T) {
	for _, c := range []struct {
		b     BeamParams
		field string
	}{
		{BeamParams{Beams: 1, Return: 1}, ""}, {BeamParams{Beams: MaxBeams, Return: MaxBeams, LengthPenalty: -2, Early: EarlyNever}, ""},
		{BeamParams{Return: 1}, "num_beams"}, {BeamParams{Beams: MaxBeams + 1, Return: 1}, "num_beams"},
		{BeamParams{Beams: 2}, "num_return_sequences"}, {BeamParams{Beams: 2, Return: 3}, "num_return_sequences"},
		{BeamParams{Beams: 2, Return: 1, LengthPenalty: math.NaN()}, "length_penalty"}, {BeamParams{Beams: 2, Return: 1, Early: 3}, "early_stopping"},
	} {
		err := c.b.Validate()
		var f *FieldError
		if errors.As(err, &f); (c.field == "") != (err == nil) || f != nil && f.Field != c.field {
			t.Errorf("%+v: %v, want field %q", c.b, err, c.field)
		}
	}
	small := NewBeams(Params{}, BeamParams{Beams: 4, Return: 1}, []int32{0}, 3, nil, nil)
	if err := small.Step(make([]float32, 7)); err == nil || !strings.Contains(err.Error(), "num_beams") {
		t.Errorf("a vocabulary of 7 for 4 beams: %v", err)
	}
	banned := NewBeams(Params{NoRepeatNGram: 1}, BeamParams{Beams: 2, Return: 1}, []int32{0, 1, 2, 3}, 3, nil, nil)
	if err := banned.Step(make([]float32, 4)); !errors.Is(err, ErrAllBanned) {
		t.Errorf("nothing left: %v", err)
	}
	if err := banned.Step([]float32{0, 1, 2, float32(math.NaN())}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("not finite: %v", err)
	}
	for text, want := range map[string]Early{"false": EarlyFalse, "true": EarlyTrue, "never": EarlyNever} {
		if got, err := ParseEarly(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseEarly("maybe"); err == nil {
		t.Error("maybe is taken for a way to stop")
	}
}
