package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// paced answers with the first token after 100 ms and each further one 10 ms later.
func paced(ctx context.Context, _ []int32, tokens int, piece func(int)) error {
	wait := 100 * time.Millisecond
	for range tokens {
		select {
		case <-time.After(wait):
			piece(1)
		case <-ctx.Done():
			return ctx.Err()
		}
		wait = 10 * time.Millisecond
	}
	return nil
}

func measureServing(t *testing.T, ask Ask, o ServingOptions) ([]Level, error) {
	t.Helper()
	var got []Level
	err := MeasureServing(t.Context(), ask, o, func(l Level) { got = append(got, l) })
	return got, err
}

func load(clients ...int) ServingOptions {
	return ServingOptions{Concurrency: clients, Requests: 2, Prompt: 3, Tokens: 11, Vocab: 50, Limit: time.Minute}
}

func TestServingTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := measureServing(t, paced, load(1, 4))
		if err != nil || len(got) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, n := range []int{1, 4} {
			l := got[i]
			if l.Concurrency != n || l.Requests != 2*n || l.Done != 2*n || l.Failed != 0 || l.Tokens != 22*n {
				t.Errorf("%+v", l)
			}
			// Two answers of 200 ms, one after the other.
			if l.Seconds != 0.4 || math.Abs(l.TokS-55*float64(n)) > 1e-9 {
				t.Errorf("%d clients: %v tok/s in %v s", n, l.TokS, l.Seconds)
			}
			if *l.FirstMS != (Spread{100, 100}) || *l.BetweenMS != (Spread{10, 10}) {
				t.Errorf("%d clients: first %+v, between %+v", n, *l.FirstMS, *l.BetweenMS)
			}
		}
	})
}

// What the limit cuts is neither done nor failed, and its tokens count.
// What servers count while a level runs tells how its clients shared iterations.
func TestServingIterations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := load(4)
		var count Iterations
		o.Iterations = func(context.Context) (Iterations, error) {
			count = Iterations{count.Steps*2 + 100, count.Sessions*3 + 150, count.Waited + 0.3}
			return count, nil
		}
		got, err := measureServing(t, paced, o)
		// 100, 150 and 0.3 before; 300, 600 and 0.6 after.
		if err != nil || len(got) != 1 || got[0].Batch == nil || *got[0].Batch != 2.25 || math.Abs(*got[0].WaitMS-1.5) > 1e-9 {
			t.Errorf("%+v, %v", got, err)
		}
		o.Iterations = func(context.Context) (Iterations, error) { return Iterations{Steps: 7}, nil }
		if got, err := measureServing(t, paced, o); err != nil || got[0].Batch != nil || got[0].WaitMS != nil {
			t.Errorf("a batch of no iterations: %+v, %v", got, err)
		}
		broken := errors.New("broken")
		o.Iterations = func(context.Context) (Iterations, error) { return Iterations{}, broken }
		if _, err := measureServing(t, paced, o); !errors.Is(err, broken) {
			t.Errorf("counters that cannot be read: %v", err)
		}
	})
}

func TestServingLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := load(3)
		o.Limit = 155 * time.Millisecond
		got, err := measureServing(t, paced, o)
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if l := got[0]; l.Requests != 3 || l.Done != 0 || l.Failed != 0 || l.Tokens != 3*6 || l.Seconds != 0.155 {
			t.Errorf("%+v", l)
		}
	})
}

// Prompts have the length, differ from each other, and are the same in every run.
func TestServingPrompts(t *testing.T) {
	prompts := func() []string {
		var mu sync.Mutex
		var seen []string
		_, err := measureServing(t, func(_ context.Context, prompt []int32, _ int, piece func(int)) error {
			mu.Lock()
			defer mu.Unlock()
			var text strings.Builder
			for _, id := range prompt {
				if id < 0 || id >= 50 {
					t.Errorf("id %d", id)
				}
				text.WriteRune(id + ' ')
			}
			if len(prompt) != 3 {
				t.Errorf("a prompt of %d", len(prompt))
			}
			seen = append(seen, text.String())
			piece(1)
			return nil
		}, load(3))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(seen)
		return seen
	}
	first := prompts()
	if len(first) != 7 || len(slices.Compact(slices.Clone(first))) != 7 || !slices.Equal(first, prompts()) {
		t.Errorf("prompts %q", first)
	}
}

func TestServingFailures(t *testing.T) {
	broken := errors.New("broken")
	var mu sync.Mutex
	asked := 0
	failing := func(which func(int) bool) Ask {
		asked = 0
		return func(_ context.Context, _ []int32, _ int, piece func(int)) error {
			mu.Lock()
			defer mu.Unlock()
			if asked++; which(asked) {
				return broken
			}
			piece(1)
			return nil
		}
	}
	if got, err := measureServing(t, failing(func(int) bool { return true }), load(1)); !errors.Is(err, broken) || got != nil {
		t.Errorf("the first request fails: %+v, %v", got, err)
	}
	got, err := measureServing(t, failing(func(n int) bool { return n == 3 }), load(2))
	if err != nil || len(got) != 1 || got[0].Failed != 1 || got[0].Done != 3 || got[0].Error != "broken" || got[0].BetweenMS != nil {
		t.Errorf("one of four fails: %+v, %v", got, err)
	}
	got, err = measureServing(t, failing(func(n int) bool { return n > 1 }), load(2, 3))
	if err == nil || !strings.Contains(err.Error(), "broken") || len(got) != 1 || got[0].Failed != 4 {
		t.Errorf("all fail: %+v, %v", got, err)
	}
	silent := func(context.Context, []int32, int, func(int)) error { return nil }
	if got, err := measureServing(t, silent, load(1)); err == nil || got[0].Failed != 2 {
		t.Errorf("answers without tokens: %+v, %v", got, err)
	}
}

func TestSpread(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(100-i)*time.Millisecond)
	}
	if s := spread(d); *s != (Spread{50, 95}) {
		t.Errorf("of 1 to 100: %+v", *s)
	}
	if s := spread([]time.Duration{2 * time.Millisecond}); *s != (Spread{2, 2}) || spread(nil) != nil {
		t.Errorf("of one: %+v", *s)
	}
}

func TestServingOptions(t *testing.T) {
	if err := load(1, 4096).Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*ServingOptions){
		func(o *ServingOptions) { o.Concurrency = nil }, func(o *ServingOptions) { o.Concurrency = []int{0} }, func(o *ServingOptions) { o.Concurrency = []int{4097} },
		func(o *ServingOptions) { o.Requests = 0 }, func(o *ServingOptions) { o.Prompt = 0 }, func(o *ServingOptions) { o.Tokens = 0 }, func(o *ServingOptions) { o.Limit = 0 },
	} {
		o := load(1)
		if bad(&o); o.Check() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
