package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func ln(ps ...float64) []float32 {
	out := make([]float32, len(ps))
	for i, p := range ps {
		out[i] = float32(math.Log(p))
	}
	return out
}

// kept runs all but the draw and returns the shares that remain, by id.
func kept(p Params, logits []float32, history ...int32) map[int32]float64 {
	s := New(p, 0)
	logits = s.process(logits, history)
	best, _ := argmax(logits)
	s.truncate(scaleOf(logits[best], p.Temperature), logits)
	var sum float64
	for _, c := range s.cand {
		sum += c.weight
	}
	out := map[int32]float64{}
	for _, c := range s.cand {
		out[c.id] = c.weight / sum
	}
	return out
}

func TestTruncation(t *testing.T) {
	five := ln(.4, .3, .15, .1, .05)
	for _, c := range []struct {
		name    string
		p       Params
		logits  []float32
		history []int32
		want    map[int32]float64
	}{
		{"all", Params{Temperature: 1}, five, nil, map[int32]float64{0: .4, 1: .3, 2: .15, 3: .1, 4: .05}},
		{"temperature 0.5 squares", Params{Temperature: .5}, ln(.5, .25, .25), nil, map[int32]float64{0: 4. / 6, 1: 1. / 6, 2: 1. / 6}},
		{"top-k 2", Params{Temperature: 1, TopK: 2}, five, nil, map[int32]float64{0: 4. / 7, 1: 3. / 7}},
		{"top-k keeps ties of the k-th", Params{Temperature: 1, TopK: 2}, ln(.2, .4, .2, .2), nil, map[int32]float64{1: .4, 0: .2, 2: .2, 3: .2}},
		{"top-k above the vocabulary", Params{Temperature: 1, TopK: 50}, ln(.5, .5), nil, map[int32]float64{0: .5, 1: .5}},
		{"top-p crosses inside", Params{Temperature: 1, TopP: .6}, five, nil, map[int32]float64{0: 4. / 7, 1: 3. / 7}},
		{"top-p keeps one", Params{Temperature: 1, TopP: 1e-9}, five, nil, map[int32]float64{0: 1}},
		{"top-p counts shares of what top-k left", Params{Temperature: 1, TopK: 2, TopP: .5}, five, nil, map[int32]float64{0: 1}},
		{"top-p after temperature", Params{Temperature: .5, TopP: .66}, ln(.5, .25, .25), nil, map[int32]float64{0: 1}},
		{"min-p", Params{Temperature: 1, MinP: .3}, five, nil, map[int32]float64{0: .4 / .85, 1: .3 / .85, 2: .15 / .85}},
		{"min-p 1 keeps the best", Params{Temperature: 1, MinP: 1}, five, nil, map[int32]float64{0: 1}},
		// transformers: positive logits are divided, negative ones multiplied, once per id
		{"penalty", Params{Temperature: 1, RepetitionPenalty: 2}, []float32{2, 1, -1}, []int32{0, 2, 0, -5, 9},
			softmax(1, 1, -2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := kept(c.p, c.logits, c.history...)
			if len(got) != len(c.want) {
				t.Fatalf("kept %v, want %v", got, c.want)
			}
			for id, w := range c.want {
				if math.Abs(got[id]-w) > 1e-6 {
					t.Errorf("share of %d is %v, want %v", id, got[id], w)
				}
			}
		})
	}
}

func softmax(l ...float64) map[int32]float64 {
	var sum float64
	for _, v := range l {
		sum += math.Exp(v)
	}
	out := map[int32]float64{}
	for i, v := range l {
		out[int32(i)] = math.Exp(v) / sum
	}
	return out
}

func TestGreedy(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Params
		logits  []float32
		history []int32
		want    int32
	}{
		{"best", Params{}, []float32{1, 3, 2}, nil, 1},
		{"tie to the lower id", Params{}, []float32{1, 3, 3}, nil, 1},
		{"penalty moves it", Params{RepetitionPenalty: 1.3}, []float32{1, 3, 2.5}, []int32{1}, 2},
		{"a tiny temperature is greedy", Params{Temperature: 5e-324, TopP: .9}, []float32{1, 3, 2}, nil, 1},
		{"top-k 1 is greedy", Params{Temperature: 1, TopK: 1, Seed: 5}, []float32{1, 3, 2}, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.logits)
			got, err := New(c.p, 0).Sample(c.logits, c.history)
			if err != nil || got != c.want {
				t.Errorf("got %d, %v, want %d", got, err, c.want)
			}
			if !slices.Equal(before, c.logits) {
				t.Error("logits were changed")
			}
		})
	}
}

// The draw follows the shares: 20000 draws, chi-square with 4 degrees of freedom under
// 23.5 (p = 0.0001; the seed is fixed, so it cannot flake).
func TestDrawFollowsShares(t *testing.T) {
	shares := []float64{.4, .3, .15, .1, .05}
	for _, p := range []Params{{Temperature: 1, Seed: 7}, {Temperature: 1, TopK: 4, TopP: .999999, Seed: 8}} {
		s, logits, n := New(p, 0), ln(shares...), 20000
		count := make([]int, len(shares))
		for range n {
			id, err := s.Sample(logits, nil)
			if err != nil {
				t.Fatal(err)
			}
			count[id]++
		}
		want := kept(p, logits)
		var chi float64
		for id := range shares {
			e := want[int32(id)] * float64(n)
			if e == 0 {
				if count[id] > 0 {
					t.Errorf("%+v: drew %d, which was cut", p, id)
				}
				continue
			}
			chi += (float64(count[id]) - e) * (float64(count[id]) - e) / e
		}
		if chi > 23.5 {
			t.Errorf("%+v: counts %v, chi-square %.1f", p, count, chi)
		}
	}
}

// Ids of a seed are the same wherever they are drawn.
func TestSeedDecides(t *testing.T) {
	run := func(p Params) string {
		s := New(p, 0)
		var ids []int32
		for i := range 12 {
			logits := make([]float32, 150)
			for j := range logits {
				logits[j] = float32((i*31+j*j*17)%131) / 32
			}
			id, _ := s.Sample(logits, ids)
			ids = append(ids, id)
		}
		return fmt.Sprint(ids)
	}
	for _, c := range []struct {
		p    Params
		want string
	}{
		{Params{Temperature: 1, Seed: 7}, "[14 137 116 65 79 24 122 139 6 28 100 138]"},
		{Params{Temperature: 1, Seed: 8}, "[121 100 20 36 149 82 135 123 23 22 148 8]"},
		{Params{Temperature: .6, TopP: .9, Seed: 7}, "[83 80 77 147 75 101 81 68 127 22 122 102]"},
		{Params{Temperature: .6, TopK: 20, MinP: .1, Seed: 7}, "[83 137 14 21 83 30 140 15 4 62 67 44]"},
	} {
		if got := run(c.p); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.p, got, c.want)
		}
	}
}

func TestNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, p := range []Params{{}, {Temperature: 1}} {
			if _, err := New(p, 0).Sample([]float32{0, float32(bad)}, nil); !errors.Is(err, ErrNotFinite) {
				t.Errorf("%v: got %v", bad, err)
			}
		}
	}
	if _, err := New(Params{}, 0).Sample(nil, nil); err == nil {
		t.Error("no logits: no error")
	}
}

func TestLogprobs(t *testing.T) {
	got := Logprobs(ln(.1, .5, .25, .15), 2, 2)
	near := func(a, b float64) bool { return math.Abs(a-math.Log(b)) < 1e-6 }
	if got.ID != 2 || !near(got.Logprob, .25) {
		t.Errorf("got %+v", got)
	}
	if len(got.Top) != 2 || got.Top[0].ID != 1 || !near(got.Top[0].Logprob, .5) || got.Top[1].ID != 2 {
		t.Errorf("top %+v", got.Top)
	}
	if tie := Logprobs([]float32{1, 1, 1}, 0, 2); tie.Top[0].ID != 0 || tie.Top[1].ID != 1 {
		t.Errorf("ties %+v", tie.Top)
	}
	if all := Logprobs([]float32{1, 2}, 7, 20); len(all.Top) != 2 || !math.IsInf(all.Logprob, -1) {
		t.Errorf("beyond: %+v", all)
	}
	if none := Logprobs([]float32{1, 2}, 0, -1); none.Top != nil {
		t.Errorf("none asked for: %+v", none)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		p     Params
		field string
	}{
		{Params{Temperature: 1, TopK: 5, TopP: .9, MinP: .1, RepetitionPenalty: 1.3}, ""},
		{Params{Temperature: -1}, "temperature"}, {Params{Temperature: math.NaN()}, "temperature"},
		{Params{TopK: -1}, "top_k"}, {Params{TopP: 1.5}, "top_p"}, {Params{MinP: math.NaN()}, "min_p"},
		{Params{RepetitionPenalty: math.Inf(1)}, "repetition_penalty"}, {Params{RepetitionPenalty: -1}, "repetition_penalty"},
		{Params{RepetitionPenalty: math.NaN()}, "repetition_penalty"}, {Params{RepetitionPenalty: math.SmallestNonzeroFloat64}, "repetition_penalty"},
		{Params{RepetitionPenalty: .0099}, "repetition_penalty"}, {Params{RepetitionPenalty: 100.5}, "repetition_penalty"},
		{Params{RepetitionPenalty: .01}, ""}, {Params{RepetitionPenalty: 100}, ""}, {Params{}, ""},
		{Params{Temperature: math.Inf(1)}, "temperature"}, {Params{Temperature: 101}, "temperature"}, {Params{TopP: math.Inf(-1)}, "top_p"},
		{Params{MinP: math.Inf(1)}, "min_p"}, {Params{TypicalP: math.NaN()}, "typical_p"}, {Params{PresencePenalty: math.Inf(-1)}, "presence_penalty"},
		{Params{Bias: []Bias{{1, math.NaN()}}}, "logit_bias"}, {Params{Bias: []Bias{{1, math.Inf(1)}}}, "logit_bias"},
		{Params{TypicalP: -.1}, "typical_p"}, {Params{PresencePenalty: 2.1}, "presence_penalty"}, {Params{FrequencyPenalty: math.NaN()}, "frequency_penalty"},
		{Params{NoRepeatNGram: -1}, "no_repeat_ngram_size"}, {Params{MinNewTokens: -1}, "min_new_tokens"},
		{Params{BadWords: [][]int32{{1}, {}}}, "bad_words"}, {Params{BadWords: [][]int32{{1, 10}}}, "bad_words"},
		{Params{BadWords: [][]int32{make([]int32, MaxBadWordIDs+1)}}, "bad_words"}, {Params{BadWords: make([][]int32, MaxBadWords+1)}, "bad_words"},
		{Params{Bias: []Bias{{-1, 1}}}, "logit_bias"}, {Params{Bias: []Bias{{1, 101}}}, "logit_bias"}, {Params{Bias: make([]Bias, MaxBias+1)}, "logit_bias"},
		{Params{TypicalP: .5, PresencePenalty: -2, FrequencyPenalty: 2, NoRepeatNGram: 3, MinNewTokens: 4, BadWords: [][]int32{{9}}, Bias: []Bias{{9, -100}}}, ""},
	} {
		err := c.p.Validate()
		if err == nil {
			err = c.p.Fits(10)
		}
		var f *FieldError
		if errors.As(err, &f); (c.field == "") != (err == nil) || f != nil && f.Field != c.field {
			t.Errorf("%+v: %v, want field %q", c.p, err, c.field)
		}
	}
}

func TestNoAllocationPerToken(t *testing.T) {
	logits, history := make([]float32, 5000), []int32{1, 2, 3, 2}
	for i := range logits {
		logits[i] = float32(i%97) / 10
	}
	for _, p := range []Params{{}, {RepetitionPenalty: 1.2}, {Temperature: 1}, {Temperature: .7, TopK: 40, TopP: .9, MinP: .05, RepetitionPenalty: 1.1},
		{Temperature: 1, TypicalP: .9, PresencePenalty: 1, FrequencyPenalty: 1, NoRepeatNGram: 2, MinNewTokens: 9, BadWords: [][]int32{{2, 5}}, Bias: []Bias{{7, 1}}}} {
		s := New(p, 0)
		s.Sample(logits, history)
		if n := testing.AllocsPerRun(20, func() { s.Sample(logits, history) }); n != 0 {
			t.Errorf("%+v: %v allocations a token", p, n)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, vocab := range []int{49152, 128256} {
		logits := logitsOf(r, vocab, 0)
		for _, c := range []struct {
			name string
			p    Params
		}{
			{"greedy", Params{}}, {"penalty", Params{RepetitionPenalty: 1.1}}, {"temperature", Params{Temperature: 1}},
			{"top-k", Params{Temperature: .8, TopK: 40}}, {"top-p", Params{Temperature: .8, TopP: .95}}, {"min-p", Params{Temperature: .8, MinP: .05}},
			{"typical", Params{Temperature: 1, TypicalP: .9}},
		} {
			b.Run(fmt.Sprintf("%s-%d", c.name, vocab), func(b *testing.B) {
				s := New(c.p, 0)
				for b.Loop() {
					s.Sample(logits, nil)
				}
			})
		}
	}
}
