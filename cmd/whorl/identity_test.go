package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/internal/wiring"
	"whorl/swarm"
	"whorl/swarm/dir"
	"whorl/swarm/p2p"
)

// Two servers that announce other weights under the model's name, with the honest head, the
// honest tokenizer and any speed, outvote nobody: whoever has the files serves and uses what
// is in them.
func TestLiarsAboutContents(t *testing.T) {
	args := []string{"--http", wiring.Off, "--admin", "127.0.0.1:0", "--throughput", "100"}
	honest := startRun(t, append([]string{"serve", toy, "--new-swarm", "--block-indices", "0:8"}, args...)...)
	var status swarm.NodeStatus
	request(t, "GET", honest.Admin+"/api/v1/node", "", 200, &status)
	man := *status.Manifest
	man.Roots = slices.Clone(man.Roots)
	man.Roots[5][0] ^= 1
	for range 2 {
		h, err := p2p.New(p2p.Config{HostMaddrs: []string{loopback}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		cfg := dir.DefaultConfig()
		cfg.Bootstrap, cfg.Log = honest.Addrs, slog.New(slog.DiscardHandler)
		d, err := dir.New(h, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		defer func() { cancel(); <-done; d.Close() }()
		if _, err := d.View(ctx, ""); err != nil {
			t.Fatal(err)
		}
		rps := 1e9
		if err := d.Announce(ctx, swarm.Record{UID: man.UID(), Manifest: man, Span: swarm.Span{Start: 0, End: 8}, State: swarm.Online,
			Version: "liar", CacheTotal: 1 << 20, CacheLeft: 1 << 20, Throughput: rps, Rates: swarm.Rates{InferenceRPS: &rps, ForwardRPS: &rps}}); err != nil {
			t.Fatal(err)
		}
	}
	var models struct{ Items []struct{ ID string } }
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(2 * time.Minute); len(models.Items) != 2; {
		request(t, "GET", honest.Admin+"/api/v1/swarm/models", "", 200, &models)
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the liars are not seen: %+v", models)
		}
	}
	var got answerObject
	whorl(t, "", nil, "generate", toy, "--initial-peers", honest.Addrs[0], "--ids", "5", "--max-new-tokens", "2", "--ignore-eos", "--json").last(t, &got)
	if len(got.Route) != 1 || got.Route[0].Peer != status.Peer {
		t.Errorf("route %v, want one over the honest server %s", got.Route, status.Peer)
	}
	second := startRun(t, append([]string{"serve", copyOfToy(t), "--initial-peers", honest.Addrs[0], "--block-indices", "0:4"}, args...)...)
	var joined swarm.NodeStatus
	request(t, "GET", second.Admin+"/api/v1/node", "", 200, &joined)
	if joined.UID != status.UID {
		t.Errorf("a server with the honest files joined %s, want %s", joined.UID, status.UID)
	}
}

// copyOfToy is the toy in a folder of the same name.
func copyOfToy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(toy))
	if err := os.CopyFS(dir, os.DirFS(toy)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// flip changes the last byte of a tensor of the toy.
func flip(t *testing.T, dir, tensor string) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(raw)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	var place struct {
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(header[tensor], &place); err != nil {
		t.Fatal(err)
	}
	raw[8+int(n)+place.Offsets[1]-1] ^= 0x40
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Who brings other files than the swarm serves under a name is told which part differs, and
// never serves it nor generates with it; the same files elsewhere join, whatever they cost to
// hash before; what a node hashed once it remembers.
func TestContentsOfTheSwarm(t *testing.T) {
	args := []string{"--http", wiring.Off, "--admin", "127.0.0.1:0", "--throughput", "100"}
	cache := t.TempDir()
	first := startRun(t, append([]string{"serve", toy, "--new-swarm", "--block-indices", "0:4", "--cache-dir", cache}, args...)...)
	if files, err := filepath.Glob(filepath.Join(cache, "contents", "*.json")); err != nil || len(files) != 1 || !strings.Contains(first.log.String(), "hashed the model's files") {
		t.Errorf("%v %v\n%s", files, err, first.log)
	}
	second := startRun(t, append([]string{"serve", copyOfToy(t), "--initial-peers", first.Addrs[0], "--block-indices", "4:8"}, args...)...)
	var a, b swarm.NodeStatus
	request(t, "GET", first.Admin+"/api/v1/node", "", 200, &a)
	request(t, "GET", second.Admin+"/api/v1/node", "", 200, &b)
	if a.UID == "" || a.UID != b.UID || strings.Contains(second.log.String(), "hashed the model's files") {
		t.Errorf("UIDs %s and %s\n%s", a.UID, b.UID, second.log)
	}
	again := startRun(t, append([]string{"serve", toy, "--new-swarm", "--block-indices", "0:4", "--cache-dir", cache}, args...)...)
	request(t, "GET", again.Admin+"/api/v1/node", "", 200, &b)
	if a.UID != b.UID || strings.Contains(again.log.String(), "hashed the model's files") {
		t.Errorf("UIDs %s and %s\n%s", a.UID, b.UID, again.log)
	}

	join := append([]string{"--initial-peers", first.Addrs[0], "--host-maddrs", loopback}, args...)
	for _, c := range []struct {
		what, tensor string
		args         []string
		want         []string
	}{
		{"a damaged block", "model.layers.5.mlp.up_proj.weight", append([]string{"serve", "DIR", "--block-indices", "4:8"}, join...), []string{"block 5", "damaged", "--model-name"}},
		{"a damaged first block", "model.layers.4.mlp.up_proj.weight", append([]string{"serve", "DIR", "--block-indices", "4:8"}, join...), []string{"block 4", "the swarm's model"}},
		{"a damaged head", "model.norm.weight", []string{"generate", "DIR", "--initial-peers", first.Addrs[0], "--ids", "5", "--max-new-tokens", "1"}, []string{"the head"}},
	} {
		dir := copyOfToy(t)
		flip(t, dir, c.tensor)
		for i := range c.args {
			if c.args[i] == "DIR" {
				c.args[i] = dir
			}
		}
		got := whorl(t, "", nil, c.args...)
		for _, want := range append(c.want, "these are not the weights", dir) {
			if !strings.Contains(got.err, want) {
				t.Errorf("%s: %q is not in\n%s", c.what, want, got.err)
			}
		}
		if got.code == 0 {
			t.Errorf("%s: all is well", c.what)
		}
	}
	// A block that is damaged outside of the span hurts nobody.
	dir := copyOfToy(t)
	flip(t, dir, "model.layers.5.mlp.up_proj.weight")
	third := startRun(t, append([]string{"serve", dir, "--initial-peers", first.Addrs[0], "--block-indices", "0:4"}, args...)...)
	request(t, "GET", third.Admin+"/api/v1/node", "", 200, &b)
	if a.UID != b.UID {
		t.Errorf("UIDs %s and %s\n%s", a.UID, b.UID, third.log)
	}
	// Another tokenizer is no part of what servers compute, but of what users read.
	tok := copyOfToy(t)
	config := filepath.Join(tok, "tokenizer_config.json")
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(raw, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	got := whorl(t, "", nil, "generate", tok, "--initial-peers", first.Addrs[0], "--ids", "5", "--max-new-tokens", "1")
	if got.code == 0 || !strings.Contains(got.err, "the tokenizer of "+tok) {
		t.Errorf("another tokenizer: %d\n%s", got.code, got.err)
	}
}
