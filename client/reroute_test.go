package client_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/swarm"
)

// A server that goes back one row further each time is left like any other that fails,
// instead of being asked once for every row.
func TestShrinkingStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 0:3", "c 3:6")
		s := w.open(t, client.SessionOptions{MaxLength: 512})
		history := append(prompt(300), generate(t, s, prompt(300), 2, nil)...)
		liar := w.servers[s.Route()[0].Peer]
		liar.mu.Lock()
		liar.shrinks, liar.routes = true, 0
		liar.mu.Unlock()
		if err := s.Truncate(250); err != nil {
			t.Fatal(err)
		}
		got := generate(t, s, []int32{4, 2}, 5, nil)
		if want := swarmtest.FakeGreedy(append(history[:250:250], 4, 2), 5); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		liar.mu.Lock()
		asked := liar.routes
		liar.mu.Unlock()
		if now := w.servers[s.Route()[0].Peer]; now == liar || asked > 2 {
			t.Errorf("asked %d times; still on the route: %v", asked, now == liar)
		}
		if other := w.open(t, client.SessionOptions{MaxLength: 64}); w.servers[other.Route()[0].Peer] == liar {
			t.Error("the next session goes to it again")
		}
	})
}

// The only holder takes the session again and again and fails at its rows: the client slows
// down, and says in the end what was wrong.
func TestStageThatSpoilsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *client.Config) { c.Timeouts.Recover = 300 * time.Millisecond }, "a 0:6")
		w.servers["a"].spoils = true
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := s.Generate(ctx, client.Request{Prompt: prompt(5), MaxNewTokens: 3, TopLogprobs: -1}, nil)
		if swarm.CodeOf(err) != swarm.CodeBadOutput || !strings.Contains(err.Error(), "no progress") {
			t.Errorf("%v", err)
		}
		w.servers["a"].mu.Lock()
		defer w.servers["a"].mu.Unlock()
		if n := w.servers["a"].opens; n > 12 {
			t.Errorf("it was tried %d times", n)
		}
	})
}

// A server that puts its failures down to others is left before it has all of them avoided:
// those that are not its neighbours it cannot speak of, of its neighbours it is believed once.
func TestStageThatBlamesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for blames, lost := range map[string]int{"next": 2, "d": 0} {
			w := newWorld(t, nil, "a 0:2", "b 0:2", "c0 2:4", "c1 2:4", "c2 2:4", "c3 2:4", "d 4:6", "e 4:6")
			s := w.open(t, client.SessionOptions{MaxLength: 64})
			liar := s.Route()[0].Peer
			if last := string(s.Route()[2].Peer); blames == "d" {
				blames = last
			}
			w.servers[liar].mu.Lock()
			w.servers[liar].blames = blames
			w.servers[liar].mu.Unlock()
			if got, want := generate(t, s, prompt(5), 3, nil), swarmtest.FakeGreedy(prompt(5), 3); !slices.Equal(got, want) {
				t.Errorf("blaming %s: %v, want %v", blames, got, want)
			}
			if s.Route()[0].Peer == liar || blames != "next" && string(s.Route()[2].Peer) != blames {
				t.Errorf("blaming %s: the liar %s is on the route %v", blames, liar, s.Route())
			}
			used := 0
			for id, f := range w.servers {
				f.mu.Lock()
				if f.opens > 0 && id[0] == 'c' {
					used++
				}
				f.mu.Unlock()
			}
			if used > 1+lost {
				t.Errorf("blaming %s: %d middle servers were tried", blames, used)
			}
		}
	})
}

// A new session that meets servers that hang goes on to the next, however long each of them
// took to show it; where all hang it says so in the time that this takes.
func TestFirstRouteAroundHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:6", "b 0:6", "c 0:6")
		w.servers["a"].node.Pause()
		w.servers["b"].node.Pause()
		var sessions sync.WaitGroup
		for range 4 {
			sessions.Go(func() {
				if s := w.open(t, client.SessionOptions{MaxLength: 64}); s.Route()[0].Peer != "c" {
					t.Errorf("route %v", s.Route())
				}
			})
		}
		sessions.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:6", "b 0:6")
		w.servers["a"].node.Pause()
		w.servers["b"].node.Pause()
		begin := time.Now()
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 64})
		// Those that hang are suspected: nobody is left to be asked.
		if took := time.Since(begin); swarm.CodeOf(err) != swarm.CodeBlocksMissing || took > 20*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
