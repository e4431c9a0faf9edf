package swarmtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/trust"
)

// Of two that hold a block, differ, and have no third to judge them, the better known goes on serving, and the
// other is left alone; a verified answer is refused, and the error names both. A third that comes clears the honest, and judges the liar when
// that is asked again.
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
			synctest.Wait()

			a.session(t, 4, 0)
			for i := range 3 {
				if peers := a.session(t, 4, i); len(peers) != 1 || string(peers[0]) != known {
					t.Errorf("%s is the better known, and %v serves", known, peers)
				}
			}
			_, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100, Verify: 2})
			for _, want := range []string{"its rows differ from another holder's, and nobody has judged yet: row 19 of blocks 0:6", "honest", "liar"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("a verified session: %v", err)
				}
			}
			begin(t, w, "third 0:6", quick)
			is := func(p swarm.PeerID) string {
				v, avoided := seen.Judge(p, "", time.Now())
				return judged(v, avoided)
			}
			for i := range 4 {
				a.session(t, 4, i)
			}
			if is("honest") != "taken" || is("third") != "taken" || is("liar") == "taken" {
				t.Errorf("%s is better known, and a third has come: honest %s, third %s, liar %s", known, is("honest"), is("third"), is("liar"))
			}
			<-time.After(10 * time.Minute)
			for i := range 20 {
				a.session(t, 4, i)
			}
			if is("honest") != "taken" || is("third") != "taken" || is("liar") != "proven" {
				t.Errorf("%s is better known, ten minutes later: honest %s, third %s, liar %s", known, is("honest"), is("third"), is("liar"))
			}
		})
	}
}

// judged is what a book holds against a peer.
func judged(a trust.Avoidance, avoided bool) string {
	if !avoided {
		return "taken"
	}
	return a.Kind.String()
}
