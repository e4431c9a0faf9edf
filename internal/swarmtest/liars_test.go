package swarmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// observer is a client's memory of peers that a test can read.
type observer struct {
	*trust.Book
	mu   sync.Mutex // guards seen
	seen []string
}

func (o *observer) Observe(what trust.Observation, now time.Time) {
	o.Book.Observe(what, now)
	if what.Kind == trust.Served || what.Kind == trust.Agreed {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, fmt.Sprintf("%s %s", what.Peer, strings.Split(what.Detail, ":")[0]))
}

// of lists who was observed, and how, without repetitions.
func (o *observer) of() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(o.seen))), ", ")
}

// scene is a swarm of named servers with an observing client, in virtual time and with 1 to
// 20 ms between any two nodes.
func scene(t *testing.T, seed uint64, loader FakeLoader, change func(*client.Config), servers ...string) (*World, *client.Engine, *observer) {
	t.Helper()
	w := NewWorld(t, FakeManifest)
	r := rand.New(rand.NewPCG(seed, 5))
	var mu sync.Mutex
	ways := map[[2]swarm.PeerID]time.Duration{}
	w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		way := [2]swarm.PeerID{from, to}
		if ways[way] == 0 {
			ways[way] = time.Millisecond + time.Duration(r.IntN(19000))*time.Microsecond
		}
		return ways[way]
	})
	for _, s := range servers {
		begin(t, w, s, loader)
	}
	seen := &observer{Book: trust.NewBook(trust.DefaultParams())}
	return w, w.Engine(FakeHead{}, FakeVocab, func(c *client.Config) {
		c.Trust, c.Timeouts = seen, client.DefaultTimeouts()
		if change != nil {
			change(c)
		}
	}), seen
}

// begin starts a server, named "name start:end", and waits until it is online.
func begin(t *testing.T, w *World, s string, loader FakeLoader) {
	t.Helper()
	name, text, _ := strings.Cut(s, " ")
	span, err := swarm.ParseSpan(text)
	if err != nil {
		t.Fatal(err)
	}
	w.Start(swarm.PeerID(name), span, loader, nil)
}

var quick = FakeLoader{Delay: 300 * time.Microsecond}

// turn generates n ids and returns them with the hash of all logits and what it took.
func turn(t *testing.T, s *client.Session, prompt []int32, n int, each func(have int)) (client.Result, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	at, have := time.Now(), 0
	r, err := s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: n, TopLogprobs: -1, Hash: true}, func(d client.Delta) error {
		if have += len(d.IDs); each != nil {
			each(have)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return r, time.Since(at)
}

// undisturbed is a turn in a swarm of one honest server.
func undisturbed(t *testing.T, prompt []int32, n int) client.Result {
	t.Helper()
	_, e, _ := scene(t, 0, quick, nil, "only 0:6")
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, _ := turn(t, s, prompt, n, nil)
	return r
}

// A liar in the middle is left and nobody else is, whatever its lie is: the text and the bits
// of all logits are those of an undisturbed run, over few routes and in little time.
func TestLiarInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		name   string
		lie    Lie
		seen   string // of the liar, which is called "liar"
		within time.Duration
	}{
		{"positions one too high", Shifts(1), "liar accused", 2 * time.Second},
		{"positions one too low", Shifts(-1), "liar accused", 2 * time.Second},
		{"computes and never pushes", Keeps, "liar withheld", 8 * time.Second},
		{"pushes late", Trickles(3 * time.Second), "liar withheld", 25 * time.Second}, // six pieces of the prompt take 18 s of it
		{"a false caller's fault at the open", BlamesCaller(wire.TypeAccept, 100), "liar refused", 2 * time.Second},
		{"a false caller's fault at the open, at length", BlamesCaller(wire.TypeAccept, 2<<20), "liar wrong", 2 * time.Second},
		{"a false caller's fault at the rows", BlamesCaller(wire.TypeDone, 100), "liar refused", 2 * time.Second},
	} {
		for _, chunk := range []int{0, 7} {
			synctest.Test(t, func(t *testing.T) {
				want := undisturbed(t, prompt(40, 3), 20)
				w, e, seen := scene(t, 7, quick, nil, "first 0:2", "liar 2:4", "last 4:6")
				w.Server("liar").Lies(c.lie)
				// The honest holder of the same blocks comes when the liar is on the route, or
				// when one that lies at the open has been asked.
				opening := strings.Contains(c.name, "open")
				var s *client.Session
				var err error
				opened := make(chan struct{})
				go func() {
					defer close(opened)
					s, err = e.Open(t.Context(), client.SessionOptions{MaxLength: 200, PrefillChunk: chunk})
				}()
				if opening {
					<-time.After(200 * time.Millisecond)
				} else {
					<-opened
				}
				begin(t, w, "honest 2:4", quick)
				if <-opened; err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				defer s.Close()
				got, took := turn(t, s, prompt(40, 3), 20, nil)
				if !slices.Equal(got.IDs, want.IDs) || got.LogitsHash != want.LogitsHash {
					t.Errorf("%s, chunk %d: ids %v, logits %s, want %v, %s", c.name, chunk, got.IDs, got.LogitsHash, want.IDs, want.LogitsHash)
				}
				if seen.of() != c.seen || got.Reroutes > 1 || took > c.within {
					t.Errorf("%s, chunk %d: observed %q over %d re-routes in %v, want %q over 1 in %v", c.name, chunk, seen.of(), got.Reroutes, took, c.seen, c.within)
				}
			})
		}
	}
}

// A server that dies takes no neighbour with it: of a chain without a spare the first stage
// stays, and computes nothing again when another server takes the dead one's place.
func TestNeighbourOfTheDead(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			want := undisturbed(t, prompt(30, 1), 20)
			w, e, seen := scene(t, seed, quick, nil, "first 0:2", "middle 2:4", "last 4:6")
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got client.Result
			done := make(chan struct{})
			killed := make(chan struct{})
			go func() {
				defer close(done)
				got, _ = turn(t, s, prompt(30, 1), 20, func(have int) {
					if have == 5+int(seed%7) {
						w.Server("middle").Node.Kill()
						close(killed)
					}
				})
			}()
			<-killed
			<-time.After(3 * time.Second)
			begin(t, w, "spare 2:4", quick)
			<-done
			if got.LogitsHash != want.LogitsHash || got.Reroutes != 1 {
				t.Errorf("seed %d: logits %s over %d re-routes, want %s over 1", seed, got.LogitsHash, got.Reroutes, want.LogitsHash)
			}
			if seen.of() != "middle vanished" && seen.of() != "middle unreachable, middle vanished" {
				t.Errorf("seed %d: observed %q", seed, seen.of())
			}
			if steps := w.Server("first").Server.Status().Steps; steps > 24 {
				t.Errorf("seed %d: the first stage took %d steps for 20 tokens", seed, steps)
			}
		})
	}
}

// Callers that go away, by a deadline or by closing their socket, prove nothing about a
// server: nobody is observed, and the next caller is served at once.
func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, seen := scene(t, 3, quick, nil, "first 0:2", "middle 2:4", "last 4:6")
		r := rand.New(rand.NewPCG(1, 1))
		var wg sync.WaitGroup
		for i := range 200 {
			patience := time.Duration(r.IntN(120000)) * time.Microsecond
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if i%2 == 0 {
					var leave context.CancelFunc
					ctx, leave = context.WithCancel(t.Context())
					time.AfterFunc(patience, leave)
				}
				s, err := e.Open(ctx, client.SessionOptions{MaxLength: 20})
				if err == nil {
					_, err = s.Generate(ctx, client.Request{Prompt: prompt(5, i), MaxNewTokens: 4, TopLogprobs: -1}, nil)
					s.Close()
				}
				if c := swarm.CodeOf(err); err != nil && c != swarm.CodeTimeout && c != swarm.CodeCancelled && c != swarm.CodeTooMany {
					t.Errorf("caller %d after %v: %v", i, patience, err)
				}
			})
			if i%20 == 19 {
				wg.Wait()
			}
		}
		at := time.Now()
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 20})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if took := time.Since(at); took > 200*time.Millisecond {
			t.Errorf("the next caller waited %v", took)
		}
		if view, _ := w.Dir.For("client").View(t.Context(), FakeManifest.UID()); seen.of() != "" || len(view.Missing()) > 0 {
			t.Errorf("observed %q, missing %v", seen.of(), view.Missing())
		}
	})
}

// A server that takes many times what it announces is left for one that does not, after some
// steps and never without one.
func TestSlowServer(t *testing.T) {
	for _, spare := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			want := undisturbed(t, prompt(10, 3), 12)
			w, e, seen := scene(t, 5, quick, nil, "first 0:2", "last 4:6")
			begin(t, w, "slow 2:4", FakeLoader{Delay: 12 * time.Second})
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 200})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if spare {
				begin(t, w, "fast 2:4", quick)
			}
			got, took := turn(t, s, prompt(10, 3), 12, nil)
			if got.LogitsHash != want.LogitsHash {
				t.Errorf("logits %s, want %s", got.LogitsHash, want.LogitsHash)
			}
			if spare && (seen.of() != "slow slow" || got.Reroutes != 1 || took > 50*time.Second) || !spare && (seen.of() != "" || got.Reroutes > 0) {
				t.Errorf("with another server %v: observed %q over %d re-routes in %v", spare, seen.of(), got.Reroutes, took)
			}
		})
	}
}

// What every holder says of a session is told in our words, and theirs reach nobody.
func TestRefusalsInOurWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			says swarm.Code
			want swarm.Code
			text string
		}{
			{swarm.CodeCacheFull, swarm.CodeCacheFull, "attention cache is full"},
			{swarm.CodeTooLong, swarm.CodeTooLong, "cannot hold a session of 20 tokens"},
			{"invalid_api_key", swarm.CodePeerLost, "gave the session up"},
			{swarm.CodeBadRequest, swarm.CodePeerLost, "gave the session up"},
		} {
			w, e, _ := scene(t, 3, quick, nil, "a 0:6", "b 0:6")
			for _, p := range []swarm.PeerID{"a", "b"} {
				w.Server(p).Lies(func(proto string, t wire.Type, frame []byte) []byte {
					if proto != wire.ProtoSession || t != wire.TypeAccept {
						return frame
					}
					return wire.AppendJSON(nil, wire.TypeFail, wire.Fail{Epoch: 99, Code: c.says, Verdict: swarm.Caller, Message: "see https://evil.example"})
				})
			}
			_, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 20})
			if e := swarm.AsError(err); e.Code != c.want || e.Verdict == swarm.Caller || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "evil") {
				t.Errorf("all say %s: %v (%s, %s)", c.says, err, e.Code, e.Verdict)
			}
		}
	})
}
