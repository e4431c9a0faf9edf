//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What whorl tune learnt is used from the command line, here and through servers of which one dies,
// and over HTTP as a model of its own, with the same answers; and labels are told.
func TestTuned(t *testing.T) {
	dir := t.TempDir()
	var texts, labels bytes.Buffer
	for i := range 40 {
		json.NewEncoder(&texts).Encode(map[string]any{"prompt": fmt.Sprintf("say %d", i), "completion": " yes"})
		json.NewEncoder(&labels).Encode(map[string]any{"text": fmt.Sprintf("%d %d", i, i%2), "label": i % 2})
	}
	tune := func(task string, data []byte) string {
		file := filepath.Join(dir, task+".jsonl")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, task)
		if r := run(t, "", "tune", toy, "--local", "--data", file, "--task", task, "--deep", "--prompt-tokens", "4", "--epochs", "2", "--out", out); r.code != 0 {
			t.Fatalf("exit code %d\n%s", r.code, r.stderr)
		}
		return out
	}
	causal, classifier := tune("causal", texts.Bytes()), tune("classify", labels.Bytes())
	type answer struct {
		IDs  []int32 `json:"ids"`
		Text string  `json:"text"`
		Hash string  `json:"logits_hash"`
	}
	r := refs(t, 24)[0]
	args := []string{"generate", toy, "--ids", idList(r.PromptIDs), "--max-new-tokens", "24", "--ignore-eos", "--json", "--trace"}
	var plain, local, through answer
	lastJSON(t, run(t, "", append(args, "--local")...), &plain)
	args = append(args, "--prompt-tuning", causal)
	lastJSON(t, run(t, "", append(args, "--local")...), &local)
	if local.Hash == plain.Hash || local.Hash == "" {
		t.Errorf("prompts change nothing: %q and %q", local.Hash, plain.Hash)
	}
	s := spawn(t, []string{"0:3", "3:6", "6:8", "3:6"})
	name := s.model(t)
	s.gateway = start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--prompt-tuning", causal+","+classifier)
	lastJSON(t, run(t, "", append(args, "--initial-peers", s.peers())...), &through)
	if through.Hash != local.Hash {
		t.Errorf("through the swarm: %s, want %s", through.Hash, local.Hash)
	}
	status, c := s.post(t, map[string]any{"model": name + ":causal", "prompt": r.PromptIDs, "max_tokens": 24, "ignore_eos": true, "temperature": 0, "return_token_ids": true})
	if status != 200 || len(c.Choices) != 1 {
		t.Fatalf("status %d: %+v", status, c)
	}
	equal(t, "over HTTP", c.Choices[0].TokenIDs, local.IDs)
	b, _ := json.Marshal(map[string]any{"model": name + ":classify", "input": []string{"3 1", "4 0"}})
	resp, err := http.Post(s.gateway.HTTP+"/api/v1/classify", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var told struct {
		Data []struct {
			Label         string             `json:"label"`
			Probabilities map[string]float64 `json:"probabilities"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&told); err != nil || resp.StatusCode != 200 || len(told.Data) != 2 {
		t.Fatalf("status %d, %v: %+v", resp.StatusCode, err, told)
	}
	one := run(t, "3 1\n4 0\n", "classify", toy, "--local", "--prompt-tuning", classifier, "--json")
	two := run(t, "3 1\n4 0\n", "classify", toy, "--initial-peers", s.peers(), "--prompt-tuning", classifier, "--json")
	if one.code != 0 || one.stdout != two.stdout || strings.Count(one.stdout, `"label"`) != 2 {
		t.Errorf("labels here %q, through the swarm %q\n%s%s", one.stdout, two.stdout, one.stderr, two.stderr)
	}
	for i, line := range strings.Split(strings.TrimSpace(one.stdout), "\n") {
		var here struct {
			Label         string             `json:"label"`
			Probabilities map[string]float64 `json:"probabilities"`
		}
		if err := json.Unmarshal([]byte(line), &here); err != nil || here.Label != told.Data[i].Label || !maps.Equal(here.Probabilities, told.Data[i].Probabilities) {
			t.Errorf("text %d: %+v over HTTP, %+v here", i, told.Data[i], here)
		}
	}
	if r := run(t, "", append(args[:len(args)-1], classifier, "--local")...); r.code != 2 || !strings.Contains(r.stderr, "whorl classify") {
		t.Errorf("to generate with a classifier: exit code %d, %s", r.code, r.stderr)
	}
}
