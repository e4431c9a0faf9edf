package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/client/train"
	"whorl/internal/wiring"
	"whorl/model/families"
)

// tuneTiny trains a folder NAME of prompts for a model, in one step.
func tuneTiny(t *testing.T, model, name, task string) string {
	t.Helper()
	dir := t.TempDir()
	data, out := filepath.Join(dir, "data.jsonl"), filepath.Join(dir, name)
	line := map[string]string{"causal": `{"text":"ab"}`, "classify": `{"text":"ab","label":"x"}` + "\n" + `{"text":"b","label":"y"}`}[task]
	if err := os.WriteFile(data, []byte(line+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := whorl(t, "", nil, "tune", model, "--local", "--data", data, "--task", task, "--deep", "--prompt-tokens", "3", "--epochs", "1", "--lr", "0.5", "--out", out); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.err)
	}
	return out
}

// classified asks a gateway for labels.
func classified(t *testing.T, n *running, model string, status int) []string {
	t.Helper()
	var got struct{ Data []struct{ Label string } }
	body := fmt.Sprintf(`{"model":%q,"input":["ab","b"]}`, model)
	if status != 200 {
		request(t, "POST", n.HTTP+"/api/v1/classify", body, status, nil)
		return nil
	}
	request(t, "POST", n.HTTP+"/api/v1/classify", body, 200, &got)
	var out []string
	for _, d := range got.Data {
		out = append(out, d.Label)
	}
	return out
}

// Prompts for two models behind one gateway: of models that are named, and of those that the swarm has. Each
// name has the answers that the command line gives with its folder; a folder belongs to the model that it was trained on, or
// to the one that the operator says.
func TestPromptsOfSeveralModels(t *testing.T) {
	args := []string{"--admin", "127.0.0.1:0", "--http", wiring.Off, "--mean-block-selection-delay", "0", "--throughput", "100", "--update-period", "1s"}
	founder := startRun(t, append([]string{"serve", toy, "--new-swarm"}, args...)...)
	startRun(t, append([]string{"serve", toyFolder, "--initial-peers", founder.Addrs[0]}, args...)...)
	mood, kind, small := tuneTiny(t, toy, "mood", "causal"), tuneTiny(t, toy, "kind", "classify"), scaledPrompts(t, "mood")
	local := func(model, dir string) (ids []int32) {
		var got answerObject
		args := []string{"generate", model, "--local", "--ids", "1,2,3", "--max-new-tokens", "8", "--ignore-eos", "--json"}
		if dir != "" {
			args = append(args, "--prompt-tuning", dir)
		}
		whorl(t, "", nil, args...).last(t, &got)
		return got.IDs
	}
	want := map[string][]int32{"toy": local(toy, ""), "scaled": local(toyFolder, ""), "toy:mood": local(toy, mood), "scaled:mood": local(toyFolder, small)}
	if slices.Equal(want["toy"], want["toy:mood"]) || slices.Equal(want["scaled"], want["scaled:mood"]) {
		t.Fatalf("prompts change nothing: %v", want)
	}
	var labels []string
	for line := range strings.Lines(whorl(t, "ab\nb\n", nil, "classify", toy, "--local", "--prompt-tuning", kind, "--json").stdout) {
		var got struct{ Label string }
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		labels = append(labels, got.Label)
	}
	gateway := []string{"gateway", "--initial-peers", founder.Addrs[0], "--host-maddrs", loopback, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--prompt-tuning", mood + ",toy=" + kind + ",small=" + small, "--alias", "small=scaled"}
	for kindOf, more := range map[string][]string{"of named models": {toy, toyFolder}, "of the swarm": {"--cache-dir", t.TempDir()}} {
		n := startRunEnv(t, []string{"HOME=" + t.TempDir()}, append(gateway, more...)...)
		names := []string{"scaled", "scaled:mood", "small", "toy", "toy:kind", "toy:mood"}
		var got []string
		if !eventually(func() bool {
			m := modelsOf(t, n)
			got = got[:0]
			for name, x := range m {
				if x.State == "healthy" {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			return slices.Equal(got, names)
		}) {
			t.Fatalf("a gateway %s offers %q, want %q", kindOf, got, names)
		}
		if m := modelsOf(t, n); m["toy:mood"].Context != m["toy"].Context-3 {
			t.Errorf("%s: %+v", kindOf, m)
		}
		// Labels first: they wake a model of the swarm that nobody has asked for before.
		if got := classified(t, n, "toy:kind", 200); !slices.Equal(got, labels) || len(labels) != 2 {
			t.Errorf("%s: labels %q, want %q", kindOf, got, labels)
		}
		classified(t, n, "toy:mood", 400)
		completed(t, n, "toy:kind", 400)
		for name, ids := range want {
			if got := completed(t, n, name, 200); !slices.Equal(got, ids) {
				t.Errorf("%s: %s gives %v, want %v", kindOf, name, got, ids)
			}
		}
		completed(t, n, "scaled:kind", 404)
		if m := modelsOf(t, n); m["toy:mood"].Context != m["toy"].Context-3 {
			t.Errorf("%s, in memory: %+v", kindOf, m)
		}
	}
	nobody := scaledPrompts(t, "nobody") // as of the PEFT library, which knows no UID
	for _, c := range []struct {
		tuning string
		models []string
		says   string
	}{
		{nobody, nil, "do not say which model"},
		{nobody, []string{toy, toyFolder}, "do not say which model"},
		{"other=" + mood, []string{toy, toyFolder}, `the models here are ["toy" "scaled"]`},
		{"scaled=" + mood, []string{toy, toyFolder}, "of another model"},
		{"scaled=" + mood, []string{toy}, "the model here is toy"},
		{small, []string{toy}, "of another model"},
		{mood + ",toy=" + mood, []string{toy}, "must differ"},
		{"=" + mood, []string{toy}, "want DIR or MODEL=DIR"},
		{"/nowhere", nil, "/nowhere"},
	} {
		run := append(append([]string{"gateway"}, c.models...), "--initial-peers", founder.Addrs[0], "--host-maddrs", loopback, "--http", "127.0.0.1:0", "--prompt-tuning", c.tuning)
		if r := whorl(t, "", nil, run...); r.code != exitUsage || !strings.Contains(r.err, c.says) {
			t.Errorf("%s for %q: exit %d, %s, want %q", c.tuning, c.models, r.code, r.err, c.says)
		}
	}
}

// scaledPrompts writes a folder NAME of prompts for toyFolder, which has no tokenizer to train with.
func scaledPrompts(t *testing.T, name string) string {
	t.Helper()
	ck, err := families.Open(toyFolder)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	hidden, blocks := ck.Config.Hidden, ck.Config.Layers
	tables := &train.Tables{Tokens: 3, Hidden: hidden, Blocks: blocks, Shallow: make([]float32, 3*hidden), Deep: make([]float32, blocks*3*hidden)}
	for i := range tables.Shallow {
		tables.Shallow[i] = float32(i%7) - 3
	}
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, b := range tables.Files(train.About{Hidden: hidden, Blocks: blocks}) {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
