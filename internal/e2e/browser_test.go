//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browserEnv is the environment of a script of browser/, whose pictures go to artifacts/. Without a
// browser the test ends, and says what was not proven.
func browserEnv(t *testing.T, what string) []string {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no chromium: %s (make test installs it)", what)
	}
	if _, err := os.Stat("browser/node_modules/playwright-core"); err != nil {
		t.Skipf("no playwright-core: %s (make test installs it)", what)
	}
	return append(os.Environ(), "WHORL_ARTIFACTS="+must(filepath.Abs("../../artifacts/browser"))(t), "CHROMIUM="+chromium)
}

// A person opens the dashboard, sees every block green, chats two turns, and sees the
// blocks of a killed server turn red without a reload. Screenshots go to artifacts/.
func TestBrowser(t *testing.T) {
	env := browserEnv(t, "the dashboard was not proven in a browser")
	s := spawn(t, []string{"0:3", "3:6", "6:8"})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "browser/dashboard.mjs")
	cmd.Env = append(env, "WHORL_URL="+s.gateway.HTTP, "WHORL_BLOCKS=8")
	errs := &logBuffer{}
	cmd.Stderr = errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(stdout); sc.Scan(); {
		switch line := sc.Text(); line {
		case "kill":
			s.servers[1].kill()
			fmt.Fprintln(stdin, 3) // blocks that nobody holds now
		default:
			t.Log(line)
		}
	}
	io.WriteString(stdin, "\n")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
}

// The page about the API, on both listeners of a node: it can be read without scripts, requests are sent
// from it, and nothing leaves its origin.
func TestReferenceInABrowser(t *testing.T) {
	env := browserEnv(t, "the page about the API was not proven in a browser")
	n := start(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "browser/reference.mjs")
	cmd.Env = append(env, "WHORL_URL="+n.HTTP, "WHORL_ADMIN="+n.Admin)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// The admin listener's page about keys: an operator who has the token sees what each key used, and
// who has none sees nothing.
func TestKeysInABrowser(t *testing.T) {
	env := browserEnv(t, "the page about keys was not proven in a browser")
	book, token := filepath.Join(t.TempDir(), "keys.json"), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-operators-1234567890"), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	for _, args := range [][]string{{"<b>alice</b>", "--requests", "60"}, {"bob"}} {
		made := run(t, "", append(append([]string{"keys", "add"}, args...), "--keys", book)...)
		if secrets[args[0]] = strings.TrimSpace(made.stdout); made.code != 0 {
			t.Fatal(made)
		}
	}
	n := start(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--admin-token-file", token, "--keys", book, "--throughput", "100", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "browser/keys.mjs")
	cmd.Env = append(env, "WHORL_URL="+n.HTTP, "WHORL_ADMIN="+n.Admin, "WHORL_ALICE="+secrets["<b>alice</b>"], "WHORL_TOKEN=a-token-of-operators-1234567890")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
