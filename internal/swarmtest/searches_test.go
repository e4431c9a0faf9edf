package swarmtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/sample"
	"whorl/tensor"
)

// searched is one line of testdata/*_searches.json, or of toy_groups.json.
type searched struct {
	Prompt  []int32
	Answers [][]int32
	Params  struct {
		Most       int       `json:"max_new_tokens"`
		EOS        []int32   `json:"eos_token_id"`
		Beams      int       `json:"num_beams"`
		Return     int       `json:"num_return_sequences"`
		Length     float64   `json:"length_penalty"`
		Early      any       `json:"early_stopping"`
		Groups     int       `json:"num_beam_groups"`
		Diversity  float64   `json:"diversity_penalty"`
		Repetition float64   `json:"repetition_penalty"`
		NGram      int       `json:"no_repeat_ngram_size"`
		MinNew     int       `json:"min_new_tokens"`
		BadWords   [][]int32 `json:"bad_words_ids"`
	}
}

func (c *searched) request() client.Request {
	p := &c.Params
	r := client.Request{Prompt: c.Prompt, MaxNewTokens: p.Most, TopLogprobs: -1, Sampling: sample.Params{
		RepetitionPenalty: p.Repetition, NoRepeatNGram: p.NGram, MinNewTokens: p.MinNew, BadWords: p.BadWords}}
	if p.Beams > 0 {
		r.Beams = sample.BeamParams{Beams: p.Beams, Return: p.Return, LengthPenalty: p.Length, Groups: p.Groups, Diversity: p.Diversity}
		switch p.Early {
		case true:
			r.Beams.Early = sample.EarlyTrue
		case "never":
			r.Beams.Early = sample.EarlyNever
		}
	}
	return r
}

// Searches and processors give transformers' ids through every layout, and also when one
// server after the other dies: the caches of stages follow their beams whatever the model
// knows of positions, rotations or slopes.
func TestSearchesEqualLibrary(t *testing.T) {
	for _, m := range []struct {
		name, path string
		stages     int
	}{{"toy_searches", toy, 3}, {"toy_groups", toy, 3}, {"bloom_searches", filepath.Join(fixtures, "bloom"), 2}} {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				searchesEqualLibrary(t, openModel(t, m.path), "testdata/"+m.name+".json", m.stages)
			})
		})
	}
}

func searchesEqualLibrary(t *testing.T, r *real, path string, stages int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []searched
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 40 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, servers := range []int{1, stages} {
		w := r.world(servers, 1, 1)
		for i, c := range cases {
			c.run(t, r, w, i, func(*client.Session, int) {})
		}
	}
	for i, c := range cases[:12] {
		w, kills := r.world(stages, 2, 1), 0
		c.run(t, r, w, i, func(s *client.Session, step int) {
			if step%4 == 2 && kills < stages {
				w.Server(s.Route()[kills].Peer).Node.Kill()
				kills++
			}
		})
	}
}

// run answers one case; each hears of every step before it is scored.
func (c *searched) run(t *testing.T, r *real, w *World, i int, each func(s *client.Session, step int)) {
	t.Helper()
	head, steps := &hittingReal{Head: r.head(1)}, 0
	e := w.Engine(head, r.ck.Config.Vocab, func(cfg *client.Config) { cfg.EOS = c.Params.EOS })
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(c.Prompt) + c.Params.Most, Beams: c.Params.Beams})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	head.hit = func() {
		steps++
		each(s, steps)
	}
	res, err := s.Generate(t.Context(), c.request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := [][]int32{res.IDs}
	if c.Params.Beams > 0 {
		got = nil
		for _, a := range res.Answers {
			got = append(got, a.IDs)
		}
	}
	if !slices.EqualFunc(got, c.Answers, slices.Equal[[]int32]) {
		t.Errorf("case %d, %d re-routes, %+v:\n got %v\nwant %v", i, res.Reroutes, c.Params, got, c.Answers)
	}
}

// hittingReal is a head that says when it is asked for logits.
type hittingReal struct {
	client.Head
	hit func()
}

func (h *hittingReal) Logits(dst, rows []float32, n int, mode tensor.Activations) error {
	h.hit()
	return h.Head.Logits(dst, rows, n, mode)
}
