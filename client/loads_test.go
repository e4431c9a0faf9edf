package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/swarm"
)

// Records that never tell of load leave a client to what its servers say with results: its next session goes
// to the one that has less to do. What was heard is forgotten when nobody says it any more.
func TestFreshLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := swarmtest.NewWorld(t, swarmtest.FakeManifest)
		w.Dir.Change(func(r *swarm.Record) {
			if r.Load != nil {
				r.Load, r.CacheLeft = &swarm.Load{}, r.CacheTotal
			}
		})
		for _, id := range []swarm.PeerID{"a", "b"} {
			w.Start(id, swarm.Span{End: swarmtest.FakeBlocks}, swarmtest.FakeLoader{Delay: 10 * time.Millisecond}, nil)
		}
		e := w.Engine(swarmtest.FakeHead{}, swarmtest.FakeVocab, func(c *client.Config) { c.Spread = false })
		open := func() *client.Session {
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 900})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := open()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			first.Generate(ctx, client.Request{Prompt: []int32{1, 2, 3, 4, 5}, MaxNewTokens: 800, TopLogprobs: -1}, func(client.Delta) error { return nil })
		}()
		busy := first.Route()[0].Peer
		if again := open(); again.Route()[0].Peer != busy {
			t.Fatalf("without loads sessions go to %s and %s", busy, again.Route()[0].Peer)
		} else {
			again.Close()
		}
		time.Sleep(4 * time.Second)
		second := open()
		if second.Route()[0].Peer == busy {
			t.Errorf("a session goes to %s, which is busy and said so", busy)
		}
		second.Close()
		stop()
		<-done
		first.Close()
		time.Sleep(6 * time.Second) // nobody says anything
		third := open()
		if third.Route()[0].Peer != busy {
			t.Errorf("old loads are believed: %s", third.Route()[0].Peer)
		}
		third.Close()
	})
}
