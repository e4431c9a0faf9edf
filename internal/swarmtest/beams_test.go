package swarmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// beamSearch runs one in a session of its own.
func beamSearch(t *testing.T, e *client.Engine, o client.SessionOptions, r client.Request) client.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o.Beams = r.Beams.Beams
	s, err := e.Open(ctx, o)
	if err != nil {
		t.Error(err)
		return client.Result{}
	}
	defer s.Close()
	r.TopLogprobs = -1
	res, err := s.Generate(ctx, r, nil)
	if err != nil {
		t.Error(err)
	}
	return res
}

func sameAnswers(t *testing.T, what string, got []client.Answer, want []sample.Answer) {
	t.Helper()
	same := len(got) == len(want)
	for i := range got {
		same = same && slices.Equal(got[i].IDs, want[i].IDs) && got[i].Score == want[i].Score
	}
	if !same {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// Every layout and chunking gives the answers of one machine that computes every sequence
// from its start, also where prompts end inside, at and behind the edge of a page.
func TestBeamsEqualOneMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var engines []*client.Engine
		for _, spans := range [][]string{{"0:6"}, {"0:2", "2:4", "4:6"}, {"0:4", "2:6"}} {
			_, e := chain(t, 1, nil, spans...)
			engines = append(engines, e)
		}
		for i, n := range []int{1, 5, 62, 63, 64, 65, 130} {
			p, b := prompt(n, 3), sample.BeamParams{Beams: 2 + i, LengthPenalty: 1, Return: 2, Early: sample.Early(i % 3)}
			how := sample.Params{NoRepeatNGram: 3}
			switch {
			case i%2 == 1: // drawn
				how.Temperature, how.TopP, how.Seed = 0.8, 0.9, uint64(n)
			case b.Beams%2 == 0: // in groups
				b.Groups, b.Diversity = 2, 0.5
			}
			want := FakeBeams(p, 70, b, how)
			for layout, e := range engines {
				got := beamSearch(t, e, client.SessionOptions{MaxLength: n + 70, PrefillChunk: []int{0, 1, 3}[i%3]},
					client.Request{Prompt: p, MaxNewTokens: 70, Beams: b, Sampling: how})
				sameAnswers(t, fmt.Sprint("layout ", layout), got.Answers, want)
				if !slices.Equal(got.IDs, want[0].IDs) || got.Finish != client.FinishLength || got.Position != n+70 {
					t.Errorf("layout %d: the result is %v at position %d, %s", layout, got.IDs, got.Position, got.Finish)
				}
			}
		}
	})
}

// A step of a search takes S+1 messages, as one of a single sequence does.
func TestBeamsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:2", "2:4", "4:6")
		w.Net.Counts()
		beamSearch(t, e, client.SessionOptions{MaxLength: 64},
			client.Request{Prompt: prompt(5, 1), MaxNewTokens: 10, Beams: sample.BeamParams{Beams: 4, Return: 1, LengthPenalty: 1}})
		rows := 0
		for c, n := range w.Net.Counts() {
			if c.Type == wire.TypeRows {
				rows += n
			}
		}
		if rows != 4*10 {
			t.Errorf("%d messages with rows for ten steps through three stages, want 40", rows)
		}
	})
}

// A search leaves a session that goes on from its best answer, in turns of either kind.
func TestBeamsInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Beams: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var all []int32
		for turn := range 5 {
			p, b := prompt(3+turn, turn), sample.BeamParams{Beams: 4 - turn%2, Return: 1, LengthPenalty: 1}
			all = append(all, p...)
			r := client.Request{Prompt: p, MaxNewTokens: 9, TopLogprobs: -1}
			want := FakeGreedy(all, 9)
			if turn != 2 {
				r.Beams = b
				want = FakeBeams(all, 9, b, sample.Params{})[0].IDs
			}
			res, err := s.Generate(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(res.IDs, want) {
				t.Errorf("turn %d: %v, want %v", turn, res.IDs, want)
			}
			all = append(all, want...)
			if !slices.Equal(s.IDs(), all) {
				t.Errorf("turn %d: the session has %v, want %v", turn, s.IDs(), all)
			}
		}
	})
}

// Whatever dies or freezes, whenever, and however little was kept for it: the answers are
// those of one machine.
func TestBeamsChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(24) {
			r := rand.New(rand.NewPCG(seed, 9))
			w, _ := chain(t, 2, nil, "0:2", "0:3", "2:4", "3:6", "4:6", "0:6")
			n, most := 1+r.IntN(90), 30
			b := sample.BeamParams{Beams: 2 + r.IntN(4), Return: 2, LengthPenalty: 1}
			if seed%3 == 0 {
				b.Groups, b.Diversity = b.Beams, 1
			}
			want := FakeBeams(prompt(n, 2), most, b, sample.Params{})
			head := &hitting{}
			e := w.Engine(head, FakeVocab, func(c *client.Config) {
				c.JournalBytes = int64(r.IntN(3)) * 8000
				c.Timeouts.Probe, c.Timeouts.Answer = 100*time.Millisecond, 100*time.Millisecond
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			s, err := e.Open(ctx, client.SessionOptions{MaxLength: n + most, Beams: b.Beams, PrefillChunk: 1 + r.IntN(30)})
			if err != nil {
				t.Fatal(err)
			}
			hits := map[int]bool{}
			for range 3 {
				hits[1+r.IntN(most-2)] = true
			}
			head.hit = func() { // called once a step, between its logits and the next step
				if head.steps++; !hits[head.steps] {
					return
				}
				route := s.Route()
				victim := w.Server(route[r.IntN(len(route))].Peer)
				switch r.IntN(4) {
				case 0:
					victim.Pause()
					t.Cleanup(victim.Node.Resume)
				case 1: // while the next step is on its way
					time.AfterFunc(time.Duration(r.IntN(1000))*time.Microsecond, victim.Node.Kill)
				default:
					victim.Node.Kill()
				}
			}
			res, err := s.Generate(ctx, client.Request{Prompt: prompt(n, 2), MaxNewTokens: most, Beams: b, TopLogprobs: -1}, nil)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			sameAnswers(t, "chaos", res.Answers, want)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			s.Close()
			cancel()
		}
	})
}

// A stage that must go back to a step it has moved on from goes back to where the beams
// parted, and says so: the next route is planned with that. The journal has room for less
// rows than there are, so the stage before the lost one must compute again.
func TestBeamsGoBackToTheFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := chain(t, 1, nil, "0:2", "2:4", "4:6")
		w.Start("spare", swarm.Span{Start: 4, End: 6}, FakeLoader{}, nil)
		head := &hitting{}
		e := w.Engine(head, FakeVocab, func(c *client.Config) { c.JournalBytes = 2 * 64 * 4 * fakeHidden })
		b := sample.BeamParams{Beams: 5, Return: 5, LengthPenalty: 1}
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 50, Beams: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		head.hit = func() {
			if head.steps++; head.steps == 25 {
				w.Server(s.Route()[2].Peer).Node.Kill()
			}
		}
		res, err := s.Generate(t.Context(), client.Request{Prompt: prompt(10, 2), MaxNewTokens: 40, Beams: b, TopLogprobs: -1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, "after going back", res.Answers, FakeBeams(prompt(10, 2), 40, b, sample.Params{}))
		if got := s.Status().Epoch; got != 3 || res.Reroutes != 1 {
			t.Errorf("epoch %d after %d re-routes, want 3 after 1: the route, a plan that no stage could follow, and another", got, res.Reroutes)
		}
	})
}

// hitting is the fake head; it says when it is asked for logits.
type hitting struct {
	FakeHead
	hit   func()
	steps int
}

func (h *hitting) Logits(dst, rows []float32, n int, mode tensor.Activations) error {
	h.hit()
	return h.FakeHead.Logits(dst, rows, n, mode)
}

// Searches and single sequences share servers and batches.
func TestBeamsInCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				p := prompt(3+17*i, i)
				if i%2 == 0 {
					if got, want := generate(t, e, client.SessionOptions{MaxLength: 200}, p, 30, nil), FakeGreedy(p, 30); !slices.Equal(got, want) {
						t.Errorf("session %d: %v, want %v", i, got, want)
					}
					return
				}
				b := sample.BeamParams{Beams: 2 + i/2, Return: 1, LengthPenalty: 1}
				got := beamSearch(t, e, client.SessionOptions{MaxLength: 200}, client.Request{Prompt: p, MaxNewTokens: 30, Beams: b})
				sameAnswers(t, "in company", got.Answers, FakeBeams(p, 30, b, sample.Params{}))
			})
		}
		wg.Wait()
	})
}

// A search that is cancelled leaves the session as it was.
func TestBeamsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := chain(t, 1, nil, "0:3", "3:6")
		head := &hitting{hit: func() {}}
		e := w.Engine(head, FakeVocab, nil)
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Beams: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first := prompt(7, 1)
		greedy := client.Request{Prompt: first, MaxNewTokens: 5, TopLogprobs: -1}
		res, err := s.Generate(t.Context(), greedy, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := s.IDs()
		ctx, cancel := context.WithCancel(t.Context())
		head.hit = func() {
			if head.steps++; head.steps == 4 {
				cancel()
			}
		}
		_, err = s.Generate(ctx, client.Request{Prompt: prompt(5, 2), MaxNewTokens: 20, TopLogprobs: -1, Beams: sample.BeamParams{Beams: 3, Return: 1, LengthPenalty: 1}}, nil)
		if swarm.CodeOf(err) != swarm.CodeCancelled || !slices.Equal(s.IDs(), before) {
			t.Fatalf("%v; the session has %v, had %v", err, s.IDs(), before)
		}
		greedy.Prompt = prompt(4, 3)
		want := FakeGreedy(slices.Concat(first, res.IDs, greedy.Prompt), 5)
		if res, err = s.Generate(t.Context(), greedy, nil); err != nil || !slices.Equal(res.IDs, want) {
			t.Errorf("%v, %v, want %v", res.IDs, err, want)
		}
	})
}

func TestBeamsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 64, Beams: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		two := sample.BeamParams{Beams: 2, Return: 1}
		for what, r := range map[string]client.Request{
			"more beams than reserved": {Beams: sample.BeamParams{Beams: 3, Return: 1}, TopLogprobs: -1},
			"more answers than beams":  {Beams: sample.BeamParams{Beams: 2, Return: 3}, TopLogprobs: -1},
			"answers without beams":    {Beams: sample.BeamParams{Return: 2}, TopLogprobs: -1},
			"log-probabilities":        {Beams: two},
			"everything is forbidden":  {Beams: two, Sampling: sample.Params{BadWords: allWords()}, TopLogprobs: -1},
		} {
			r.Prompt, r.MaxNewTokens = prompt(3, 1), 5
			if _, err := s.Generate(t.Context(), r, nil); swarm.CodeOf(err) != swarm.CodeBadRequest || s.Position() != 0 {
				t.Errorf("%s: %v at position %d", what, err, s.Position())
			}
		}
		for _, n := range []int{-1, sample.MaxBeams + 1} {
			if _, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 64, Beams: n}); swarm.CodeOf(err) != swarm.CodeBadRequest {
				t.Errorf("%d beams: %v", n, err)
			}
		}
		if _, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 4096 / 4, Beams: 5}); swarm.CodeOf(err) != swarm.CodeTooLong {
			t.Errorf("five sequences in a cache for four: %v", err)
		}
	})
}

func allWords() [][]int32 {
	var out [][]int32
	for id := range int32(FakeVocab) {
		out = append(out, []int32{id})
	}
	return out
}

// An answer ends with its first token behind the time that it may take, alone and beside others.
func TestMaxTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:3", "3:6")
		w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration { return 10 * time.Millisecond })
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 200, Beams: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := FakeGreedy(prompt(5, 1), 100)
		r := client.Request{Prompt: prompt(5, 1), MaxNewTokens: 100, TopLogprobs: -1, Sampling: sample.Params{MaxTime: 0.5}}
		began := time.Now()
		res, err := s.Generate(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(res.IDs); n < 10 || n > 25 || !slices.Equal(res.IDs, want[:n]) || res.Finish != client.FinishLength || time.Since(began) > 600*time.Millisecond {
			t.Errorf("%d ids, %s, after %v", n, res.Finish, time.Since(began))
		}
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
		r.Branches = []client.Branch{{Prompt: []int32{1}}, {Prompt: []int32{2}}}
		began = time.Now()
		if res, err = s.Generate(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		for i, a := range res.Answers {
			if n := len(a.IDs); n < 10 || n > 25 || a.Finish != client.FinishLength || time.Since(began) > 600*time.Millisecond {
				t.Errorf("answer %d has %d ids, %s, after %v", i, n, a.Finish, time.Since(began))
			}
		}
		r.Branches, r.Beams = nil, sample.BeamParams{Beams: 2, Return: 1}
		if _, err := s.Generate(t.Context(), r, nil); swarm.AsError(err).Verdict != swarm.Caller {
			t.Errorf("with beams: %v", err)
		}
	})
}

// An operator sees how long each stage of a session takes: at the gateway with the network, at the
// server without it.
func TestStageTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:3", "3:6")
		w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration { return 10 * time.Millisecond })
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if st := s.Status(); st.Stages != nil {
			t.Errorf("before the first step: %+v", st.Stages)
		}
		if _, err := s.Generate(t.Context(), client.Request{Prompt: prompt(40, 1), MaxNewTokens: 30, TopLogprobs: -1}, nil); err != nil {
			t.Fatal(err)
		}
		st := s.Status()
		if len(st.Stages) != 2 {
			t.Fatalf("stages %+v", st.Stages)
		}
		for i, at := range st.Stages {
			own := w.Server(at.Peer).Sessions()[0]
			if at.Peer != st.Route[i].Peer || at.Span != st.Route[i].Span || at.Step < 10 || at.Step > 40 {
				t.Errorf("stage %d: %+v", i, at)
			}
			if len(own.Stages) != 1 || own.Queued != 0 || own.Stages[0].Step <= 0 || own.Stages[0].Step > 5 || *own.Stages[0].Queue > own.Stages[0].Step {
				t.Errorf("stage %d says itself: %+v", i, own)
			}
		}
	})
}
