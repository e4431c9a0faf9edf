package swarmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Several answers that go on from one text are what each of them is alone, however long their own
// texts are, through every layout, and when servers die; the text is computed once, and the session
// goes on from it, or from one of them.
func TestBranchesEqualAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 5))
			how := sample.Params{Temperature: float64(seed%3) * 0.7, TopP: 0.9, RepetitionPenalty: 1.2}
			text, most := prompt(1+r.IntN(80), 1), 1+r.IntN(20)
			var branches []client.Branch
			for i := range 2 + r.IntN(4) {
				branches = append(branches, client.Branch{Prompt: prompt(r.IntN(5), i+2), Seed: seed + uint64(i)})
			}
			_, alone := chain(t, 1, nil, "0:6")
			var want []client.Result
			for _, b := range branches {
				s := how
				s.Seed = b.Seed
				want = append(want, once(t, alone, client.Request{Prompt: slices.Concat(text, b.Prompt), MaxNewTokens: most, TopLogprobs: 1, Sampling: s}))
			}
			w, e := chain(t, 2, nil, "0:2", "2:4", "4:6", "0:6")
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 3 * (len(text) + most + 8), Beams: len(branches)})
			if err != nil {
				t.Fatal(err)
			}
			steps, kill := 0, r.IntN(2*len(branches)*most)
			texts := map[int][]int32{}
			req := client.Request{Prompt: text, MaxNewTokens: most, TopLogprobs: 1, Sampling: how, Branches: branches}
			res, err := s.Generate(t.Context(), req, func(d client.Delta) error {
				if steps++; steps == kill {
					w.Server(s.Route()[0].Peer).Node.Kill()
				}
				texts[d.Branch] = append(texts[d.Branch], d.IDs...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range res.Answers {
				if !slices.Equal(a.IDs, want[i].IDs) || !slices.Equal(texts[i], a.IDs) || a.Finish != want[i].Finish || fmt.Sprint(a.Logprobs) != fmt.Sprint(want[i].Logprobs) {
					t.Errorf("seed %d, answer %d: %v (told %v), alone %v", seed, i, a.IDs, texts[i], want[i].IDs)
				}
			}
			if len(res.Answers) != len(branches) || !slices.Equal(s.IDs(), text) || res.Position != len(text) {
				t.Errorf("seed %d: %d answers, and the session is at %v", seed, len(res.Answers), s.IDs())
			}
			chosen := slices.Concat(branches[1].Prompt, res.Answers[1].IDs)
			if err := s.Keep(chosen); err != nil {
				t.Fatal(err)
			}
			next, err := s.Generate(t.Context(), client.Request{Prompt: prompt(2, 9), MaxNewTokens: 3, TopLogprobs: -1}, nil)
			if all := slices.Concat(text, chosen, prompt(2, 9)); err != nil || !slices.Equal(next.IDs, FakeGreedy(all, 3)) {
				t.Errorf("seed %d: behind the answer that was kept: %v, %v", seed, next.IDs, err)
			}
			s.Close()
		}
	})
}

// once is the answer of a session of its own.
func once(t *testing.T, e *client.Engine, r client.Request) client.Result {
	t.Helper()
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(r.Prompt) + r.MaxNewTokens})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	res, err := s.Generate(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A text is computed once for all of its answers, and a step of theirs takes as many messages as
// one of a single answer.
func TestBranchesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:2", "2:4", "4:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 64, Beams: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w.Net.Counts()
		branches := make([]client.Branch, 4)
		if _, err := s.Generate(t.Context(), client.Request{Prompt: prompt(5, 1), MaxNewTokens: 10, TopLogprobs: -1, Branches: branches}, nil); err != nil {
			t.Fatal(err)
		}
		rows := 0
		for c, n := range w.Net.Counts() {
			if c.Type == wire.TypeRows {
				rows += n
			}
		}
		if rows != 4*10 {
			t.Errorf("%d messages with rows for ten tokens of four answers through three stages, want 40", rows)
		}
	})
}

// What cannot be done is refused before any compute; a turn that is given up leaves the text.
func TestBranchesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 40, Beams: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		two := make([]client.Branch, 2)
		for want, bad := range map[string]client.Request{
			"num_beams":      {Branches: make([]client.Branch, 3)},
			"guidance_scale": {Branches: two, Guidance: &client.Guidance{Scale: 2}},
			"vocabulary":     {Branches: []client.Branch{{}, {Prompt: []int32{FakeVocab}}}},
			"exceeds":        {Branches: []client.Branch{{}, {Prompt: prompt(36, 1)}}},
		} {
			bad.Prompt, bad.MaxNewTokens, bad.TopLogprobs = prompt(2, 1), 4, -1
			_, err := s.Generate(t.Context(), bad, nil)
			if swarm.AsError(err).Verdict != swarm.Caller || !strings.Contains(err.Error(), want) || s.Position() != 0 {
				t.Errorf("%s: %v", want, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		res, err := s.Generate(ctx, client.Request{Prompt: prompt(2, 1), MaxNewTokens: 8, TopLogprobs: -1, Branches: two}, func(client.Delta) error {
			if n++; n == 5 {
				cancel()
			}
			return nil
		})
		if err != nil || res.Finish != client.FinishCancelled || len(res.Answers) != 2 || len(res.IDs) < 5 || !slices.Equal(s.IDs(), prompt(2, 1)) {
			t.Errorf("cancelled: %+v, %v; the session has %v", res, err, s.IDs())
		}
		if err := s.Keep(prompt(39, 1)); swarm.CodeOf(err) != swarm.CodeTooLong {
			t.Errorf("kept more than there is room for: %v", err)
		}
	})
}
