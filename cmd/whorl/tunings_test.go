package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

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

// What is trained on top of a LoRA adapter has the same bits here and through a swarm, and is used with that
// adapter: from the command line, and behind a gateway under the name of the prompts.
func TestTuneAdapted(t *testing.T) {
	n := startRun(t, "serve", toy, "--new-swarm", "--admin", "127.0.0.1:0", "--http", "127.0.0.1:0", "--throughput", "100", "--adapters", adapterDir+"/toy-list")
	dir := t.TempDir()
	data := filepath.Join(dir, "data.jsonl")
	if err := os.WriteFile(data, []byte(`{"text":"ab"}`+"\n"+`{"text":"cd ab"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	folder := adapterDir + "/toy-list"
	tune := func(out string, more ...string) (o tuneObject) {
		args := append([]string{"tune", toy, "--data", data, "--deep", "--prompt-tokens", "3", "--epochs", "2", "--lr", "0.5", "--out", filepath.Join(dir, out), "--json"}, more...)
		whorl(t, "", nil, args...).last(t, &o)
		return o
	}
	plain, local := tune("plain", "--local"), tune("local", "--local", "--adapter", folder)
	swarm := tune("mood", "--initial-peers", n.Addrs[0], "--adapter", "toy-list")
	if plain.Hash == local.Hash || swarm.Hash != local.Hash || !slices.Equal(swarm.Loss, local.Loss) || len(local.Loss) != 2 {
		t.Errorf("%+v without, %+v here, %+v through the swarm", plain, local, swarm)
	}
	if r := whorl(t, "", nil, "tune", toy, "--data", data, "--deep", "--prompt-tokens", "3", "--epochs", "2", "--lr", "0.5", "--out", filepath.Join(dir, "mood"), "--initial-peers", n.Addrs[0]); r.code != exitUsage || !strings.Contains(r.err, "adapter") {
		t.Errorf("gone on with without the adapter: exit %d\n%s", r.code, r.err)
	}
	generate := func(more ...string) (o answerObject) {
		args := append([]string{"generate", toy, "--ids", "1,2,3", "--max-new-tokens", "8", "--ignore-eos", "--json", "--trace", "--prompt-tuning", filepath.Join(dir, "mood")}, more...)
		whorl(t, "", nil, args...).last(t, &o)
		return o
	}
	want, other := generate("--local", "--adapter", folder), generate("--initial-peers", n.Addrs[0])
	if want.LogitsHash == "" || other.LogitsHash != want.LogitsHash {
		t.Errorf("through the swarm %v %s, want %v %s", other.IDs, other.LogitsHash, want.IDs, want.LogitsHash)
	}
	if r := whorl(t, "", nil, "generate", toy, "--ids", "1", "--local", "--prompt-tuning", filepath.Join(dir, "mood")); r.code != exitUsage || !strings.Contains(r.err, "--adapter") {
		t.Errorf("here without the adapter: exit %d\n%s", r.code, r.err)
	}
	g := startRunEnv(t, []string{"HOME=" + t.TempDir()}, "gateway", toy, "--initial-peers", n.Addrs[0], "--host-maddrs", loopback, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--prompt-tuning", filepath.Join(dir, "mood"))
	if got := completed(t, g, "toy:mood", 200); !slices.Equal(got, want.IDs) {
		t.Errorf("behind a gateway %v, want %v", got, want.IDs)
	}
	// Researchers ask for MODEL:ADAPTER, and are told which it is, for what they save.
	c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(n.HTTP, "http")+"/api/v1/hidden?model=toy:toy-list", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var ready struct{ Adapter string }
	if _, b, err := c.ReadMessage(); err != nil || json.Unmarshal(b[4:], &ready) != nil || !strings.HasPrefix(ready.Adapter, "toy-list@c05017c2ea82") {
		t.Errorf("%q, %v", b, err)
	}
}
