package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/wire"
)

func TestLayoutsAndChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := swarmtest.FakeGreedy(prompt(37), 12)
		for _, layout := range [][]string{
			{"a 0:6"},
			{"a 0:2", "b 2:4", "c 4:6"},
			{"a 0:4", "b 2:6"},
			{"a 0:1", "b 1:2", "c 2:3", "d 3:4", "e 4:5", "f 5:6"},
		} {
			for _, chunk := range []int{0, 1, 5, 36, 37, 100} {
				w := newWorld(t, nil, layout...)
				s := w.open(t, client.SessionOptions{MaxLength: 64, PrefillChunk: chunk})
				if got := generate(t, s, prompt(37), 12, nil); !slices.Equal(got, want) {
					t.Errorf("%v chunk %d: %v, want %v", layout, chunk, got, want)
				}
			}
		}
	})
}

// A decoded token costs S+1 one-way messages on the critical path: one to the first
// stage, one between neighbours, one from the last.
func TestMessagesPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:2", "b 2:4", "c 4:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		generate(t, s, prompt(5), 1, nil)
		w.net.Counts()
		generate(t, s, nil, 10, nil)
		c := w.net.Counts()
		rows := 0
		for k, n := range c {
			if k.Type == wire.TypeRows {
				rows += n
			}
		}
		for _, hop := range [][2]swarm.PeerID{{"client", "a"}, {"a", "b"}, {"b", "c"}, {"c", "client"}} {
			if n := c[swarmtest.Count{From: hop[0], To: hop[1], Type: wire.TypeRows}]; n != 10 {
				t.Errorf("%d rows frames from %s to %s for 10 tokens", n, hop[0], hop[1])
			}
		}
		if rows != 40 {
			t.Errorf("%d rows frames for 10 tokens through 3 stages, want 40", rows)
		}
	})
}

func TestKill(t *testing.T) {
	want := swarmtest.FakeGreedy(prompt(9), 30)
	for _, victim := range []string{"first", "middle", "last"} {
		for _, at := range []int{1, 7, 29} {
			for _, journal := range []int64{1 << 20, 0} {
				t.Run(fmt.Sprintf("%s at %d journal %d", victim, at, journal), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, func(c *client.Config) { c.JournalBytes = journal },
							"a1 0:2", "a2 0:2", "b1 2:4", "b2 2:4", "c1 4:6", "c2 4:6")
						s := w.open(t, client.SessionOptions{MaxLength: 64})
						got := generate(t, s, prompt(9), 30, func(n int) {
							if n == at {
								i := map[string]int{"first": 0, "middle": 1, "last": 2}[victim]
								w.servers[s.Route()[i].Peer].node.Kill()
							}
						})
						if !slices.Equal(got, want) {
							t.Errorf("%v\nwant %v", got, want)
						}
					})
				})
			}
		}
	}
}

// A stage dies in mid-prefill: what was on its way arrives all the same.
func TestKillInPrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := swarmtest.FakeGreedy(prompt(50), 3)
		for i, victims := range [][]string{{"a1", "a2"}, {"b1", "b2"}, {"c1", "c2"}, {"a1", "a2", "b1", "b2", "c1", "c2"}} {
			for _, at := range []int{1, 8, 23, 50} {
				w := newWorld(t, nil, "a1 0:2", "a2 0:2", "b1 2:4", "b2 2:4", "c1 4:6", "c2 4:6", "z 0:6")
				s := w.open(t, client.SessionOptions{MaxLength: 64, PrefillChunk: 4})
				for _, v := range victims {
					w.servers[swarm.PeerID(v)].mu.Lock()
					w.servers[swarm.PeerID(v)].dieAt = at
					w.servers[swarm.PeerID(v)].mu.Unlock()
				}
				if got := generate(t, s, prompt(50), 3, nil); !slices.Equal(got, want) {
					t.Errorf("victims %d at %d: %v, want %v", i, at, got, want)
				}
			}
		}
	})
}

// The journal spares the survivors: only the new stage computes what it lacks.
func TestKillRecomputesOnlyTheLostSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:2", "b1 2:4", "b2 2:4", "c 4:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		generate(t, s, prompt(20), 10, nil)
		eventually(t, "the journal of 29 computed rows", func() bool { return client.KnownRows(s, 2) == 29 })
		lost := s.Route()[1].Peer
		spare := map[swarm.PeerID]swarm.PeerID{"b1": "b2", "b2": "b1"}[lost]
		w.servers[lost].node.Kill()
		generate(t, s, nil, 1, nil)
		for id, limit := range map[swarm.PeerID]int{"a": 31, "c": 31, spare: 30} {
			f := w.servers[id]
			f.mu.Lock()
			if f.rows > limit {
				t.Errorf("%s computed %d rows for 30 positions", id, f.rows)
			}
			f.mu.Unlock()
		}
	})
}

// A frozen stage is left within the probe's time; when it wakes it disturbs nothing.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := swarmtest.FakeGreedy(prompt(9), 30)
		w := newWorld(t, nil, "a 0:2", "b1 2:4", "b2 2:4", "c 4:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		var frozen swarm.PeerID
		got := generate(t, s, prompt(9), 30, func(n int) {
			switch n {
			case 5:
				frozen = s.Route()[1].Peer
				w.servers[frozen].node.Pause()
			case 15:
				w.servers[frozen].node.Resume()
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		if now := s.Route()[1].Peer; now == frozen {
			t.Error("the frozen stage is still on the route")
		}
	})
}

// A stage that answers but passes nothing on is left after the step deadline.
func TestMuteStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := swarmtest.FakeGreedy(prompt(9), 5)
		w := newWorld(t, nil, "a 0:3", "b1 3:6", "b2 3:6")
		w.servers["b1"].noPush = true
		w.servers["b2"].noPush = true
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		spare := map[swarm.PeerID]swarm.PeerID{"b1": "b2", "b2": "b1"}[s.Route()[1].Peer]
		w.servers[spare].mu.Lock()
		w.servers[spare].noPush = false
		w.servers[spare].mu.Unlock()
		if got := generate(t, s, prompt(9), 5, nil); !slices.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	})
}

// Whatever dies, whenever, with whatever journal: the ids are those of one machine.
func TestChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 7))
			var servers []string
			for i, span := range []string{"0:2", "0:3", "2:4", "1:4", "3:6", "4:6", "0:6", "2:6"} {
				for k := range 2 {
					servers = append(servers, fmt.Sprintf("s%d%d %s", i, k, span))
				}
			}
			w := newWorld(t, func(c *client.Config) { c.JournalBytes = int64(r.IntN(3)) * 8000 }, servers...)
			for _, f := range w.servers {
				f.journal = r.IntN(60) - 1
			}
			n := 1 + r.IntN(20)
			s := w.open(t, client.SessionOptions{MaxLength: 100, PrefillChunk: 1 + r.IntN(8)})
			want := swarmtest.FakeGreedy(prompt(n), 40)
			kills := map[int]bool{1 + r.IntN(39): true, 1 + r.IntN(39): true, 1 + r.IntN(39): true}
			got := generate(t, s, prompt(n), 40, func(have int) {
				if kills[have] {
					route := s.Route()
					w.servers[route[r.IntN(len(route))].Peer].node.Kill()
				}
			})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
			}
			s.Close()
		}
	})
}

func TestContinueAndTruncate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 3:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		first := generate(t, s, prompt(6), 5, nil)
		first = append(first, generate(t, s, nil, 5, nil)...)
		if want := swarmtest.FakeGreedy(prompt(6), 10); !slices.Equal(first, want) {
			t.Fatalf("%v, want %v", first, want)
		}
		if s.Position() != 16 {
			t.Errorf("position %d, want 16", s.Position())
		}
		if err := s.Truncate(9); err != nil {
			t.Fatal(err)
		}
		got := generate(t, s, []int32{4, 2}, 6, nil)
		history := append(append(prompt(6), first[:3]...), 4, 2)
		if want := swarmtest.FakeGreedy(history, 6); !slices.Equal(got, want) {
			t.Errorf("after the cut %v, want %v", got, want)
		}
		if err := s.Truncate(99); swarm.CodeOf(err) != swarm.CodeBadRequest {
			t.Errorf("cut beyond the end: %v", err)
		}
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		_, err := s.Generate(t.Context(), client.Request{Prompt: prompt(50), MaxNewTokens: 20}, nil)
		if swarm.CodeOf(err) != swarm.CodeTooLong {
			t.Fatalf("%v, want max_length", err)
		}
		for _, n := range []string{"50", "20", "64", "Maximum length exceeded"} {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%q does not name %s", err, n)
			}
		}
		_, err = s.Generate(t.Context(), client.Request{Prompt: []int32{1}, MaxNewTokens: math.MaxInt, TopLogprobs: -1}, nil)
		if swarm.CodeOf(err) != swarm.CodeTooLong {
			t.Errorf("more tokens than can be counted: %v", err)
		}
		if w.servers["a"].rows != 0 {
			t.Error("rows were computed for a request over budget")
		}
		if got, want := generate(t, s, prompt(50), 14, nil), swarmtest.FakeGreedy(prompt(50), 14); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		_, err = s.Generate(t.Context(), client.Request{Prompt: []int32{vocab}, MaxNewTokens: 0, TopLogprobs: -1}, nil)
		if swarm.CodeOf(err) != swarm.CodeBadRequest {
			t.Errorf("an id outside the vocabulary: %v", err)
		}
		_, err = s.Generate(t.Context(), client.Request{Prompt: nil, Sampling: sample.Params{TopP: 2}}, nil)
		if swarm.CodeOf(err) != swarm.CodeBadRequest || !strings.Contains(err.Error(), "top_p") {
			t.Errorf("top_p of 2: %v", err)
		}
	})
}

func TestMissingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *client.Config) { c.Timeouts.First = 100 * time.Millisecond }, "a 0:4")
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 8})
		e := swarm.AsError(err)
		if e.Code != swarm.CodeBlocksMissing || !slices.Equal(e.Missing, []swarm.Span{{Start: 4, End: 6}}) || !strings.Contains(err.Error(), "4-5") {
			t.Fatalf("%v %v", err, e.Missing)
		}
		if len(w.engine.Sessions()) != 0 {
			t.Error("the refused session is still listed")
		}
	})
}

// A session that no server could ever hold is refused at once, with what would fit.
func TestNoRoomAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *client.Config) { c.MaxLength = 1 << 21 }, "a 0:3", "b 3:6")
		begin := time.Now()
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 1 << 21})
		if swarm.CodeOf(err) != swarm.CodeTooLong || !strings.Contains(err.Error(), "4096") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("refused after %v", took)
		}
		if got, two := w.engine.Room(t.Context(), client.SessionOptions{}), w.engine.Room(t.Context(), client.SessionOptions{Beams: 1 << 9}); got != 4096 || two != 1<<11 {
			t.Errorf("room for %d, and for %d of %d sequences", got, two, 1<<9)
		}
	})
}

// The last holder dies: the stream ends with an error that says so, within the deadline.
func TestNobodyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 3:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n := 0
		_, err := s.Generate(ctx, client.Request{Prompt: prompt(4), MaxNewTokens: 20, TopLogprobs: -1}, func(d client.Delta) error {
			if n += len(d.IDs); n == 3 {
				w.servers["b"].node.Kill()
			}
			return nil
		})
		if c := swarm.CodeOf(err); c != swarm.CodeBlocksMissing && c != swarm.CodeTimeout {
			t.Errorf("%v", err)
		}
	})
}

// A refusal sends the session elsewhere, or is the answer when there is nowhere else.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := swarm.Errorf(swarm.CodeCacheFull, swarm.Again, "Server's attention cache is full")
		w := newWorld(t, func(c *client.Config) { c.Timeouts.First = 300 * time.Millisecond }, "a 0:6", "b 0:6")
		w.servers["a"].refuse = full
		if s := w.open(t, client.SessionOptions{MaxLength: 8}); s.Route()[0].Peer != "b" {
			t.Errorf("route %v", s.Route())
		}
		w.servers["b"].refuse = full
		if _, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 8}); swarm.CodeOf(err) != swarm.CodeCacheFull {
			t.Errorf("%v", err)
		}
		// Whoever says that time is over lives, and is not hidden from others.
		late := swarm.Errorf(swarm.CodeTimeout, swarm.Again, "not committed in time")
		w.servers["a"].refuse, w.servers["b"].refuse = late, late
		if _, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 8}); swarm.CodeOf(err) != swarm.CodeTimeout {
			t.Errorf("%v", err)
		}
	})
}

// A server that claims rows that cannot be is left for another.
func TestImpossiblePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lie := range []int{-1, -1 << 40, 65} {
			w := newWorld(t, nil, "a 0:6", "b 0:6")
			w.servers["a"].lie = lie
			s := w.open(t, client.SessionOptions{MaxLength: 64})
			generate(t, s, prompt(5), 4, nil)
			if s.Route()[0].Peer != "b" {
				t.Errorf("a claims %d rows: route %v", lie, s.Route())
			}
		}
	})
}

// A cancelled turn leaves the session usable; a killed session says what happened to it.
func TestCancelAndKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 3:6")
		s := w.open(t, client.SessionOptions{MaxLength: 64})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Generate(ctx, client.Request{Prompt: prompt(4), MaxNewTokens: 20, TopLogprobs: -1}, func(d client.Delta) error {
			if s.Position() == 4+5 {
				cancel()
			}
			return nil
		})
		if err != nil || r.Finish != client.FinishCancelled || len(r.IDs) != 5 {
			t.Fatalf("%+v %v", r, err)
		}
		got := append(r.IDs, generate(t, s, nil, 6, nil)...)
		if want := swarmtest.FakeGreedy(prompt(4), 11); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if !w.engine.Kill(s.ID()) || w.engine.Kill("no such") {
			t.Error("kill finds sessions wrongly")
		}
		if _, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 1, TopLogprobs: -1}, nil); swarm.CodeOf(err) != swarm.CodeCancelled {
			t.Errorf("%v", err)
		}
		stop := errors.New("enough")
		s2 := w.open(t, client.SessionOptions{MaxLength: 64})
		if _, err := s2.Generate(t.Context(), client.Request{Prompt: prompt(3), MaxNewTokens: 4, TopLogprobs: -1}, func(client.Delta) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("an error of emit: %v", err)
		}
	})
}

// Sessions are closed at any moment by whoever owns them: nothing panics, nothing leaks.
// Moments need real time: that of a bubble stands still while a turn makes progress.
func TestCloseAtAnyTime(t *testing.T) {
	w := newWorld(t, func(c *client.Config) { c.Timeouts = client.DefaultTimeouts() }, "a 0:2", "b 2:4", "b2 2:4", "c 4:6")
	for i := range 60 {
		s, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 200})
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		time.AfterFunc(time.Duration(i)*100*time.Microsecond, func() {
			s.Close()
			close(closed)
		})
		s.Generate(t.Context(), client.Request{Prompt: prompt(9), MaxNewTokens: 150, TopLogprobs: -1}, nil)
		<-closed
		if _, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 1, TopLogprobs: -1}, nil); err == nil {
			t.Fatal("a closed session generates")
		}
	}
	for id, f := range w.servers {
		eventually(t, fmt.Sprint("sessions of ", id, " are freed"), func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.sessions) == 0
		})
	}
	if n := len(w.engine.Sessions()); n != 0 {
		t.Errorf("%d sessions are listed", n)
	}
}
