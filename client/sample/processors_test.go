package sample

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
)

// libraryCase is one line of testdata/processors.json.
type libraryCase struct {
	Start   int
	History []int32
	Logits  []float32 // in 32nds
	Scores  []*float64
	Shares  map[int32]float64
	Params  struct {
		Repetition float64      `json:"repetition_penalty"`
		Presence   float64      `json:"presence_penalty"`
		Frequency  float64      `json:"frequency_penalty"`
		NGram      int          `json:"no_repeat_ngram_size"`
		BadWords   [][]int32    `json:"bad_words_ids"`
		MinNew     int          `json:"min_new_tokens"`
		Bias       [][2]float64 `json:"logit_bias"`
		Sample     bool         `json:"do_sample"`
		Temp       float64      `json:"temperature"`
		TopK       int          `json:"top_k"`
		TopP       float64      `json:"top_p"`
		MinP       float64      `json:"min_p"`
		Typical    float64      `json:"typical_p"`
		TopH       float64      `json:"top_h"`
		Epsilon    float64      `json:"epsilon_cutoff"`
		Eta        float64      `json:"eta_cutoff"`
		Decay      Decay        `json:"exponential_decay_length_penalty"`
		Suppress   IDs          `json:"suppress_tokens"`
		Begin      IDs          `json:"begin_suppress_tokens"`
		Forced     IDs          `json:"forced_eos_token_id"`
		Runs       RunBiases    `json:"sequence_bias"`
		Most       int          `json:"max_new_tokens"`
	}
}

func (c *libraryCase) params() Params {
	p := &c.Params
	out := Params{
		TopK: p.TopK, TopP: p.TopP, MinP: p.MinP, TypicalP: p.Typical, RepetitionPenalty: p.Repetition, PresencePenalty: p.Presence,
		FrequencyPenalty: p.Frequency, NoRepeatNGram: p.NGram, BadWords: p.BadWords, MinNewTokens: p.MinNew,
		TopH: p.TopH, Epsilon: p.Epsilon, Eta: p.Eta, Decay: p.Decay, Suppress: p.Suppress, BeginSuppress: p.Begin, ForcedEOS: p.Forced, Runs: p.Runs, Most: p.Most,
	}
	if p.Sample {
		if out.Temperature = p.Temp; p.Temp == 0 {
			out.Temperature = 1
		}
	}
	for _, b := range p.Bias {
		out.Bias = append(out.Bias, Bias{int32(b[0]), b[1]})
	}
	return out
}

// What transformers makes of the same logits: scores to the bit, and after the warpers the
// same ids with the same shares.
func TestProcessorsEqualLibrary(t *testing.T) {
	b, err := os.ReadFile("testdata/processors.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []libraryCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 300 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i := range cases {
		c := &cases[i]
		for j := range c.Logits {
			c.Logits[j] /= 32
		}
		p := c.params()
		if err := errors.Join(p.Validate(), p.Fits(len(c.Logits))); err != nil {
			t.Fatal(err)
		}
		s := New(p, c.Start, 2, 5)
		if !c.Params.Sample {
			got := s.process(c.Logits, c.History)
			best := int32(-1)
			for id, want := range c.Scores {
				if want == nil && !math.IsInf(float64(got[id]), -1) || want != nil && got[id] != float32(*want) {
					t.Errorf("case %d, %+v: score of %d is %v, want %v", i, p, id, got[id], want)
				}
				if want != nil && (best < 0 || *want > *c.Scores[best]) {
					best = int32(id)
				}
			}
			if id, err := s.Sample(c.Logits, c.History); id != best || err != nil {
				t.Errorf("case %d: greedy is %d, %v, want %d", i, id, err, best)
			}
			continue
		}
		scores := s.process(c.Logits, c.History)
		first, _ := argmax(scores)
		s.truncate(scaleOf(scores[first], p.Temperature), scores)
		var sum float64
		got := map[int32]float64{}
		for _, x := range s.cand {
			if x.weight > 0 {
				got[x.id], sum = x.weight, sum+x.weight
			}
		}
		for id, want := range c.Shares {
			if math.Abs(got[id]/sum-want) > 1e-5*want+1e-12 {
				t.Errorf("case %d, %+v: share of %d is %v, want %v", i, p, id, got[id]/sum, want)
			}
		}
		if len(got) != len(c.Shares) {
			t.Errorf("case %d, %+v: kept %v, want %v", i, p, got, c.Shares)
		}
	}
}

// A ban or a penalty of one token does not outlive it.
func TestProcessorsForget(t *testing.T) {
	s := New(Params{RepetitionPenalty: 1.5, FrequencyPenalty: 1, PresencePenalty: 1, NoRepeatNGram: 1, MinNewTokens: 1}, 1, 3)
	first := append([]float32(nil), s.process([]float32{1, 2, 3, 4}, []int32{0, 1, 1})...)
	s.process([]float32{1, 2, 3, 4}, []int32{2})
	for id, l := range s.process([]float32{1, 2, 3, 4}, []int32{0, 1, 1}) {
		if l != first[id] {
			t.Errorf("the logit of %d is %v at first and %v later", id, first[id], l)
		}
	}
}

func TestNothingLeft(t *testing.T) {
	for _, c := range []struct {
		p      Params
		banned bool
	}{
		{Params{BadWords: [][]int32{{0}, {1}}}, true},
		{Params{NoRepeatNGram: 1, Temperature: 1}, true},
		{Params{BadWords: [][]int32{{0}, {1}, {2}}}, true}, // 9 alone ends the answer
		{Params{BadWords: [][]int32{{0}, {9}}, TypicalP: .5, Temperature: 1}, false},
		{Params{BadWords: [][]int32{{0}}, MinNewTokens: 3, Temperature: 1, TypicalP: .5}, false},
	} {
		if _, err := New(c.p, 0, 9).Sample([]float32{1, 2}, []int32{0, 1}); errors.Is(err, ErrAllBanned) != c.banned {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
}
