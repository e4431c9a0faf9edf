//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// torchOfTests is an interpreter that has torch, numpy and websockets: it takes gigabytes, and is no part of
// what scripts/test-deps.sh installs.
func torchOfTests(t *testing.T) string {
	t.Helper()
	python := os.Getenv("WHORL_TORCH_PYTHON")
	if python == "" {
		t.Skip("not proven: that torch trains through a gateway: pip install './clients/python[torch]', and name that Python in WHORL_TORCH_PYTHON")
	}
	return python
}

// program is a Python program of clients/ or of clients/python that asks a gateway.
func pythonProgram(ctx context.Context, python, url, want, file string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, python, append([]string{file}, args...)...)
	cmd.Env = append(os.Environ(), "WHORL_URL="+url, "WHORL_WANT="+want, "NO_PROXY=*", "PYTHONPATH="+researchPackage)
	return cmd
}

var researchPackage, _ = filepath.Abs("../../clients/python/src")

// gatewayOf is a gateway of the toy model in front of servers.
func gatewayOf(t *testing.T, spans []string) (*swarm, *node) {
	s := spawn(t, spans)
	return s, start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
}

// The Python package's part without torch: ids of generation are those of whorl generate, passes compose,
// gradients are slopes, sessions are passes, errors are typed.
func TestResearchClient(t *testing.T) {
	python := pythonOfTests(t)
	_, gateway := gatewayOf(t, []string{"0:3", "3:8"})
	type generated struct {
		IDs []int32 `json:"ids"`
		New []int32 `json:"new"`
	}
	var want []generated
	for _, r := range refs(t, 6)[:3] {
		var one struct {
			IDs []int32 `json:"ids"`
		}
		lastJSON(t, run(t, "", "generate", toy, "--local", "--ids", idList(r.PromptIDs), "--max-new-tokens", "6", "--ignore-eos", "--json"), &one)
		want = append(want, generated{r.PromptIDs, one.IDs})
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := pythonProgram(ctx, python, gateway.HTTP, string(b), "clients/research_client.py").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok research") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// tuned runs a training through a gateway and returns what names its table; at each of its waits
// something happens.
func pythonTuned(t *testing.T, python, url string, args []string, happens ...func()) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := pythonProgram(ctx, python, url, "", "clients/tuning_client.py", args...)
	text := &logBuffer{}
	cmd.Stderr = text
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tables := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if hash, ok := strings.CutPrefix(line, "tables "); ok {
			tables = hash
		}
		if strings.HasPrefix(line, "step 2 ") || strings.HasPrefix(line, "step 4 ") {
			if len(happens) > 0 {
				happens[0]()
				happens = happens[1:]
			}
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Errorf("after %s: %v", line, err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || len(tables) != 64 {
		t.Fatalf("%v, tables %q\n%s", err, tables, text)
	}
	return tables
}

// A server that dies by kill -9 and one that hangs, in the middle of a training in Python, change no bit of
// the table; nor does it matter how many servers there are. A session that is open meanwhile goes on.
func TestResearchTuning(t *testing.T) {
	for _, c := range []struct {
		name   string
		python func(*testing.T) string
		args   []string
	}{{"numpy", pythonOfTests, nil}, {"torch", torchOfTests, []string{"torch"}}} {
		t.Run(c.name, func(t *testing.T) {
			python := c.python(t)
			_, one := gatewayOf(t, []string{"0:8"})
			want := pythonTuned(t, python, one.HTTP, c.args)
			s, gateway := gatewayOf(t, []string{"0:3", "3:6", "6:8", "0:4", "4:8"})
			got := pythonTuned(t, python, gateway.HTTP, c.args, func() { s.servers[1].kill() }, func() { s.servers[0].signal(syscall.SIGSTOP) })
			s.servers[0].signal(syscall.SIGCONT)
			if got != want {
				t.Errorf("tables %.12s after a server died and one hung, want %.12s", got, want)
			}
		})
	}
}

// The lines of the page about research do what they say: both tutorials run, and whorl takes what they
// have learnt.
func TestResearchPage(t *testing.T) {
	python := torchOfTests(t)
	page, err := os.ReadFile("../../docs/howto/hidden.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../clients/python/examples")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(toy)
	if err != nil {
		t.Fatal(err)
	}
	s, gateway := gatewayOf(t, []string{"0:4", "4:8"})
	words := strings.NewReplacer(
		"python clients/python/examples", python+" "+examples, "sentiment.py http://localhost:8300", "sentiment.py "+gateway.HTTP+" --examples 16 --epochs 1",
		"persona.py http://localhost:8300", "persona.py "+gateway.HTTP+" --epochs 1", "whorl ", whorl+" ", "INVITATION", folder+" --initial-peers "+s.peers())
	wants := []string{"held out accuracy", "A: ", "\tThe film was superb.", ""}
	dir := t.TempDir()
	for line := range strings.Lines(string(page)) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !ok || !strings.HasPrefix(line, "python clients/") && !strings.Contains(line, "whorl ") {
			continue
		}
		if len(wants) == 0 {
			t.Fatalf("there is no trial of %q", line)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-c", words.Replace(line))
		cmd.Dir = dir
		cmd.Env = append(ownFolders(t), "NO_PROXY=*", "PYTHONPATH="+researchPackage)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil || !strings.Contains(string(out), wants[0]) {
			t.Errorf("%s: %v, want %q\n%s", line, err, wants[0], out)
		}
		wants = wants[1:]
	}
	if len(wants) > 0 {
		t.Errorf("the page lacks lines with %q", wants)
	}
}
