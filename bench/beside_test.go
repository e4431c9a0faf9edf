package bench

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shared answers with a token every 10 ms, or every 20 while a prompt of 500 is computed, which
// takes 300 ms alone and 450 beside answers.
type shared struct{ prompts, answers atomic.Int32 }

func (s *shared) ask(ctx context.Context, prompt []int32, tokens int, piece func(int)) error {
	if len(prompt) == 500 {
		s.prompts.Add(1)
		defer s.prompts.Add(-1)
		took := 300 * time.Millisecond
		if s.answers.Load() > 0 {
			took = 450 * time.Millisecond
		}
		time.Sleep(took)
		piece(1)
		return nil
	}
	s.answers.Add(1)
	defer s.answers.Add(-1)
	for range tokens {
		gap := 10 * time.Millisecond
		if s.prompts.Load() > 0 {
			gap *= 2
		}
		select {
		case <-time.After(gap):
			piece(1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// What a prompt costs answers that run on, and what they cost it.
func TestBesidePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared
		b, err := MeasureBeside(t.Context(), s.ask, BesideOptions{
			Clients: 3, Load: ServingOptions{Prompt: 3, Tokens: 10_000, Vocab: 50}, Rounds: 3, Window: time.Second, Prompt: 500,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !near(b.Without.TokS, 300, 6) || b.Without.BetweenMS != (Spread{10, 10}) {
			t.Errorf("without it: %+v", b.Without)
		}
		if !near(b.With.TokS, 150, 8) || b.With.BetweenMS != (Spread{20, 20}) || !near(b.Rate, 0.5, 0.03) || b.P95 != 2 {
			t.Errorf("with it: %+v, %v of the rate, p95 %v times the median", b.With, b.Rate, b.P95)
		}
		if *b.PromptAloneMS != 300 || *b.PromptMS != 450 || *b.Prompt != 1.5 {
			t.Errorf("the prompt takes %v ms alone, %v beside them, %v times as long", *b.PromptAloneMS, *b.PromptMS, *b.Prompt)
		}
	})
}

// Clients that are further away are there in every second window only, and told apart.
func TestBesideFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, other shared
		far := func(ctx context.Context, prompt []int32, tokens int, piece func(int)) error {
			s.prompts.Add(1) // they hold the others up
			defer s.prompts.Add(-1)
			return other.ask(ctx, prompt, tokens, piece)
		}
		b, err := MeasureBeside(t.Context(), s.ask, BesideOptions{
			Clients: 2, Load: ServingOptions{Prompt: 3, Tokens: 10_000, Vocab: 50}, Rounds: 2, Window: time.Second,
			Far: []Far{{5 * time.Millisecond, far}, {20 * time.Millisecond, far}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !near(b.Without.TokS, 200, 4) || !near(b.With.TokS, 100, 4) || len(b.Far) != 2 || b.Prompt != nil {
			t.Fatalf("%+v", b)
		}
		for i, delay := range []float64{5, 20} {
			if f := b.Far[i]; f.DelayMS != delay || !near(f.TokS, 100, 2) {
				t.Errorf("far ones: %+v", f)
			}
		}
	})
}

// What training costs answers that run on, and how fast it is beside them; training that fails is said.
func TestBesideTraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared
		o := BesideOptions{Clients: 2, Load: ServingOptions{Prompt: 3, Tokens: 10_000, Vocab: 50}, Rounds: 3, Window: time.Second}
		o.Train = func(ctx context.Context) (int, error) { // answers are half as fast meanwhile, and it is so beside them
			s.prompts.Add(1)
			defer s.prompts.Add(-1)
			took := 100 * time.Millisecond
			if s.answers.Load() > 0 {
				took *= 2
			}
			select {
			case <-time.After(took):
				return 32, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		b, err := MeasureBeside(t.Context(), s.ask, o)
		if err != nil {
			t.Fatal(err)
		}
		if !near(b.Rate, 0.5, 0.03) || b.P95OfP95 != 2 || !near(*b.TrainAloneRowS, 320, 33) || !near(*b.TrainRowS, 160, 33) || b.Prompt != nil {
			t.Errorf("%+v, alone %v rows/s, beside them %v", b, *b.TrainAloneRowS, *b.TrainRowS)
		}
		o.Train = func(context.Context) (int, error) { return 0, context.DeadlineExceeded }
		began := time.Now()
		if _, err := MeasureBeside(t.Context(), s.ask, o); err == nil || !strings.Contains(err.Error(), "training") || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestBesideRefuses(t *testing.T) {
	good := BesideOptions{Clients: 1, Rounds: 1, Window: time.Second, Prompt: 5}
	for want, change := range map[string]func(o *BesideOptions){
		"0 clients":      func(o *BesideOptions) { o.Clients = 0 },
		"0 rounds":       func(o *BesideOptions) { o.Rounds = 0 },
		"windows of 0s":  func(o *BesideOptions) { o.Window = 0 },
		"one of them":    func(o *BesideOptions) { o.Prompt = 0 },
		"prompt of -1":   func(o *BesideOptions) { o.Prompt = -1 },
		"client 0s away": func(o *BesideOptions) { o.Prompt, o.Far = 0, []Far{{}} },
		"a prompt or training": func(o *BesideOptions) {
			o.Train = func(context.Context) (int, error) { return 0, nil }
		},
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	failing := func(context.Context, []int32, int, func(int)) error { return context.DeadlineExceeded }
	if _, err := MeasureBeside(t.Context(), failing, good); err == nil {
		t.Error("a load that fails is measured")
	}
}

// Rates are compared within a round: a machine that is half as fast in the second one changes
// nothing.
func TestMultiples(t *testing.T) {
	level := func(n int, rate float64) Level {
		return Level{Concurrency: n, TokS: rate, BetweenMS: &Spread{1000 / rate, 2000 / rate}}
	}
	got := Multiples([]Level{level(1, 100), level(2, 150), level(1, 50), level(2, 80), level(1, 100), level(2, 160)}, 2)
	if len(got) != 2 || got[0].Of != 1 || got[1] != (Multiple{Concurrency: 2, TokS: 150, Of: 1.6, Least: 1.5, Most: 1.6, BetweenMS: got[1].BetweenMS}) {
		t.Errorf("%+v", got)
	}
	if *got[1].BetweenMS != (Spread{1000.0 / 150, 2000.0 / 150}) {
		t.Errorf("between: %+v", *got[1].BetweenMS)
	}
}
