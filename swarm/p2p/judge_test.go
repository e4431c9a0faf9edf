package p2p

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
)

// What trials mean: strangers count before friends, at a router's address they alone and most of
// them, or friends where strangers got in before; and AutoNAT where nobody could try.
func TestJudge(t *testing.T) {
	const home, router = "/ip4/203.0.113.7/tcp/1", "/ip4/198.51.100.7/tcp/1"
	by := func(addr string, reached ...int) (out []trial) {
		for _, n := range reached {
			out = append(out, trial{Tried: []attempts{{addr, 1, n}}})
		}
		return out
	}
	for _, c := range []struct {
		name      string
		far, near []trial
		ours      string
		auto      map[string]swarm.ReachState
		shown     string
		want      string
	}{
		{"nobody", nil, nil, home, nil, "", "unknown: unknown 0/0"},
		{"strangers", by(home, 1, 1), nil, home, nil, "", "reachable: reachable 2/2"},
		{"some strangers", by(home, 1, 0), nil, home, nil, "", "reachable: reachable 1/2"},
		{"no stranger gets in, a friend does", by(home, 0), by(home, 1), home, nil, "", "unreachable: unreachable 0/1"},
		{"friends at home", nil, by(home, 1), home, nil, "", "reachable: reachable 1/1"},
		{"friends at a router", nil, by(router, 1), router, nil, "", "unreachable: unknown 1/1"},
		{"friends where strangers got in before", nil, by(router, 1), router, nil, router, "reachable: reachable 1/1"},
		{"nobody where strangers got in before", nil, by(router, 0), router, nil, router, "unreachable: unreachable 0/1"},
		{"strangers at a router", by(router, 1), nil, router, nil, "", "reachable: reachable 1/1"},
		{"most strangers at a router", by(router, 1, 1, 0), nil, router, nil, "", "reachable: reachable 2/3"},
		{"a stranger that the router knows", by(router, 1, 0), by(router, 1), router, nil, "", "unreachable: unknown 1/2"},
		{"nobody tried, AutoNAT did", nil, nil, home, map[string]swarm.ReachState{home: swarm.ReachNo}, "", "unreachable: unreachable 0/0"},
		{"AutoNAT at a router", nil, nil, router, map[string]swarm.ReachState{router: swarm.ReachYes}, "", "unknown: unknown 0/0"},
		{"one of two", append(by(home, 0), by(router, 1)...), nil, home + " " + router, nil, "", "reachable: unreachable 0/1, reachable 1/1"},
		{"a liar's numbers", []trial{{Tried: []attempts{{home, 1, 9}, {home, 99, 99}, {home, 0, 0}}}}, nil, home, nil, "", "unknown: unknown 0/0"},
	} {
		r := judge(c.far, c.near, strings.Fields(c.ours), func(s string) bool { return s == home }, c.auto, map[string]bool{c.shown: true})
		var parts []string
		for _, a := range r.Addrs {
			parts = append(parts, fmt.Sprintf("%s %d/%d", a.State, a.Reached, a.Asked))
		}
		if got := string(r.State) + ": " + strings.Join(parts, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Who a router may know is no stranger, whatever it says: whom this node dialled, or was
// connected to before it asked, as that peer or from that IP.
func TestStrangers(t *testing.T) {
	const id, other = "12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ", "12D3KooWBmwkafWE2fqfzS96VoTZgpGp6aJsF4N3S93zaARKBJ2m"
	p, err := peer.Decode(id)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddr("203.0.113.9")
	asked := day.Add(time.Minute)
	for _, c := range []struct {
		name string
		t    trial
		note func(*spoken)
		want bool
	}{
		{"nobody spoke to it", trial{By: id, From: []string{at.String()}, Stranger: true}, nil, true},
		{"it says that it is none", trial{By: id, From: []string{at.String()}}, nil, false},
		{"who was asked", trial{Stranger: true}, nil, false},
		{"it is nowhere", trial{By: id, Stranger: true}, nil, false},
		{"behind the router of who tells", trial{By: id, From: []string{"192.168.1.7"}, Stranger: true}, nil, false},
		{"no IP", trial{By: id, From: []string{"x"}, Stranger: true}, nil, false},
		{"it was connected", trial{By: id, From: []string{at.String()}, Stranger: true}, func(s *spoken) { s.note(p, netip.Addr{}, false, day) }, false},
		{"long ago", trial{By: id, From: []string{at.String()}, Stranger: true}, func(s *spoken) { s.note(p, at, true, asked.Add(-spokenFor)) }, true},
		{"another node there was dialled", trial{By: id, From: []string{"2001:db8::1", at.String()}, Stranger: true}, func(s *spoken) { s.note(other, at, true, asked.Add(time.Second)) }, false},
		{"somebody there came before", trial{By: id, From: []string{at.String()}, Stranger: true}, func(s *spoken) { s.note(other, at, false, day) }, false},
		{"it came since, uninvited", trial{By: id, From: []string{at.String()}, Stranger: true}, func(s *spoken) { s.note(other, at, false, asked.Add(time.Second)) }, true},
	} {
		h := &Host{spoken: newSpoken()}
		if c.note != nil {
			c.note(h.spoken)
		}
		if got := h.fromStranger(c.t, public, asked); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	s := newSpoken()
	for i := range 2 * maxProven {
		s.note(peer.ID(fmt.Sprint(i)), netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}), true, day.Add(time.Duration(i)))
	}
	if len(s.ips) > maxProven || len(s.peers) > maxProven || s.lately(1)[0] != peer.ID(fmt.Sprint(2*maxProven-1)) {
		t.Errorf("%d IPs and %d peers are remembered", len(s.ips), len(s.peers))
	}
}

// A node needs two relays where nobody can dial it, and one for those of the other kind of IP
// where it can be dialled over one alone.
func TestRelaysFor(t *testing.T) {
	yes := func(addrs ...string) (r swarm.Reach) {
		r.State = swarm.ReachYes
		for _, a := range addrs {
			r.Addrs = append(r.Addrs, swarm.ReachAddr{Addr: a, State: swarm.ReachYes})
		}
		return r
	}
	const v4, v6 = "/ip4/93.184.216.34/tcp/1", "/ip6/2606:2800::1/tcp/1"
	dead := yes(v4, v6)
	dead.Addrs[1].State = swarm.ReachNo
	for _, c := range []struct {
		name string
		r    swarm.Reach
		n    int
		only family
	}{
		{"unknown", swarm.Reach{State: swarm.ReachUnknown}, 0, 0},
		{"nobody can dial it", swarm.Reach{State: swarm.ReachNo}, wantRelays, 0},
		{"both", yes(v4, v6), 0, 0},
		{"IPv4 alone", yes(v4), 1, six},
		{"IPv6 alone", yes(v6), 1, four},
		{"IPv6 that is filtered", dead, 1, six},
		{"a name", yes("/dns/swarm.example.org/tcp/1"), 0, 0},
		{"a site", yes("/ip4/10.0.0.1/tcp/1"), 0, 0},
	} {
		if n, only := relaysFor(c.r); n != c.n || only != c.only {
			t.Errorf("%s: %d relays for %d", c.name, n, only)
		}
	}
	both := func(p peer.ID) bool { return p == "c" || p == "d" }
	for n, want := range map[int]string{0: "a b c d", 1: "c a b d", 2: "a c b d", 3: "a b c d"} {
		var got []string
		for _, p := range bothFirst([]peer.ID{"a", "b", "c", "d"}, n, both) {
			got = append(got, string(p))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the first %d: %v", n, got)
		}
	}
}
