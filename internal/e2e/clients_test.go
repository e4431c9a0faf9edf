//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pythonOfTests is the interpreter that has the packages of clients/.
func pythonOfTests(t *testing.T) string {
	t.Helper()
	python, err := filepath.Abs("../../.tools/python/bin/python")
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		t.Skip("not proven: that Python packages which people have work with a gateway: run scripts/test-deps.sh")
	}
	return python
}

// Programs that people have already, against a swarm of processes, with nothing but its address.
func TestClients(t *testing.T) {
	python := pythonOfTests(t)
	s := spawn(t, []string{"0:4", "4:8"})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	gateway := start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ollama")
	for _, name := range []string{"openai", "anthropic", "ollama"} {
		t.Run(name, func(t *testing.T) {
			client(ctx, t, python, name, gateway.HTTP)
		})
	}
}
