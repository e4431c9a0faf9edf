package sample

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
)

// Given the same numbers, searches that draw find what transformers finds.
func TestDrawnBeamsEqualLibrary(t *testing.T) {
	file := recordedIn[struct {
		Prompt  []int32
		Numbers []float64
		Answers [][]int32
		Scores  []float64
		Params  json.RawMessage
	}](t, "testdata/drawn.json", 200)
	for i, c := range file.Cases {
		asked := DefaultAsked()
		asked.Return = 1
		var more struct {
			Most   int     `json:"max_new_tokens"`
			End    []int32 `json:"eos_token_id"`
			Return int     `json:"num_return_sequences"`
		}
		if err := json.Unmarshal(c.Params, &asked); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c.Params, &more); err != nil {
			t.Fatal(err)
		}
		asked.Return = more.Return
		p, bp, err := asked.Settle()
		if err != nil {
			t.Fatal(err)
		}
		s := NewBeams(p, bp, c.Prompt, more.Most, more.End, nil)
		numbers := c.Numbers
		s.draw.number = func() float64 {
			if len(numbers) == 0 {
				t.Fatalf("case %d, %s: more numbers are drawn than the library draws", i, c.Params)
			}
			n := numbers[0]
			numbers = numbers[1:]
			return n
		}
		file.search(t, s, c.Prompt)
		if len(numbers) != 0 {
			t.Errorf("case %d, %s: %d of %d numbers are left", i, c.Params, len(numbers), len(c.Numbers))
		}
		got := s.Answers()
		if len(got) != len(c.Answers) {
			t.Errorf("case %d: %d answers, want %d", i, len(got), len(c.Answers))
			continue
		}
		for j, a := range got {
			if !slices.Equal(a.IDs, c.Answers[j]) || math.Abs(a.Score-c.Scores[j]) > 3e-5*math.Abs(c.Scores[j])+1e-6 {
				t.Errorf("case %d, %s: answer %d is %v (%.6g), want %v (%.6g)", i, c.Params, j, a.IDs, a.Score, c.Answers[j], c.Scores[j])
			}
		}
	}
}

// Ways are drawn without replacement, in proportion to what is left: as a race of exponential
// times gives them, which is how torch.multinomial draws.
func TestDrawnWays(t *testing.T) {
	weights := []float64{0.5, 0.25, 0.125, 0.125}
	logprobs := make([]float32, len(weights))
	for i, w := range weights {
		logprobs[i] = float32(math.Log(w))
	}
	d := newDrawing(Params{Temperature: 1, Seed: 5}, 0, nil)
	const rounds = 40000
	got := map[string]int{}
	for range rounds {
		d.offer(0, logprobs, 0)
		w := d.ways(len(weights), 2)
		got[fmt.Sprint(w[0].id, w[1].id)]++
	}
	for a, x := range weights {
		for b, y := range weights {
			if a == b {
				continue
			}
			want := x * y / (1 - x)
			if n := float64(got[fmt.Sprint(a, b)]) / rounds; math.Abs(n-want) > 5*math.Sqrt(want*(1-want)/rounds) {
				t.Errorf("%d, then %d: %.4f of all draws, want %.4f", a, b, n, want)
			}
		}
	}
}

// Equal seeds give equal answers, other seeds others; the least temperature takes the best.
func TestDrawnSeeds(t *testing.T) {
	const vocab = 300
	m := tables{W: make([][]float32, vocab), P: make([][]float32, 20)}
	for i := range m.W {
		m.W[i] = make([]float32, vocab)
		for j := range m.W[i] {
			m.W[i][j] = float32((i*7919+j*104729)%9973) * 2
		}
	}
	for i := range m.P {
		m.P[i] = make([]float32, vocab)
	}
	search := func(p Params) []Answer {
		s := NewBeams(p, BeamParams{Beams: 3, Return: 3, LengthPenalty: 1}, []int32{0}, 12, nil, nil)
		m.search(t, s, []int32{0})
		return s.Answers()
	}
	first := search(Params{Temperature: 1, Seed: 1})
	if again := search(Params{Temperature: 1, Seed: 1}); fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("the same seed: %v and %v", first, again)
	}
	if other := search(Params{Temperature: 1, Seed: 2}); fmt.Sprint(first) == fmt.Sprint(other) {
		t.Errorf("two seeds, one answer: %v", other)
	}
	greedy, cold := search(Params{}), search(Params{Temperature: 1e-30})
	if !slices.Equal(greedy[0].IDs, cold[0].IDs) || math.IsInf(cold[0].Score, 0) {
		t.Errorf("the best is %v, without any warmth %v", greedy[0], cold[0])
	}
}
