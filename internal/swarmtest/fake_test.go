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
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// chain starts servers named by their spans, so many of each. The tests run in bubbles: no
// machine is too slow for their timeouts. A step takes a while of that virtual time, so
// that things can happen in the middle of it.
func chain(t *testing.T, copies int, change func(*server.Config), spans ...string) (*World, *client.Engine) {
	t.Helper()
	w := NewWorld(t, FakeManifest)
	for _, text := range spans {
		span, err := swarm.ParseSpan(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range copies {
			w.Start(swarm.PeerID(fmt.Sprintf("%s/%d", text, i)), span, FakeLoader{Delay: 300 * time.Microsecond}, change)
		}
	}
	return w, w.Engine(FakeHead{}, FakeVocab, nil)
}

func prompt(n, seed int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i + seed) % FakeVocab)
	}
	return ids
}

func generate(t *testing.T, e *client.Engine, o client.SessionOptions, prompt []int32, n int, each func(s *client.Session, have int)) []int32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := e.Open(ctx, o)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer s.Close()
	have := 0
	r, err := s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: n, TopLogprobs: -1}, func(d client.Delta) error {
		have += len(d.IDs)
		if each != nil {
			each(s, have)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return r.IDs
}

func TestChunksAndLayouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := FakeGreedy(prompt(100, 3), 20)
		for _, spans := range [][]string{{"0:6"}, {"0:2", "2:4", "4:6"}, {"0:4", "2:6"}} {
			_, e := chain(t, 1, nil, spans...)
			for _, chunk := range []int{0, 1, 7, 99} {
				got := generate(t, e, client.SessionOptions{MaxLength: 130, PrefillChunk: chunk}, prompt(100, 3), 20, nil)
				if !slices.Equal(got, want) {
					t.Errorf("%v chunk %d: %v, want %v", spans, chunk, got, want)
				}
			}
		}
	})
}

// S+1 one-way messages carry a token, whatever else is on the wire.
func TestMessagesPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:2", "2:4", "4:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for turn, p := range [][]int32{prompt(5, 1), nil} {
			w.Net.Counts()
			if _, err := s.Generate(t.Context(), client.Request{Prompt: p, MaxNewTokens: 10, TopLogprobs: -1}, nil); err != nil {
				t.Fatal(err)
			}
			if turn == 0 {
				continue
			}
			rows := map[[2]swarm.PeerID]int{}
			for c, n := range w.Net.Counts() {
				if c.Type == wire.TypeRows {
					rows[[2]swarm.PeerID{c.From, c.To}] = n
				}
			}
			want := map[[2]swarm.PeerID]int{{"client", "0:2/0"}: 10, {"0:2/0", "2:4/0"}: 10, {"2:4/0", "4:6/0"}: 10, {"4:6/0", "client"}: 10}
			if fmt.Sprint(rows) != fmt.Sprint(want) {
				t.Errorf("messages for ten tokens: %v, want %v", rows, want)
			}
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				p := prompt(3+7*i, i)
				got := generate(t, e, client.SessionOptions{MaxLength: 200}, p, 30, nil)
				if want := FakeGreedy(p, 30); !slices.Equal(got, want) {
					t.Errorf("session %d: %v, want %v", i, got, want)
				}
			})
		}
		wg.Wait()
	})
}

// Whatever dies or freezes, whenever: the ids are those of one machine, and everything is
// freed at the end.
func TestChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			w, _ := chain(t, 2, nil, "0:2", "0:3", "2:4", "3:6", "4:6", "0:6")
			e := w.Engine(FakeHead{}, FakeVocab, func(c *client.Config) {
				c.JournalBytes = int64(r.IntN(3)) * 8000
				c.Timeouts.Probe, c.Timeouts.Answer = 100*time.Millisecond, 100*time.Millisecond
			})
			n := 1 + r.IntN(100)
			hits := map[int]bool{}
			for range 3 {
				hits[1+r.IntN(39)] = true
			}
			got := generate(t, e, client.SessionOptions{MaxLength: 150, PrefillChunk: 1 + r.IntN(30)}, prompt(n, 2), 40, func(s *client.Session, have int) {
				if !hits[have] {
					return
				}
				route := s.Route()
				victim := w.Server(route[r.IntN(len(route))].Peer)
				if r.IntN(3) == 0 {
					victim.Pause()
					t.Cleanup(victim.Node.Resume)
				} else {
					victim.Node.Kill()
				}
			})
			if want := FakeGreedy(prompt(n, 2), 40); !slices.Equal(got, want) {
				t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
			}
		}
	})
}

// The length given at open fixes what depends on it: every stage is told the same, first
// ones and those that step in.
func TestOneLengthForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(t, FakeManifest)
		var mu sync.Mutex
		var lengths []int
		l := FakeLoader{Lengths: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			lengths = append(lengths, n)
		}}
		for _, id := range []swarm.PeerID{"0:3/0", "0:3/1", "3:6/0", "3:6/1"} {
			w.Start(id, swarm.Span{Start: int(id[0] - '0'), End: int(id[2] - '0')}, l, nil)
		}
		e := w.Engine(FakeHead{}, FakeVocab, nil)
		p := prompt(9, 1)
		got := generate(t, e, client.SessionOptions{MaxLength: 123}, p, 20, func(s *client.Session, have int) {
			if have == 5 || have == 12 {
				w.Server(s.Route()[have%2].Peer).Node.Kill()
			}
		})
		if want := FakeGreedy(p, 20); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(lengths) < 4 || slices.ContainsFunc(lengths, func(n int) bool { return n != 123 }) {
			t.Errorf("lengths of the stages: %v, want 123 at least four times", lengths)
		}
	})
}

// A client that goes away frees what it held on every server.
func TestEverythingIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:3", "3:6")
		generate(t, e, client.SessionOptions{MaxLength: 64}, prompt(5, 1), 5, nil)
		for _, id := range []swarm.PeerID{"0:3/0", "3:6/0"} {
			end := time.After(2 * time.Second)
			for len(w.Server(id).Sessions()) > 0 || w.Server(id).Server.Status().Cache.UsedTokens > 0 {
				select {
				case <-end:
					t.Fatalf("%s still holds %+v", id, w.Server(id).Sessions())
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	})
}
