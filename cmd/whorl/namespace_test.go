package main

import (
	"slices"
	"strings"
	"testing"

	"whorl/internal/wiring"
	"whorl/swarm"
)

// Models of one name under two prefixes do not meet, although their servers are of one swarm and know each
// other: not to servers, gateways or clients. An invitation leads to its own.
func TestNamespaces(t *testing.T) {
	args := []string{"--admin", "127.0.0.1:0", "--http", wiring.Off, "--mean-block-selection-delay", "0", "--throughput", "100", "--update-period", "1s"}
	green := startRun(t, append([]string{"serve", toy, "--new-swarm", "--dht-prefix", "green", "--block-indices", "0:8"}, args...)...)
	blue := startRun(t, append([]string{"serve", toy, "--initial-peers", green.Addrs[0], "--dht_prefix", "blue", "--block-indices", "0:4"}, args...)...)
	uid := func(n *running) string {
		var st swarm.NodeStatus
		request(t, "GET", n.Admin+"/api/v1/node", "", 200, &st)
		return string(st.UID)
	}
	if uid(green) == "" || uid(green) == uid(blue) {
		t.Errorf("UIDs %s and %s", uid(green), uid(blue))
	}
	ask := func(prefix ...string) result {
		return whorl(t, "", nil, append([]string{"generate", toy, "--initial-peers", blue.Addrs[0], "--ids", "1,2,3", "--max-new-tokens", "4", "--ignore-eos", "--json"}, prefix...)...)
	}
	var got answerObject
	ask("--dht-prefix", "green").last(t, &got)
	if len(got.Route) != 1 || string(got.Route[0].Peer) != green.PeerID {
		t.Errorf("route %v, want %s alone", got.Route, green.PeerID)
	}
	for prefix, says := range map[string]string{"blue": "nobody holds", "red": "toy", "": "toy"} { // blue has no blocks 4 to 7
		if r := ask("--dht-prefix", prefix); r.code == exitDone {
			t.Errorf("prefix %q: %s", prefix, r.stdout)
		} else if !strings.Contains(r.err, says) && !strings.Contains(r.err, "blocks") {
			t.Errorf("prefix %q: %s", prefix, r.err)
		}
	}
	if r := ask("--dht-prefix", "a.b"); r.code != exitUsage || !strings.Contains(r.err, "--dht-prefix") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}

	// A gateway of all models offers those of its own namespace.
	gateway := startRunEnv(t, []string{"HOME=" + t.TempDir()}, "gateway", "--initial-peers", green.Addrs[0], "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--cache-dir", t.TempDir(), "--dht-prefix", "green")
	if !eventually(func() bool { return modelsOf(t, gateway)["toy"].State == "healthy" }) {
		t.Fatalf("it offers %+v", modelsOf(t, gateway))
	}
	if m := modelsOf(t, gateway); len(m) != 1 {
		t.Errorf("it offers %+v", m)
	}
	if ids := completed(t, gateway, "toy", 200); len(ids) != 8 {
		t.Errorf("%v", ids)
	}

	// Who is invited needs no flag, with files of their own or without; one that contradicts is refused.
	word := wordOf(t, blue)
	joined := startRun(t, append([]string{"join", word, toy, "--block-indices", "4:8"}, args...)...)
	if uid(joined) != uid(blue) {
		t.Errorf("joined %s, invited to %s", uid(joined), uid(blue))
	}
	whorl(t, "", nil, "generate", word, "--ids", "1,2,3", "--max-new-tokens", "4", "--ignore-eos", "--json").last(t, &got)
	want := []string{blue.PeerID, joined.PeerID}
	var route []string
	for _, h := range got.Route {
		route = append(route, string(h.Peer))
	}
	if !slices.Equal(route, want) {
		t.Errorf("route %v, want %v", route, want)
	}
	if r := whorl(t, "", nil, "generate", word, "--dht-prefix", "green", "--ids", "1", "--max-new-tokens", "4"); r.code != exitUsage || !strings.Contains(r.err, "leave it out") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
