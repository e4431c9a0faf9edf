package swarmtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/swarm/trust"
)

// Of two that hold a block, differ, and have no third to judge them, the better known goes on serving, and the
// other is left alone; a verified answer is refused, and the error names both. When a third comes
// it judges them.
func TestTwoHoldersDiffer(t *testing.T) {
	for _, known := range []string{"honest", "liar"} {
		synctest.Test(t, func(t *testing.T) {
			w, e, seen := scene(t, 1, quick, func(c *client.Config) { c.Draw = func() float64 { return 0 } }, "honest 0:6")
			begin(t, w, "liar 0:6", FakeLoader{Delay: quick.Delay, Lie: flips(rand.New(rand.NewPCG(1, 1)), 1)})
			seen.Book.Observe(trust.Observation{Peer: "honest", Kind: trust.Served, Count: 1000}, time.Now())
			if known == "liar" { // it had been honest for long
				seen.Book.Observe(trust.Observation{Peer: "liar", Kind: trust.Agreed, Count: 3}, time.Now())
			}
			a := &audited{w: w, e: e, seen: seen}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { e.Audit(ctx); close(done) }()
			defer func() { end(); <-done }()

			a.session(t, 4, 0)
			for i := range 3 {
				if peers := a.session(t, 4, i); len(peers) != 1 || string(peers[0]) != known {
					t.Errorf("%s is the better known, and %v serves", known, peers)
				}
			}
			_, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: 2})
			if err == nil || !strings.Contains(err.Error(), "its rows differ from another holder's, and nobody has judged yet: row 19 of blocks 0:6, honest, liar") {
				t.Errorf("a verified session: %v", err)
			}
			begin(t, w, "third 0:6", quick)
			for i := range 200 { // ten minutes later all three are taken again
				if a.session(t, 4, i); seen.Standings(time.Now())[0].Avoid != nil && seen.Standings(time.Now())[0].Avoid.Kind == trust.Proven {
					break
				}
			}
			for p, want := range map[string]bool{"liar": true, "honest": false, "third": false} {
				found := false
				for _, s := range seen.Standings(time.Now()) {
					found = found || string(s.Peer) == p && s.Avoid != nil && s.Avoid.Kind == trust.Proven
				}
				if found != want {
					t.Errorf("%s is better known: %s proven a liar: %v", known, p, found)
				}
			}
		})
	}
}
