package swarmtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/server"
	"whorl/swarm"
)

// tight is a server with 16 pages of cache whose sessions get little time.
func tight(c *server.Config) {
	c.CacheToken, c.PeerCache = 16*64, 0.5
	c.Timeouts.Service, c.Timeouts.Rest = 2*time.Millisecond, time.Second
}

// A session that is parked again and again in the middle of its answer, since others that
// hold less come and go, gives the ids and the logits of one that is left alone.
func TestParkedSessionsKeepTheirText(t *testing.T) {
	for _, c := range []struct {
		name  string
		beams int
		req   client.Request
	}{
		{"greedy", 0, client.Request{TopLogprobs: -1}},
		{"sampled", 0, client.Request{TopLogprobs: -1, Sampling: sample.Params{Temperature: 1.3, TopK: 40, Seed: 7}}},
		{"beams", 2, client.Request{TopLogprobs: -1, Beams: sample.BeamParams{Beams: 2, Return: 1, LengthPenalty: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.req.Prompt, c.req.MaxNewTokens, c.req.Hash = prompt(40, 5), 150, c.beams == 0
				length := 512 / max(1, c.beams)
				run := func(e *client.Engine) client.Result {
					s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: length, Beams: c.beams})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					r, err := s.Generate(t.Context(), c.req, nil)
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				_, alone := chain(t, 1, nil, "0:3", "3:6")
				want := run(alone)

				w, e := chain(t, 1, tight, "0:3", "3:6")
				ctx, stop := context.WithCancel(t.Context())
				var others sync.WaitGroup
				for i := range 5 {
					other := w.EngineAt(swarm.PeerID(fmt.Sprint("other ", i)), FakeHead{}, FakeVocab, nil)
					others.Go(func() {
						for ctx.Err() == nil {
							s, err := other.Open(ctx, client.SessionOptions{MaxLength: 128})
							if err == nil {
								s.Generate(ctx, client.Request{Prompt: prompt(9, i), MaxNewTokens: 3, TopLogprobs: -1}, nil)
								time.Sleep(15 * time.Millisecond)
								s.Close()
							}
							time.Sleep(time.Duration(5+i) * time.Millisecond)
						}
					})
				}
				got := run(e)
				stop()
				others.Wait()
				if !slices.Equal(got.IDs, want.IDs) || got.LogitsHash != want.LogitsHash {
					t.Errorf("parked %d times:\n got %v %s\nwant %v %s", got.Reroutes, got.IDs, got.LogitsHash, want.IDs, want.LogitsHash)
				}
				if t.Logf("parked %d times", got.Reroutes); got.Reroutes == 0 {
					t.Error("nobody parked the session")
				}
			})
		})
	}
}

// Somebody who thinks for minutes, less than --step-timeout, keeps the place as long as nobody
// needs it, and is parked and replayed when somebody does.
func TestThinkingUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, func(c *server.Config) { tight(c); c.PeerCache = 1 }, "0:3", "3:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 512})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var all []int32
		turn := func() int {
			p := prompt(7, len(all))
			all = append(all, p...)
			r, err := s.Generate(t.Context(), client.Request{Prompt: p, MaxNewTokens: 20, TopLogprobs: -1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := FakeGreedy(all, 20); !slices.Equal(r.IDs, want) {
				t.Errorf("got %v, want %v", r.IDs, want)
			}
			all = append(all, r.IDs...)
			return r.Reroutes
		}
		turn()
		time.Sleep(4 * time.Minute)
		if n := turn(); n != 0 {
			t.Errorf("%d re-routes, though nobody else was there", n)
		}
		time.Sleep(2 * time.Minute)
		large, err := w.EngineAt("large", FakeHead{}, FakeVocab, nil).Open(t.Context(), client.SessionOptions{MaxLength: 900})
		if err != nil {
			t.Fatal(err)
		}
		if open := w.Server("0:3/0").Sessions(); len(open) != 1 || open[0].Peer != "large" {
			t.Errorf("sessions %+v", open)
		}
		time.Sleep(5 * time.Second)
		if n := turn(); n != 1 { // the large one rests by now
			t.Errorf("%d re-routes", n)
		}
		large.Close()
	})
}

// Strangers who take all places, or all cache, and send nothing keep nobody out.
func TestCacheHeldForNothing(t *testing.T) {
	for _, c := range []struct {
		name              string
		identities, opens int
		length            int
		wait              time.Duration
		honest            time.Duration // what an honest user may have to wait
	}{
		{"4 identities with 64 sessions of a token", 4, 64, 1, 0, 4 * time.Second},
		{"2 opens of all that one may have, with long waits", 1, 2, 4096, 10 * time.Minute, 4 * time.Second},
		{"4 identities with such opens", 4, 2, 4096, 10 * time.Minute, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, honest := chain(t, 1, func(s *server.Config) { s.CacheToken, s.PeerCache = 8192, 0.5 }, "0:3", "3:6")
				ctx, stop := context.WithCancel(t.Context())
				var opens sync.WaitGroup
				for i := range c.identities {
					evil := w.EngineAt(swarm.PeerID(fmt.Sprint("evil ", i)), FakeHead{}, FakeVocab, nil)
					for range c.opens {
						opens.Go(func() {
							for ctx.Err() == nil {
								if s, err := evil.Open(ctx, client.SessionOptions{MaxLength: c.length, Wait: c.wait}); err == nil {
									<-ctx.Done()
									s.Close()
								}
								time.Sleep(100 * time.Millisecond)
							}
						})
					}
				}
				time.Sleep(time.Second) // they were first
				synctest.Wait()
				t.Logf("strangers hold %d places and %d tokens", w.Server("0:3/0").Status().Sessions, w.Server("0:3/0").Status().Cache.UsedTokens)
				for i := range 20 {
					start := time.Now()
					p := prompt(20, i)
					if got := generate(t, honest, client.SessionOptions{MaxLength: 1000}, p, 30, nil); !slices.Equal(got, FakeGreedy(p, 30)) {
						t.Errorf("answer %d: %v", i, got)
					}
					if took := time.Since(start); took > c.honest {
						t.Errorf("answer %d took %v", i, took)
					}
				}
				stop()
				opens.Wait()
			})
		})
	}
}
