package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/internal/wiring"
	"whorl/swarm"
	"whorl/swarm/trust"
)

const loopback = "/ip4/127.0.0.1/tcp/0"

// readyObject is a ready file.
type readyObject struct {
	PeerID string   `json:"peer_id"`
	Addrs  []string `json:"addrs"`
	HTTP   string   `json:"http"`
	Admin  string   `json:"admin"`
	PID    int      `json:"pid"`
}

// running is a node in this process.
type running struct {
	readyObject
	file string
	stop func() int // asks it to end and gives its exit code
	log  *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startRun starts a node on loopback and waits until it is usable.
func startRun(t *testing.T, args ...string) *running {
	t.Helper()
	return startRunEnv(t, nil, args...)
}

// startRunEnv is startRun with an environment.
func startRunEnv(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	n := &running{file: filepath.Join(t.TempDir(), "ready.json"), log: &syncBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args = append(args, "--host-maddrs", loopback, "--ready-file", n.file)
	go func() {
		done <- run(ctx, args, world{strings.NewReader(""), io.Discard, n.log, func() []string { return env }})
	}()
	var once sync.Once
	code := -1
	n.stop = func() int {
		once.Do(func() {
			cancel()
			select {
			case code = <-done:
			case <-time.After(2 * time.Minute):
				t.Errorf("whorl %v does not end:\n%s", args, n.log)
			}
		})
		return code
	}
	t.Cleanup(func() { n.stop() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		select {
		case <-tick.C:
			if b, err := os.ReadFile(n.file); err == nil {
				if err := json.Unmarshal(b, &n.readyObject); err != nil {
					t.Fatalf("%v in %s", err, b)
				}
				return n
			}
		case code := <-done:
			done <- code
			t.Fatalf("whorl %v ended early with code %d:\n%s", args, code, n.log)
		case <-end:
			t.Fatalf("whorl %v is not ready:\n%s", args, n.log)
		}
	}
}

// One node is a whole swarm: servers, API, clients of it, and an orderly end.
func TestServeAlone(t *testing.T) {
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--update-period", "1s", "--public-name", "me")
	if n.PeerID == "" || len(n.Addrs) != 1 || !strings.HasSuffix(n.Addrs[0], "/p2p/"+n.PeerID) || n.PID != os.Getpid() || n.HTTP == n.Admin {
		t.Errorf("ready file %+v", n.readyObject)
	}
	ref := references(t)[0]
	body := fmt.Sprintf(`{"model":"toy","prompt":%q,"max_tokens":8,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, ref.Prompt)
	var c struct {
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	request(t, "POST", n.HTTP+"/v1/completions", body, 200, &c)
	if !slices.Equal(c.Choices[0].IDs, ref.New[:8]) {
		t.Errorf("over HTTP: %v, want %v", c.Choices[0].IDs, ref.New[:8])
	}
	var got answerObject
	whorl(t, "", nil, "generate", toy, "--initial-peers", n.Addrs[0], "--prompt", ref.Prompt, "--max-new-tokens", "8", "--ignore-eos", "--json").last(t, &got)
	if !slices.Equal(got.IDs, ref.New[:8]) || len(got.Route) != 1 || string(got.Route[0].Peer) != n.PeerID {
		t.Errorf("through the swarm: %v by %v, want %v", got.IDs, got.Route, ref.New[:8])
	}
	var status swarm.NodeStatus
	request(t, "GET", n.Admin+"/api/v1/node", "", 200, &status)
	if status.State != swarm.Online || status.PublicName != "me" || status.Manifest.Name != "toy" || !slices.Equal(status.Roles, []string{"server", "gateway"}) {
		t.Errorf("status %+v", status)
	}
	request(t, "GET", n.HTTP+"/readyz", "", 200, nil)
	standing := func() trust.Standing {
		var list struct{ Items []trust.Standing }
		request(t, "GET", n.HTTP+"/api/v1/peers/standings", "", 200, &list)
		if len(list.Items) != 1 || string(list.Items[0].Peer) != n.PeerID {
			t.Fatalf("standings %+v", list.Items)
		}
		return list.Items[0]
	}
	if s := standing(); s.Counts["served"] < 7.9 || s.Avoid != nil {
		t.Errorf("after an answer of 8 tokens: %+v", s)
	}
	ban := n.Admin + "/api/v1/peers/" + n.PeerID + "/ban"
	request(t, "DELETE", ban, "", 404, nil)
	request(t, "PUT", ban, `{"seconds":60,"reason":"a test"}`, 204, nil)
	if s := standing(); s.Avoid == nil || !s.Avoid.Never || !strings.Contains(s.Avoid.Reason, "a test") {
		t.Errorf("after a ban: %+v", s)
	}
	request(t, "DELETE", ban, "", 204, nil)
	request(t, "POST", n.HTTP+"/v1/completions", body, 200, &c)
	request(t, "POST", n.Admin+"/api/v1/node/shutdown", "", 202, nil)
	if code := n.stop(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, n.log)
	}
	if _, err := os.Stat(n.file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file is still there: %v", err)
	}
}

func request(t *testing.T, method, url, body string, want int, v any) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s %s: status %d, want %d: %v %s", method, url, resp.StatusCode, want, err, b)
	}
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
	}
}

// A second server adopts the class that the swarm serves, and a gateway finds both.
func TestClassOfTheSwarm(t *testing.T) {
	args := []string{"--http", wiring.Off, "--admin", "127.0.0.1:0", "--throughput", "100", "--update-period", "1s"}
	first := startRun(t, append([]string{"serve", toy, "--new-swarm", "--block-indices", "0:4", "--quant", "q8_0", "--kv-dtype", "bf16"}, args...)...)
	second := startRun(t, append([]string{"serve", toy, "--initial-peers", first.Addrs[0], "--num-blocks", "4"}, args...)...)
	var status swarm.NodeStatus
	request(t, "GET", second.Admin+"/api/v1/node", "", 200, &status)
	class := status.Manifest.Class
	if class.Quant != "q8_0" || class.KVDType != "bf16" || *status.Span != (swarm.Span{Start: 4, End: 8}) {
		t.Errorf("the second server holds %v as %s with a cache of %s, want 4:8 as q8_0 with one of bf16", status.Span, class.Quant, class.KVDType)
	}
	var got answerObject
	whorl(t, "", nil, "generate", toy, "--initial-peers", first.Addrs[0], "--ids", "5", "--max-new-tokens", "2", "--ignore-eos", "--json").last(t, &got)
	if len(got.Route) != 2 {
		t.Errorf("route %v, want one over both servers", got.Route)
	}
	for _, asked := range [][]string{{"--quant", "none"}, {"--quant", "q8_0", "--kv-dtype", "f32"}} {
		stubborn := whorl(t, "", nil, append([]string{"generate", toy, "--initial-peers", first.Addrs[0], "--ids", "5", "--max-new-tokens", "2"}, asked...)...)
		if stubborn.code != exitFailed || !strings.Contains(stubborn.err, "another class") || !strings.Contains(stubborn.err, "0-7") {
			t.Errorf("asking for another class by %v: exit code %d\n%s", asked, stubborn.code, stubborn.err)
		}
	}
}

// What fails at work is one line, and leaves nothing behind.
func TestStartFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	dead := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ"
	key := filepath.Join(t.TempDir(), "node.key")
	startRun(t, "bootstrap", "--new-swarm", "--identity-path", key)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"serve " + toy + " --new-swarm --http " + taken.Addr().String(), []string{"--http", taken.Addr().String(), "in use", "--http 127.0.0.1:0"}},
		{"bootstrap --new-swarm --http 127.0.0.1:0 --admin " + taken.Addr().String(), []string{"--admin", "in use"}},
		{"bootstrap --new-swarm --host-maddrs /ip4/127.0.0.1/tcp/" + port, []string{"/ip4/127.0.0.1/tcp/" + port, "in use"}},
		{"bootstrap --host-maddrs " + loopback + " --initial-peers " + dead, []string{dead, "refused"}},
		{"generate " + toy + " --ids 1 --initial-peers " + dead, []string{dead, "refused"}},
		{"bootstrap --new-swarm --host-maddrs " + loopback + " --identity-path " + key, []string{"in use", key, "--identity-path"}},
	} {
		r := whorl(t, "", nil, append(strings.Fields(c.args), "--log-level", "error")...)
		if r.code != exitFailed || strings.Count(r.err, "\n") != 1 {
			t.Errorf("whorl %s: exit code %d, want %d and one line\n%s", c.args, r.code, exitFailed, r.err)
		}
		for _, part := range c.want {
			if !strings.Contains(r.err, part) {
				t.Errorf("whorl %s: %q does not name %q", c.args, r.err, part)
			}
		}
	}
}

func TestDryRun(t *testing.T) {
	r := whorl(t, "", nil, "serve", toy, "--new-swarm", "--block-indices", "0:1", "--throughput", "dry_run", "--http", wiring.Off, "--admin", wiring.Off, "--host-maddrs", loopback).ok(t)
	for _, part := range []string{"inference through one block:", "forward through one block:", "network: not measured", "tokens/s"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q lacks %q", r.stdout, part)
		}
	}
}
