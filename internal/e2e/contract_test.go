//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// contractSeconds is how long each listener is asked.
const contractSeconds = "45"

// A node is asked thousands of things that its own contract allows or forbids, by a program that knows
// nothing but the contract: no answer is a fault, and each is one that the contract has.
func TestContract(t *testing.T) {
	st := filepath.Join(filepath.Dir(pythonOfTests(t)), "st")
	if _, err := exec.LookPath(st); err != nil {
		t.Skip("not proven: that a node keeps to its contract whatever it is asked: schemathesis is not installed, run scripts/test-deps.sh")
	}
	n := start(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--ollama", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	config, err := filepath.Abs("clients/schemathesis.toml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url  string
		args []string
	}{
		"public": {n.HTTP, nil},
		// What the admin listener has not is asked of the other.
		"admin": {n.Admin, []string{"--exclude-tag", "openai", "--exclude-tag", "anthropic", "--exclude-tag", "ollama", "--exclude-tag", "legacy", "--exclude-tag", "research"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
			defer cancel()
			args := []string{
				"--config-file", config, "--no-color", "run", c.url + "/openapi.json", "--url", c.url, "--warnings", "off", "--generation-database", "none",
				"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance",
				"--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--max-time", contractSeconds, "--request-timeout", "20", "--seed", "1", "--continue-on-failure",
				// Streams without an end, a WebSocket, and the end of the node.
				"--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/logs", "--exclude-path", "/api/v1/operations/{id}/events",
				"--exclude-path", "/api/v2/generate", "--exclude-path", "/api/v1/hidden", "--exclude-path", "/api/v1/node/shutdown",
			}
			cmd := exec.CommandContext(ctx, st, append(args, c.args...)...)
			cmd.Dir = t.TempDir() // it leaves files
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out[max(0, len(out)-8000):])
			}
		})
	}
}
