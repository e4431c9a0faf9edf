package swarmtest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// tricks are lies that are told in frames; the lies of audits_test.go are told in rows.
var tricks = map[string]func(r *rand.Rand) Lie{
	"rows under other positions": func(r *rand.Rand) Lie { return Shifts(1 - 2*r.IntN(2)) },
	"mute":                       func(*rand.Rand) Lie { return Keeps },
	"trickle":                    func(r *rand.Rand) Lie { return Trickles(time.Second + time.Duration(r.IntN(2000))*time.Millisecond) },
	"false error":                func(*rand.Rand) Lie { return BlamesCaller(wire.TypeDone, 100) },
	"wrong epoch": func(*rand.Rand) Lie {
		return func(_ string, t wire.Type, frame []byte) []byte {
			if t == wire.TypeRows || t == wire.TypeJournal {
				if h, _, err := wire.ParseRows(frame[frameHead:]); err == nil {
					h.Epoch++
					h.Append(frame[frameHead:frameHead])
				}
			}
			return frame
		}
	},
	"wrong digest": func(*rand.Rand) Lie {
		return func(_ string, t wire.Type, frame []byte) []byte {
			var v wire.Status
			if t != wire.TypeAccept || wire.Decode(t, frame[frameHead:], &v) != nil {
				return frame
			}
			v.Mode = content.Sum([]byte("another"))
			return wire.AppendJSON(nil, t, v)
		}
	},
	"other rows than it shows": func(r *rand.Rand) Lie {
		low, high := byte(r.IntN(256)), byte(1+r.IntN(255)) // its own, or two liars tell one lie
		return func(proto string, t wire.Type, frame []byte) []byte {
			if proto == wire.ProtoPush && t == wire.TypeRows {
				frame[len(frame)-4] ^= low
				frame[len(frame)-3] ^= high
			}
			return frame
		}
	},
}

// crowd is a swarm of six holders a block, two of them liars, whose client takes them by chance.
func crowd(t *testing.T, seed uint64, kind string) (*World, *client.Engine, *observer) {
	r := rand.New(rand.NewPCG(seed, 21))
	var mu sync.Mutex
	draw := func() float64 { mu.Lock(); defer mu.Unlock(); return r.Float64() }
	var servers []string
	for i := range 4 {
		servers = append(servers, fmt.Sprintf("first%d 0:3", i), fmt.Sprintf("last%d 3:6", i))
	}
	w, e, seen := scene(t, seed, quick, func(c *client.Config) {
		c.Draw = draw
		c.RTT = func(swarm.PeerID) (time.Duration, bool) {
			return time.Duration(1 + draw()*float64(50*time.Millisecond)), true
		}
	}, servers...)
	for i := range 2 {
		for k, s := range []string{"liar-first%d 0:3", "liar-last%d 3:6"} {
			own := rand.New(rand.NewPCG(seed, uint64(100+2*i+k)))
			loader := quick
			if lie := lies[kind]; lie != nil {
				loader.Lie = lie(own, i)
			} else if kind == "NaN" {
				loader.Lie = func(rows []float32, _ int) { rows[own.IntN(len(rows))] = float32(math.NaN()) }
			}
			name := fmt.Sprintf(s, i)
			begin(t, w, name, loader)
			if trick := tricks[kind]; trick != nil {
				w.Server(swarm.PeerID(strings.Fields(name)[0])).Lies(trick(own))
			}
		}
	}
	return w, e, seen
}

// tokensOf is how many tokens an answer has: who lies rarely has many rows to do so.
func tokensOf(kind string) int {
	if strings.Contains(kind, "thousandth") {
		return 80
	}
	return 12
}

// disjoint says what is wrong with the route of a verified session: it is to be so many chains
// over all blocks, without a common server.
func disjoint(hops []swarm.Hop, n int) string {
	seen := map[swarm.PeerID]bool{}
	at, chains := 0, 0
	for _, h := range hops {
		if seen[h.Peer] || h.Span.Start != at {
			return fmt.Sprint(hops)
		}
		seen[h.Peer] = true
		if at = h.Span.End; at == FakeManifest.Blocks {
			at = 0
			chains++
		}
	}
	if chains != n || at != 0 {
		return fmt.Sprint(hops)
	}
	return ""
}

// Whatever a third of the servers of each block lie about, every answer of a verified session has
// the ids and the bits of an undisturbed one, and honest servers are held to be no liars.
func TestVerifiedAnswers(t *testing.T) {
	kinds := append(slices.Collect(maps.Keys(lies)), append(slices.Collect(maps.Keys(tricks)), "NaN")...)
	slices.Sort(kinds)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			differed := uint64(0)
			for seed := range uint64(liarRuns(2)) {
				synctest.Test(t, func(t *testing.T) {
					n, tokens := 2+int(seed%2), tokensOf(kind)
					_, e, seen := crowd(t, seed, kind)
					for i := range 4 {
						p := prompt(20, i)
						want := undisturbed(t, p, tokens)
						s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 200, Verify: n})
						if err != nil {
							t.Fatal(err)
						}
						r, _ := turn(t, s, p, tokens, nil)
						if !slices.Equal(r.IDs, want.IDs) || r.LogitsHash != want.LogitsHash || r.Verified != n {
							t.Errorf("seed %d, %d chains: %v, verified by %d, want %v", seed, n, r.IDs, r.Verified, want.IDs)
						}
						if wrong := disjoint(r.Route, n); wrong != "" {
							t.Errorf("seed %d, %d chains: %s", seed, n, wrong)
						}
						s.Close()
					}
					differed += e.Audits().Differences
					for _, st := range seen.Standings(time.Now()) {
						if st.Avoid != nil && st.Avoid.Never && !strings.HasPrefix(string(st.Peer), "liar") {
							t.Errorf("seed %d: %s is avoided: %s", seed, st.Peer, st.Avoid.Reason)
						}
					}
				})
			}
			if always := lies[kind] != nil && tokensOf(kind) == 12; always && differed == 0 {
				t.Error("no liar was on a chain")
			}
		})
	}
}

// Conversations, searches and scores are verified as single answers are; what is cut off is cut
// off on all chains.
func TestVerifiedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type result struct {
			first, second client.Result
			found         []client.Answer
			score         client.Score
		}
		ask := func(e *client.Engine, n int) (out result) {
			o := client.SessionOptions{MaxLength: 200, Verify: n, Beams: 3}
			s, err := e.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out.first, _ = turn(t, s, prompt(20, 1), 8, nil)
			if err := s.Truncate(23); err != nil {
				t.Fatal(err)
			}
			out.second, _ = turn(t, s, prompt(5, 2), 8, nil)
			if err := s.Truncate(10); err != nil {
				t.Fatal(err)
			}
			r, err := s.Generate(t.Context(), client.Request{Prompt: prompt(5, 3), MaxNewTokens: 8, TopLogprobs: -1, Beams: sample.BeamParams{Beams: 3, Return: 3}}, nil)
			if err != nil || r.Verified != n && n > 1 {
				t.Fatalf("a search is verified by %d: %v", r.Verified, err)
			}
			out.found = r.Answers
			scored, err := e.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer scored.Close()
			if out.score, err = scored.Score(t.Context(), prompt(30, 4)); err != nil {
				t.Fatal(err)
			}
			return out
		}
		_, honest, _ := scene(t, 0, quick, nil, "only 0:6")
		want := ask(honest, 0)
		for _, kind := range []string{"one bit of each row", "other rows than it shows"} {
			_, e, _ := crowd(t, 3, kind)
			got := ask(e, 2)
			if got.first.LogitsHash != want.first.LogitsHash || got.second.LogitsHash != want.second.LogitsHash || !slices.Equal(got.second.IDs, want.second.IDs) {
				t.Errorf("%s: %v and %v, want %v and %v", kind, got.first.IDs, got.second.IDs, want.first.IDs, want.second.IDs)
			}
			if fmt.Sprint(got.found) != fmt.Sprint(want.found) || fmt.Sprint(got.score) != fmt.Sprint(want.score) {
				t.Errorf("%s: found %v, want %v", kind, got.found, want.found)
			}
		}
	})
}

// Chains that lose a server take no server of another chain; where one cannot go on beside the
// other as it is, both are laid anew. The answer is the same.
func TestVerifiedChainsLoseServers(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []string
		then    string // comes when the first token is there
	}{
		{"with spares", []string{"a 0:3", "b 0:3", "c 0:3", "d 3:6", "e 3:6", "f 3:6"}, ""},
		{"the other one is in the way", []string{"a 0:6", "b 0:4", "c 2:6"}, "d 0:2, e 4:6"},
		{"help comes late", []string{"a 0:3", "b 0:3", "d 3:6", "e 3:6"}, "c 0:3, f 3:6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kill := range 2 {
				synctest.Test(t, func(t *testing.T) {
					want := undisturbed(t, prompt(20, 1), 30)
					w, e, _ := scene(t, 2, quick, nil, c.servers...)
					s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: 2})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					r, _ := turn(t, s, prompt(20, 1), 30, func(have int) {
						if have == 1 && c.then != "" {
							for _, name := range strings.Split(c.then, ", ") {
								begin(t, w, name, quick)
							}
						}
						if have == 8 {
							w.Server(s.Route()[kill*(len(s.Route())-1)].Peer).Close()
						}
					})
					if !slices.Equal(r.IDs, want.IDs) || r.LogitsHash != want.LogitsHash || r.Reroutes == 0 {
						t.Errorf("kill %d: %v after %d re-routes, want %v", kill, r.IDs, r.Reroutes, want.IDs)
					}
					if wrong := disjoint(r.Route, 2); wrong != "" {
						t.Errorf("kill %d: %s", kill, wrong)
					}
				})
			}
		})
	}
}

// Where there are too few servers, or none to judge by, nothing is shown and the error says so.
func TestVerifiedTooFew(t *testing.T) {
	for _, c := range []struct {
		servers []string
		liar    string
		n       int
		want    string
	}{
		{[]string{"a 0:4", "b 2:6", "c 0:3"}, "", 2, "No servers holding blocks 4-5 of fake are left for 2 chains that share none: each of these blocks needs 2 servers with room for 100 tokens"},
		{[]string{"a 0:6", "b 0:6"}, "", 3, "No servers holding blocks 0-5 of fake are left for 3 chains that share none: each of these blocks needs 3 servers with room for 100 tokens"},
		{[]string{"a 0:6"}, "b 0:6", 2, "the chains of servers gave different rows, and too few servers are left to compute them again: No servers holding blocks 0-5"},
		{[]string{"a 0:6"}, "", 4, "whorl_verify is 4: want 1 to 3"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, e, _ := scene(t, 1, quick, nil, c.servers...)
			if c.liar != "" {
				begin(t, w, c.liar, FakeLoader{Lie: flips(rand.New(rand.NewPCG(1, 1)), 1)})
			}
			begun := time.Now()
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: c.n})
			if err == nil {
				_, err = s.Generate(t.Context(), client.Request{Prompt: prompt(9, 1), MaxNewTokens: 5, TopLogprobs: -1}, func(d client.Delta) error {
					t.Errorf("%v is shown", d)
					return nil
				})
				s.Close()
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%d chains over %v %s: %v, want %s", c.n, c.servers, c.liar, err, c.want)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%d chains over %v %s: an error after %v", c.n, c.servers, c.liar, took)
			}
		})
	}
}

// A verified session ends like any other: a caller who leaves finds it as it was, and one that is
// killed or closed leaves nothing behind, neither here nor on a server. It is one to operators.
func TestVerifiedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := undisturbed(t, prompt(20, 1), 30)
		w, e, seen := scene(t, 6, quick, nil, "a 0:3", "b 0:3", "c 3:6", "d 3:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: 2})
		if err != nil {
			t.Fatal(err)
		}
		list := e.Sessions()
		if len(list) != 1 || list[0].ID != s.ID() || len(list[0].Route) != 4 || list[0].Epoch == 0 {
			t.Errorf("sessions %+v", list)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, err := s.Generate(ctx, client.Request{Prompt: prompt(20, 1), MaxNewTokens: 30, TopLogprobs: -1}, func(d client.Delta) error {
			if d.IDs[0] == want.IDs[4] {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil || first.Finish != client.FinishCancelled {
			t.Fatalf("%v, %v", first.Finish, err)
		}
		n := 0
		rest, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 10, TopLogprobs: -1}, func(client.Delta) error {
			if n++; n == 3 && !e.Kill(s.ID()) {
				t.Error("nobody knows the session")
			}
			return nil
		})
		if swarm.CodeOf(err) != swarm.CodeCancelled {
			t.Errorf("a session that was killed: %v", err)
		}
		if ids := append(first.IDs, rest.IDs...); !slices.Equal(ids, want.IDs[:len(ids)]) || len(ids) < len(first.IDs)+3 {
			t.Errorf("%v, want %v", ids, want.IDs)
		}
		s.Close()
		s.Close()
		<-time.After(5 * time.Second)
		for _, id := range []swarm.PeerID{"a", "b", "c", "d"} {
			if n := len(w.Server(id).Sessions()); n > 0 {
				t.Errorf("server %s holds %d sessions", id, n)
			}
		}
		if n := len(e.Sessions()); n > 0 || seen.of() != "" {
			t.Errorf("%d sessions are left; observed %q", n, seen.of())
		}
	})
}

// A verified session that could not go on, since too few servers were there, goes on when there are.
func TestVerifiedAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := undisturbed(t, prompt(20, 1), 20)
		w, e, _ := scene(t, 2, quick, nil, "a 0:6", "b 0:4", "c 2:6")
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first, _ := turn(t, s, prompt(20, 1), 8, nil)
		w.Server("a").Close() // of blocks 2 and 3 both holders are on the other chain
		if _, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 12, TopLogprobs: -1}, nil); err == nil {
			t.Fatal("there were too few servers")
		}
		begin(t, w, "d 0:2", quick)
		begin(t, w, "e 4:6", quick)
		rest, _ := turn(t, s, nil, 12, nil)
		if ids := append(first.IDs, rest.IDs...); !slices.Equal(ids, want.IDs) {
			t.Errorf("%v, want %v", ids, want.IDs)
		}
		if wrong := disjoint(rest.Route, 2); wrong != "" {
			t.Error(wrong)
		}
	})
}
