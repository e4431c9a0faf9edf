package swarmtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
)

// guided is one line of testdata/*_guided.json.
type guided struct {
	searched
	Params struct {
		Most       int     `json:"max_new_tokens"`
		EOS        []int32 `json:"eos_token_id"`
		Repetition float64 `json:"repetition_penalty"`
		NGram      int     `json:"no_repeat_ngram_size"`
		Scale      float64 `json:"guidance_scale"`
		Other      []int32 `json:"negative_prompt_ids"`
	}
}

// Guidance gives transformers' ids through every layout, and also when servers die, whichever of
// the two sessions they serve.
func TestGuidanceEqualsLibrary(t *testing.T) {
	for name, path := range map[string]string{"toy": toy, "bloom": filepath.Join(fixtures, "bloom")} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + name + "_guided.json")
			if err != nil {
				t.Fatal(err)
			}
			var cases []guided
			if err := json.Unmarshal(b, &cases); err != nil {
				t.Fatal(err)
			}
			if len(cases) < 20 {
				t.Fatalf("only %d cases", len(cases))
			}
			synctest.Test(t, func(t *testing.T) {
				r := openModel(t, path)
				for _, servers := range []int{1, 2} {
					w := r.world(servers, 1, 1)
					for i, c := range cases {
						c.run(t, r, w, i, func(*client.Engine, int) {})
					}
				}
				for i, c := range cases[:8] {
					w := r.world(2, 2, 1)
					c.run(t, r, w, i, func(e *client.Engine, step int) {
						if open := e.Sessions(); step == 2 && len(open) == 2 {
							w.Server(open[i%2].Route[i/2%2].Peer).Node.Kill()
						}
					})
				}
			})
		})
	}
}

// run answers one case; each hears of every step before its token is chosen.
func (c *guided) run(t *testing.T, r *real, w *World, i int, each func(e *client.Engine, step int)) {
	t.Helper()
	head, steps := &hittingReal{Head: r.head(1)}, 0
	e := w.Engine(head, r.ck.Config.Vocab, func(cfg *client.Config) { cfg.EOS = c.Params.EOS })
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(c.Prompt) + c.Params.Most})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	head.hit = func() {
		steps++
		each(e, steps)
	}
	res, err := s.Generate(t.Context(), client.Request{
		Prompt: c.Prompt, MaxNewTokens: c.Params.Most, TopLogprobs: -1, Guidance: &client.Guidance{Scale: c.Params.Scale, Other: c.Params.Other},
		Sampling: sample.Params{RepetitionPenalty: c.Params.Repetition, NoRepeatNGram: c.Params.NGram},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(res.IDs, c.Answers[0]) {
		t.Errorf("case %d, %+v:\n got %v\nwant %v", i, c.Params, res.IDs, c.Answers[0])
	}
	if left := len(e.Sessions()); left != 1 {
		t.Errorf("case %d: %d sessions are left of two", i, left)
	}
}

// A guided turn that is given up, or whose second session is ended, leaves no session but its own,
// which can go on; what cannot be done is refused by name.
func TestGuidanceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 60, Beams: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := client.Request{Prompt: prompt(4, 1), MaxNewTokens: 8, TopLogprobs: -1, Guidance: &client.Guidance{Scale: 2, Other: prompt(3, 2)}}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		res, err := s.Generate(ctx, r, func(client.Delta) error {
			if n++; n == 3 {
				cancel()
			}
			return nil
		})
		if err != nil || res.Finish != client.FinishCancelled || len(res.IDs) != 3 {
			t.Errorf("cancelled: %+v, %v", res, err)
		}
		n = 0
		res, err = s.Generate(t.Context(), r, func(client.Delta) error {
			if n++; n == 2 {
				for _, open := range e.Sessions() {
					if open.ID != s.ID() && !e.Kill(open.ID) {
						t.Error("the second session is not known")
					}
				}
			}
			return nil
		})
		if err != nil || res.Finish != client.FinishCancelled {
			t.Errorf("a second session that was ended: %+v, %v", res, err)
		}
		if open := e.Sessions(); len(open) != 1 {
			t.Errorf("%d sessions are open", len(open))
		}
		r.Prompt, r.MaxNewTokens = nil, 4
		if res, err = s.Generate(t.Context(), r, nil); err != nil || len(res.IDs) != 4 {
			t.Errorf("the next turn: %+v, %v", res, err)
		}
		for field, bad := range map[string]client.Request{
			"guidance_scale":      {Guidance: &client.Guidance{Scale: 2}, Beams: sample.BeamParams{Beams: 2, Return: 1, LengthPenalty: 1}},
			"negative_prompt_ids": {Guidance: &client.Guidance{Scale: 2, Other: []int32{FakeVocab}}},
		} {
			bad.Prompt, bad.MaxNewTokens, bad.TopLogprobs = prompt(2, 1), 2, -1
			if _, err := s.Generate(t.Context(), bad, nil); swarm.CodeOf(err) != swarm.CodeBadRequest || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}
