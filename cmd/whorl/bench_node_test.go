package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// benched is a node in this process, which ends with the benchmark.
type benched struct {
	b      *testing.B
	PeerID string   `json:"peer_id"`
	Addrs  []string `json:"addrs"`
	HTTP   string   `json:"http"`
	Admin  string   `json:"admin"`
}

// benchModel is the real model; without one the benchmark is skipped.
func realModel(b *testing.B) string {
	files, _ := filepath.Glob("../../models/*.gguf")
	if len(files) == 0 {
		b.Skip("not measured: there is no model in models/; run make model")
	}
	return files[0]
}

// benchNode starts one, with an admin listener, on loopback.
func benchNode(b *testing.B, args ...string) *benched {
	b.Helper()
	ready := filepath.Join(b.TempDir(), "ready.json")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args = append(args, "--ephemeral", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ready-file", ready)
	go func() {
		done <- run(ctx, args, world{strings.NewReader(""), io.Discard, io.Discard, func() []string { return nil }})
	}()
	b.Cleanup(func() { stop(); <-done })
	n := &benched{b: b}
	for n.Admin == "" {
		if raw, err := os.ReadFile(ready); err == nil {
			json.Unmarshal(raw, n)
		}
		select {
		case code := <-done:
			done <- code
			b.Fatalf("%v ended with %d", args, code)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return n
}

// ask sends a request and returns the body of its answer.
func (n *benched) ask(method, url, body string) []byte {
	n.b.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		n.b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		n.b.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		n.b.Fatalf("%s: %d %s %v", url, r.StatusCode, raw, err)
	}
	return raw
}

// answer has a completion of so many tokens, and returns how many tokens a second there were.
func (n *benched) answer(prompt string, tokens int) float64 {
	n.b.Helper()
	question, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true})
	began := time.Now()
	var got struct {
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(n.ask("POST", n.HTTP+"/v1/completions", string(question)), &got); err != nil {
		n.b.Fatal(err)
	}
	return float64(got.Usage.CompletionTokens) / time.Since(began).Seconds()
}
