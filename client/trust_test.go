package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/trust"
)

// Who failed is asked where nobody else holds a block, who lied never, by any engine of the
// node; the error says why a block that is held cannot be had.
func TestWhomEnginesAvoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := trust.NewBook(trust.DefaultParams())
		w := newWorld(t, func(c *client.Config) { c.Trust = book }, "a 0:6", "b 0:3", "c 3:6")
		for _, c := range []struct {
			peer swarm.PeerID
			kind trust.Kind
			want string // the route, or the error
		}{
			{"a", trust.Lost, "b c"},
			{"c", trust.Lost, "a"}, // of those that failed the one that failed longest ago
			{"a", trust.Proven, "b c"},
			{"c", trust.Proven, "this node avoids 2 that hold some of them"},
		} {
			book.Observe(trust.Observation{Peer: c.peer, Kind: c.kind}, time.Now())
			<-time.After(time.Second)
			s, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 20})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("after %s %v: %v, want %s", c.peer, c.kind, err, c.want)
				}
				continue
			}
			var route []string
			for _, h := range s.Route() {
				route = append(route, string(h.Peer))
			}
			s.Close()
			if got := strings.Join(route, " "); got != c.want {
				t.Errorf("after %s %v: route %s, want %s", c.peer, c.kind, got, c.want)
			}
		}
	})
}

// What a server did well is noted with the number of steps, and what a caller interrupted is
// not noted at all.
func TestServedIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := trust.NewBook(trust.DefaultParams())
		w := newWorld(t, func(c *client.Config) { c.Trust = book }, "a 0:3", "b 3:6")
		s := w.open(t, client.SessionOptions{MaxLength: 40})
		generate(t, s, prompt(5), 8, nil)
		generate(t, s, prompt(3), 2, nil)
		for _, st := range book.Standings(time.Now()) {
			if n := st.Counts["served"]; n < 9.9 || n > 10 || len(st.Counts) != 1 {
				t.Errorf("%s: %v, want 10 steps served", st.Peer, st.Counts)
			}
		}
		if n := len(book.Standings(time.Now())); n != 2 {
			t.Errorf("%d servers were observed", n)
		}
	})
}
