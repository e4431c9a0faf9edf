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

// Programs that people have already, against a swarm of processes, with nothing but its address.
func TestClients(t *testing.T) {
	python, err := filepath.Abs("../../.tools/python/bin/python")
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		t.Skip("not proven: that the Python packages of OpenAI, Anthropic and Ollama work with a gateway: run scripts/test-deps.sh")
	}
	s := spawn(t, []string{"0:4", "4:8"})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	gateway := start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ollama")
	for _, name := range []string{"openai", "anthropic", "ollama"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(ctx, python, "clients/"+name+"_client.py")
			cmd.Env = append(os.Environ(), "WHORL_URL="+gateway.HTTP, "NO_PROXY=*")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "ok ") {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
