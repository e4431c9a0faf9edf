package dir

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"whorl/swarm"
)

// Thirty-two servers are all measured within two rounds, and within every two after that.
func TestEveryServerIsMeasured(t *testing.T) {
	for _, n := range []int{1, 16, 17, 32, 33, 100} {
		s := roomy()
		for i := range n {
			p := swarm.PeerID(fmt.Sprint("p", i))
			s.put(bare(told(p, 1, 0, 30*time.Minute), nil), source{}, epoch)
			met(s, p)
		}
		last := map[swarm.PeerID]int{}
		rounds := (n + pingsPerRefresh - 1) / pingsPerRefresh
		for round := range 5 * rounds {
			for _, p := range s.due(pingsPerRefresh, nil, 0, epoch.Add(time.Duration(round)*time.Second)) {
				if gap := round - last[p]; round >= rounds && gap > rounds {
					t.Fatalf("%d servers: %s waited %d rounds", n, p, gap)
				}
				last[p] = round
			}
			if round == rounds-1 && len(last) != n {
				t.Fatalf("%d servers: %d measured after %d rounds", n, len(last), rounds)
			}
		}
	}
}

// A peer that this node has no stream to is left alone for a while once it was measured; one in use
// is not.
func TestRest(t *testing.T) {
	s := roomy()
	for i := range 8 {
		p := swarm.PeerID(fmt.Sprint("p", i))
		s.put(bare(told(p, 1, 0, 30*time.Minute), nil), source{}, epoch)
		met(s, p)
	}
	s.use(map[swarm.PeerID]time.Time{"p3": epoch}, epoch)
	asked := map[swarm.PeerID]int{}
	for round := range 21 {
		for _, p := range s.due(pingsPerRefresh, nil, 15*time.Second, epoch.Add(time.Duration(round)*3*time.Second)) {
			asked[p]++
		}
	}
	for p, n := range asked {
		if want := map[bool]int{true: 21, false: 5}[p == "p3"]; n != want {
			t.Errorf("%s is measured %d times in a minute, want %d", p, n, want)
		}
	}
	if len(asked) != 8 {
		t.Errorf("%d peers are measured", len(asked))
	}
}

// Rows in use come first, and a flood of rows that nobody reached keeps neither them, nor an
// honest newcomer, nor what was reached from being measured.
func TestFloodDelaysNoMeasurement(t *testing.T) {
	s := newRecords("self")
	wanted := map[swarm.UID]time.Time{model.UID(): epoch}
	for i := range 1000 {
		s.put(bare(told(swarm.PeerID(fmt.Sprint("sybil", i)), 1, 0, time.Minute), nil), source{prefix: "192.0.2.0/24"}, epoch)
	}
	for i := range 12 {
		p := swarm.PeerID(fmt.Sprint("known", i))
		s.put(bare(told(p, 1, 0, time.Minute), nil), source{prefix: "x"}, epoch)
		s.reach(p, netip.MustParseAddr("198.51.100.1"), true, epoch)
	}
	used := map[swarm.PeerID]time.Time{"known3": epoch, "known7": epoch}
	s.use(used, epoch)
	r := told("newcomer", 1, 0, time.Minute)
	r.Addrs = []string{"/ip4/203.0.113.5/tcp/1"}
	s.put(bare(r, nil), source{prefix: "y", named: true}, epoch)
	measured := map[swarm.PeerID]int{}
	for round := range 2 {
		now := epoch.Add(time.Duration(round) * time.Second)
		due := s.due(pingsPerRefresh, wanted, 0, now)
		if len(due) != pingsPerRefresh {
			t.Fatalf("%d due", len(due))
		}
		for _, p := range due {
			measured[p]++
		}
	}
	for p := range used {
		if measured[p] != 2 {
			t.Errorf("%s, in use, measured %d times", p, measured[p])
		}
	}
	if measured["newcomer"] == 0 {
		t.Error("the newcomer waits behind the flood")
	}
	for i := range 12 {
		if p := swarm.PeerID(fmt.Sprint("known", i)); measured[p] == 0 {
			t.Errorf("%s waits behind the flood", p)
		}
	}
}

// A peer that does not answer is asked ever less often, and what was only heard of is not
// dialled at all unless this node has a use for it.
func TestSilentPeersAreLeftAlone(t *testing.T) {
	s := roomy()
	s.put(bare(told("p", 1, 0, 30*time.Minute), nil), source{}, epoch)
	met(s, "p")
	asked := 0
	for second := range 600 {
		now := epoch.Add(time.Duration(second) * time.Second)
		for range s.due(pingsPerRefresh, nil, 0, now) {
			asked++
			if s.fail("p", 0, now) != (asked == 1) {
				t.Errorf("failure %d: news or none", asked)
			}
		}
	}
	if asked < 6 || asked > 9 { // after 3, 6, 12, 24, 48, 96, 192, 300 s
		t.Errorf("asked %d times in ten minutes", asked)
	}
	s.put(bare(told("heard", 1, 0, time.Minute), nil), source{}, epoch)
	for _, c := range []struct {
		what   string
		wanted map[swarm.UID]time.Time
		want   int
	}{{"no use", nil, 0}, {"its model is used", map[swarm.UID]time.Time{model.UID(): epoch}, 1}} {
		if got := s.due(pingsPerRefresh, c.wanted, 0, epoch); len(got) != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
