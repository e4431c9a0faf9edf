//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Training on a swarm of processes, of which one dies by kill -9 and one hangs, and training that is
// interrupted and gone on with, give the tables of training in one process, to the last bit.
func TestTune(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data.jsonl")
	var lines bytes.Buffer
	for i := range 120 {
		words := []string{"red", "green", "blue", "dark", "light", "old", "new"}
		text := fmt.Sprintf("the %s box and the %s one, %d times", words[i%7], words[i*i%5], i%9)
		json.NewEncoder(&lines).Encode(map[string]any{"text": text, "label": map[bool]string{true: "odd", false: "even"}[i%7%2 == 1]})
	}
	if err := os.WriteFile(data, lines.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	type tuned struct {
		Steps int       `json:"steps"`
		Hash  string    `json:"hash"`
		Loss  []float64 `json:"loss"`
		Eval  struct {
			Examples int `json:"examples"`
		} `json:"eval"`
	}
	args := func(out string, more ...string) []string {
		return append([]string{"tune", toy, "--data", data, "--eval", data, "--task", "classify", "--deep", "--prompt-tokens", "4", "--epochs", "5", "--batch", "8", "--lr", "0.02",
			"--schedule", "cosine", "--warmup", "3", "--out", filepath.Join(dir, out), "--json"}, more...)
	}
	var local, swarm, resumed tuned
	lastJSON(t, run(t, "", args("local", "--local")...), &local)
	if local.Steps != 75 || local.Eval.Examples != 120 || len(local.Hash) != 64 {
		t.Fatalf("%+v", local)
	}
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors", "README.md", "checkpoint.safetensors"} {
		if _, err := os.Stat(filepath.Join(dir, "local", name)); err != nil {
			t.Error(err)
		}
	}
	s := spawn(t, []string{"0:3", "3:6", "6:8", "0:4", "4:8"})
	begin := func(out string) (*exec.Cmd, *logBuffer, *bytes.Buffer) {
		cmd := exec.Command(whorl, args(out, "--initial-peers", s.peers())...)
		cmd.Env = ownFolders(t)
		text, result := &logBuffer{}, &bytes.Buffer{}
		cmd.Stderr, cmd.Stdout = text, result
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd, text, result
	}
	saved := func(out string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(dir, out, "checkpoint.safetensors"))
			return err == nil
		}
	}
	// The first epoch has ended: most of the run is to come.
	cmd, text, result := begin("swarm")
	if !poll(patience, saved("swarm")) {
		t.Fatalf("no epoch ends\n%s", text)
	}
	s.servers[1].kill()
	time.AfterFunc(time.Second, func() { s.servers[0].signal(syscall.SIGSTOP) })
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s.servers[0].signal(syscall.SIGCONT)
	if err := json.Unmarshal(result.Bytes(), &swarm); err != nil {
		t.Fatal(err)
	}
	if swarm.Hash != local.Hash {
		t.Errorf("tables %.12s after a server died and one hung, want %.12s", swarm.Hash, local.Hash)
	}
	cmd, text, _ = begin("resumed")
	for end := time.Now().Add(patience); !saved("resumed")() && time.Now().Before(end); { // at once: a fast machine trains on
		<-time.After(time.Millisecond)
	}
	if !saved("resumed")() {
		t.Fatalf("no epoch ends\n%s", text)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || !strings.Contains(text.String(), "goes on from there") {
		t.Errorf("after Ctrl-C: %v\n%s", err, text)
	}
	lastJSON(t, run(t, "", args("resumed", "--initial-peers", s.peers())...), &resumed)
	if resumed.Hash != local.Hash || resumed.Steps != 75 || len(resumed.Loss) != 5 || !slices.Equal(resumed.Loss, local.Loss) {
		t.Errorf("gone on with: %d steps, tables %.12s, want %.12s; losses %v, want %v", resumed.Steps, resumed.Hash, local.Hash, resumed.Loss, local.Loss)
	}
}
