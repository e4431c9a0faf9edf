package swarm

import (
	"fmt"
	"testing"
)

// What is told of each address, for who asks for no more than that.
func TestReachable(t *testing.T) {
	own := []ReachAddr{{"/ip4/10.0.0.1/tcp/1", ReachNo, 0, 2}, {"/ip4/203.0.113.7/udp/1/quic-v1", ReachYes, 1, 3}}
	const relayed = "/ip4/198.51.100.7/tcp/1/p2p/R/p2p-circuit/p2p/P"
	for _, c := range []struct {
		reach Reach
		want  string
	}{
		{Reach{}, "[]"},
		{Reach{Addrs: own}, "[{/ip4/10.0.0.1/tcp/1 false direct 2} {/ip4/203.0.113.7/udp/1/quic-v1 true direct 3}]"},
		{Reach{Relays: []string{"R"}}, "[{" + relayed + " true relay 0}]"},
	} {
		addrs := []string{"/ip4/203.0.113.7/tcp/1/p2p/P"}
		if c.reach.Relays != nil {
			addrs = append(addrs, relayed)
		}
		if got := fmt.Sprint(c.reach.At(addrs)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.reach, got, c.want)
		}
	}
}
