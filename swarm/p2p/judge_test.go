package p2p

import (
	"fmt"
	"strings"
	"testing"

	"whorl/swarm"
)

// What answers mean: strangers count before others, at a router's address they alone, and
// AutoNAT where nobody could try.
func TestJudge(t *testing.T) {
	const home, router = "/ip4/203.0.113.7/tcp/1", "/ip4/198.51.100.7/tcp/1"
	far := func(addr string, reached int) reachAnswer {
		return reachAnswer{Stranger: true, Tried: []attempts{{addr, 1, reached}}}
	}
	near := func(addr string, reached int) reachAnswer { return reachAnswer{Tried: []attempts{{addr, 1, reached}}} }
	for _, c := range []struct {
		name    string
		answers []reachAnswer
		ours    string
		auto    map[string]swarm.ReachState
		want    string
	}{
		{"nobody", nil, home, nil, "unknown: unknown 0/0"},
		{"strangers", []reachAnswer{far(home, 1), far(home, 1)}, home, nil, "reachable: reachable 2/2"},
		{"some strangers", []reachAnswer{far(home, 1), far(home, 0)}, home, nil, "reachable: reachable 1/2"},
		{"no stranger gets in, a friend does", []reachAnswer{far(home, 0), near(home, 1)}, home, nil, "unreachable: unreachable 0/1"},
		{"friends at home", []reachAnswer{near(home, 1)}, home, nil, "reachable: reachable 1/1"},
		{"friends at a router", []reachAnswer{near(router, 1)}, router, nil, "unreachable: unknown 1/1"},
		{"strangers at a router", []reachAnswer{far(router, 1)}, router, nil, "reachable: reachable 1/1"},
		{"nobody tried, AutoNAT did", nil, home, map[string]swarm.ReachState{home: swarm.ReachNo}, "unreachable: unreachable 0/0"},
		{"AutoNAT at a router", nil, router, map[string]swarm.ReachState{router: swarm.ReachYes}, "unknown: unknown 0/0"},
		{"one of two", []reachAnswer{far(home, 0), far(router, 1)}, home + " " + router, nil, "reachable: unreachable 0/1, reachable 1/1"},
		{"a liar's numbers", []reachAnswer{{Stranger: true, Tried: []attempts{{home, 1, 9}, {home, 99, 99}, {home, 0, 0}}}}, home, nil, "unknown: unknown 0/0"},
	} {
		r := judge(c.answers, strings.Fields(c.ours), func(s string) bool { return s == home }, c.auto)
		var parts []string
		for _, a := range r.Addrs {
			parts = append(parts, fmt.Sprintf("%s %d/%d", a.State, a.Reached, a.Asked))
		}
		if got := string(r.State) + ": " + strings.Join(parts, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
