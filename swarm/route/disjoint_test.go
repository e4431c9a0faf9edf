package route

import (
	"fmt"
	"testing"
	"time"

	"whorl/swarm"
)

// So many chains without a common server are found exactly where each block has so many servers,
// whatever the spans are; they cover the range, and servers that failed lately do not hinder.
func TestDisjointWhereverThereAreServers(t *testing.T) {
	rng := newRand(4)
	found, swept := 0, 0
	for round := range 3000 {
		q := randomQuery(rng, 8, 2+rng.IntN(12))
		q.Avoid = map[swarm.PeerID]time.Time{}
		for _, r := range q.View.Servers {
			if rng.IntN(4) == 0 {
				q.Avoid[r.Peer] = now
			}
		}
		n := 2 + rng.IntN(2)
		network := func(p swarm.PeerID) string { return []string{"", "a", "b", "c"}[p[len(p)-1]%4] }
		chains, err := Disjoint(q, n, network)
		short := q.heldByFewer(n)
		if (err == nil) != (len(short) == 0) {
			t.Fatalf("round %d: %d chains: %v, blocks with fewer servers: %v", round, n, err, short)
		}
		if err != nil {
			if swarm.CodeOf(err) != swarm.CodeBlocksMissing {
				t.Fatal(err)
			}
			continue
		}
		found++
		if q.inTurn(n, network, false) == nil {
			swept++
		}
		used := map[swarm.PeerID]bool{}
		for _, c := range chains {
			at := q.Range.Start
			for _, h := range c.Hops {
				r, _ := q.View.Server(h.Peer)
				if h.Span.Start != at || !r.Span.Contains(h.Span) || used[h.Peer] {
					t.Fatalf("round %d: %v of %v", round, h, chains)
				}
				used[h.Peer], at = true, h.Span.End
			}
			if at != q.Range.End {
				t.Fatalf("round %d: %v ends early", round, c)
			}
		}
	}
	if found < 200 || swept == 0 {
		t.Errorf("%d of the queries have chains, %d only by sweeping", found, swept)
	}
}

// Chains come from different networks where there are such, and from one where there are not.
func TestDisjointNetworks(t *testing.T) {
	q := Query{View: swarm.View{Manifest: swarm.Manifest{Name: "toy", Blocks: 4}}, Range: swarm.Span{Start: 0, End: 4}, Params: DefaultParams()}
	for i, s := range []string{"a1", "a2", "b1"} {
		rate := float64(1000 - i)
		r := swarm.Record{Peer: swarm.PeerID(s), State: swarm.Online, Span: swarm.Span{Start: 0, End: 4}, CacheTotal: 9, CacheLeft: 9}
		r.Rates.InferenceRPS = &rate
		q.View.Servers = append(q.View.Servers, r)
	}
	network := func(p swarm.PeerID) string { return string(p[0]) }
	for n, want := range map[int]string{2: "[0:4 via a1 0:4 via b1]", 3: "[0:4 via a1 0:4 via a2 0:4 via b1]"} {
		chains, err := Disjoint(q, n, network)
		if got := fmt.Sprint(chains); err != nil || got != want {
			t.Errorf("%d: %s, %v, want %s", n, got, err, want)
		}
	}
	const few = "No servers holding blocks 0-3 of toy are left for 4 chains that share none: each of these blocks needs 4 servers with room for 0 tokens"
	if _, err := Disjoint(q, 4, network); err == nil || err.Error() != few {
		t.Errorf("got %v", err)
	}
}
