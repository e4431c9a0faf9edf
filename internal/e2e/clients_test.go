//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// runtimeOf is what runs a program of clients/: the Python or the Node that has its packages.
func runtimeOf(t *testing.T, program string) string {
	t.Helper()
	if filepath.Ext(program) == ".py" {
		return pythonOfTests(t)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat("clients/node_modules/openai")
	}
	if err != nil {
		t.Skip("not proven: that OpenAI's package for Node works with a gateway: install Node and npm, and run scripts/test-deps.sh")
	}
	return node
}

// client runs a program of clients/ against a gateway.
func client(t *testing.T, program, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, runtimeOf(t, program), "clients/"+program)
	cmd.Env = append(os.Environ(), "WHORL_URL="+url, "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^ok `).Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// Programs that people have already, against a swarm of processes, with nothing but its address.
func TestClients(t *testing.T) {
	s := spawn(t, []string{"0:4", "4:8"})
	gateway := start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ollama")
	for _, program := range []string{"openai_client.py", "openai_client.mjs", "anthropic_client.py", "ollama_client.py"} {
		t.Run(program, func(t *testing.T) { client(t, program, gateway.HTTP) })
	}
}
