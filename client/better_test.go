package client_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/route"
	"whorl/swarm/wire"
)

// A running session changes to a server that has become clearly better, between two tokens and
// with the same ones; with --keep-chains it stays.
func TestChangesToABetterChain(t *testing.T) {
	for _, improve := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *client.Config) {
				if improve {
					patience := route.DefaultPatience()
					c.Improve = &patience
				}
			}, "a 0:3", "b 3:6")
			w.net.SetDelay(func(_, _ swarm.PeerID) time.Duration { return 30 * time.Millisecond })
			say := func(id swarm.PeerID, rps float64) {
				err := w.dir.For(id).Announce(context.Background(), swarm.Record{
					Protocol: wire.Version, UID: manifest.UID(), Manifest: manifest, Span: w.servers[id].span, State: swarm.Online,
					Rates: swarm.Rates{InferenceRPS: &rps, ForwardRPS: &rps}, Version: "test", CacheTotal: 1 << 20, CacheLeft: 1 << 20, MaxLength: 4096,
				})
				if err != nil {
					t.Error(err)
				}
			}
			say("a", 20)
			say("b", 20)
			s := w.open(t, client.SessionOptions{MaxLength: 2000})
			got := generate(t, s, prompt(20), 100, func(n int) {
				if n == 10 {
					w.servers["c"] = newFakeServer(w.net, w.dir, "c", manifest, swarm.Span{Start: 3, End: 6})
					t.Cleanup(w.servers["c"].node.Close)
					say("c", 2000)
				}
			})
			if want := swarmtest.FakeGreedy(prompt(20), 100); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			time.Sleep(route.DefaultPatience().Rest)
			more := generate(t, s, nil, 100, nil)
			if want := swarmtest.FakeGreedy(append(prompt(20), got...), 100); !slices.Equal(more, want) {
				t.Errorf("%v, want %v", more, want)
			}
			if last := s.Route()[1].Peer; (last == "c") != improve {
				t.Errorf("improve %v: the route is %v", improve, s.Route())
			}
		})
	}
}
