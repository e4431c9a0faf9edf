package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/share"
)

// BenchmarkYield measures how much a running answer loses while a node gives its files to
// somebody who takes all it gets, in this process too: ratio is the median, over pairs of
// answers, of the speed with a taker by that without. MiB/s is what the taker got meanwhile.
func BenchmarkYield(b *testing.B) {
	files, _ := filepath.Glob("../../models/*.gguf")
	if len(files) == 0 {
		b.Skip("not measured: there is no model in models/; run make model")
	}
	ready := filepath.Join(b.TempDir(), "ready.json")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args := []string{"serve", files[0], "--new-swarm", "--ephemeral", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ready-file", ready, "--threads", "1", "--throughput", "100", "--attn-cache-tokens", "2048"}
	go func() {
		done <- run(ctx, args, world{strings.NewReader(""), io.Discard, io.Discard, func() []string { return nil }})
	}()
	b.Cleanup(func() { stop(); <-done })
	var at struct {
		PeerID string   `json:"peer_id"`
		Addrs  []string `json:"addrs"`
		HTTP   string   `json:"http"`
		Admin  string   `json:"admin"`
	}
	for at.HTTP == "" {
		if raw, err := os.ReadFile(ready); err == nil {
			json.Unmarshal(raw, &at)
		}
		<-time.After(10 * time.Millisecond)
	}
	var st swarm.NodeStatus
	get := func(method, url, body string, v any) {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Body.Close()
		raw, _ := io.ReadAll(r.Body)
		if err := json.NewDecoder(bytes.NewReader(raw)).Decode(v); err != nil || r.StatusCode != 200 {
			b.Fatalf("%s: %s %v", url, raw, err)
		}
	}
	get("GET", at.Admin+"/api/v1/node", "", &st)

	taker, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Agent: "taker"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { taker.Close() })
	from := swarm.PeerID(at.PeerID)
	addr, _, _ := strings.Cut(at.Addrs[0], "/p2p/")
	taker.AddAddrs(from, []string{addr})
	cfg := share.DefaultClient()
	cfg.Self, cfg.Swarm, cfg.Dial = taker.ID(), "main", taker.Dial
	cfg.Sources = func() []swarm.PeerID { return []swarm.PeerID{from} }
	c, err := share.NewClient(cfg)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := c.Small(ctx, st.Manifest.Files)
	if err != nil {
		b.Fatal(err)
	}
	list, err := share.DecodeBundle(raw)
	if err != nil {
		b.Fatal(err)
	}
	o := list.Files[0].Object
	hashes, err := c.Hashes(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	want := make([]int, o.Pieces())
	for i := range want {
		want[i] = i
	}
	// Speeds are of the middle of an answer: what follows the first token.
	answer := func() float64 {
		began := time.Now()
		var got struct {
			Usage struct {
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		get("POST", at.HTTP+"/v1/completions", `{"prompt":"Hello","max_tokens":400,"temperature":0,"ignore_eos":true}`, &got)
		return float64(got.Usage.CompletionTokens) / time.Since(began).Seconds()
	}
	answer()
	var ratios, rates, alone []float64
	for b.Loop() {
		a := answer()
		taking, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for taking.Err() == nil {
				c.Fetch(taking, o, hashes, want, func(int, []byte) error { return nil })
			}
		}()
		before, began := c.Received(), time.Now()
		<-time.After(100 * time.Millisecond)
		with := answer()
		rates = append(rates, float64(c.Received()-before)/(1<<20)/time.Since(began).Seconds())
		end()
		<-ended
		ratios, alone = append(ratios, with/a), append(alone, a)
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(alone), "tok/s-alone")
	b.ReportMetric(median(rates), "MiB/s")
}
