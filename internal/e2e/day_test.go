//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A small swarm's day by the curl lines of docs/howto/day.sh, of which there are sixty, each with -f:
// found, watched, given an adapter, drained, moved, banned, updated and shut down.
func TestDay(t *testing.T) {
	for _, tool := range []string{"curl", "jq", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the lines of docs/howto/day.sh were not run: %v", err)
		}
	}
	script, err := os.ReadFile("../../docs/howto/day.sh")
	if err != nil {
		t.Fatal(err)
	}
	lines, strict := 0, 0
	for line := range strings.Lines(string(script)) {
		if !strings.HasPrefix(line, "#") {
			lines += strings.Count(line, "curl ")
			strict += strings.Count(line, "curl -sf ")
		}
	}
	if lines < 60 || lines != strict {
		t.Errorf("%d lines of curl, %d of curl -sf", lines, strict)
	}
	loop := []string{"--host-maddrs", "/ip4/127.0.0.1/tcp/0"}
	begin := func(args ...string) *node { return start(t, append(args, loop...)...) }
	bootstrap := begin("bootstrap", "--new-swarm", "--admin", "127.0.0.1:0")
	peers := []string{"--initial-peers", bootstrap.Addrs[0]}
	serve := func(args ...string) *node {
		return begin(append(append([]string{"serve", toy, "--http", "off", "--admin", "127.0.0.1:0", "--skip-reachability-check", "--mean-block-selection-delay", "0"}, args...), peers...)...)
	}
	a := serve("--block-indices", "0:8")
	b := serve("--num-blocks", "4", "--mean-balance-check-period", "1h", "--throughput", "100")
	gateway := begin(append([]string{"gateway", toy, "--http", "127.0.0.1:0"}, peers...)...)
	adapter, err := filepath.Abs("../../model/lora/testdata/toy-list")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-x", "../../docs/howto/day.sh")
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+bootstrap.Admin, "A="+a.Admin, "B="+b.Admin, "GATEWAY="+gateway.Admin, "HTTP="+gateway.HTTP, "MODEL=toy", "ADAPTER="+adapter,
		"PS4=+ line $LINENO: ")
	out := &logBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text := out.String()
		t.Fatalf("%v; the last lines:\n%s", err, text[max(0, len(text)-4000):])
	}
	for _, n := range []*node{bootstrap, a, b, gateway} {
		select {
		case <-n.done: // with code 0, or its cleanup says so
		case <-time.After(patience):
			t.Errorf("%s was asked to end and runs on", n.PeerID)
		}
	}
}
