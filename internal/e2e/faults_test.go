//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A server is frozen past the step deadline and wakes up after the re-route: the stream
// goes on and nothing is corrupted.
func TestFreezeAndWake(t *testing.T) {
	all := refs(t, 40)
	s := spawn(t, []string{"0:3", "3:6", "6:8", "3:6"})
	k := s.open(t, 128)
	var frozen *node
	ids, _, last := k.generate(map[string]any{"inputs": all[0].Prompt, "max_new_tokens": 40, "stream": true, "ignore_eos": true}, func(n int) {
		switch {
		case n >= 5 && frozen == nil:
			frozen = s.inUse(t, 1, 3)
			frozen.signal(syscall.SIGSTOP)
		case n >= 20:
			frozen.signal(syscall.SIGCONT)
		}
	})
	if !last.OK || frozen == nil {
		t.Fatalf("%+v", last)
	}
	frozen.signal(syscall.SIGCONT)
	equal(t, "ids", ids, all[0].IDs[:40])
	// The one that woke up serves again, correctly.
	for _, r := range all[1:4] {
		status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 24, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
		if status != 200 {
			t.Fatalf("status %d: %+v", status, c.Error)
		}
		equal(t, r.Prompt, c.Choices[0].TokenIDs, r.IDs[:24])
	}
	if !poll(patience, func() bool { return frozen.sessions(t) == 0 }) {
		t.Error("the server that woke up keeps the session it lost")
	}
}

// Chats that begin while a server is frozen, which nobody knows yet, go past it.
func TestFreezeAndOpen(t *testing.T) {
	all := refs(t, 24)
	s := spawn(t, []string{"0:4", "4:8", "4:8"})
	s.open(t, 128)
	s.inUse(t, 1, 2).signal(syscall.SIGSTOP)
	var chats sync.WaitGroup
	for _, r := range all[:6] {
		chats.Go(func() {
			status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 24, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
			if status != 200 {
				t.Errorf("status %d: %+v", status, c.Error)
				return
			}
			equal(t, r.Prompt, c.Choices[0].TokenIDs, r.IDs[:24])
		})
	}
	chats.Wait()
}

// A server dies while the prompt is computed.
func TestKillInMidPrefill(t *testing.T) {
	text, prompt := ofLength(t, 100)
	var whole struct{ IDs []int32 }
	lastJSON(t, run(t, "", "generate", toy, "--local", "--ids", idList(prompt), "--max-new-tokens", "16", "--ignore-eos", "--json"), &whole)
	for round := range 3 {
		s := spawn(t, []string{"0:3", "3:6", "6:8", "3:6"})
		k := s.open(t, 128)
		victim := s.inUse(t, 1, 3)
		go func() { // a little later in every round
			<-time.After(time.Duration(round*3) * time.Millisecond)
			victim.kill()
		}()
		ids, _, last := k.generate(map[string]any{"inputs": text, "max_new_tokens": 16, "stream": true, "ignore_eos": true}, nil)
		if !last.OK {
			t.Fatalf("%+v", last)
		}
		equal(t, "ids", ids, whole.IDs)
	}
}

// SIGTERM drains: the stream fails over, the server ends well and soon.
func TestTerminateInMidStream(t *testing.T) {
	r := refs(t, 40)[0]
	s := spawn(t, []string{"0:4", "4:8", "4:8"})
	k := s.open(t, 128)
	var ended *node
	ids, _, last := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": 40, "stream": true, "ignore_eos": true}, func(n int) {
		if n >= 5 && ended == nil {
			ended = s.inUse(t, 1, 2)
			ended.signal(syscall.SIGTERM)
		}
	})
	if !last.OK {
		t.Fatalf("%+v", last)
	}
	equal(t, "ids", ids, r.IDs[:40])
	select {
	case <-ended.done:
		if ended.err != nil {
			t.Errorf("it ended with %v", ended.err)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
}

// Wrong use is one line that names what is wrong, and exit code 2 (1 for what fails at
// work).
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	folder := func(name, config string) string {
		p := filepath.Join(dir, name)
		os.Mkdir(p, 0o755)
		file(name+"/config.json", config)
		return p
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	t.Setenv("HF_HUB_OFFLINE", "1") // a name is looked for in the cache, wherever this runs
	t.Setenv("HF_HOME", dir)
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		parts []string
	}{
		{"no model", []string{"generate", filepath.Join(dir, "absent"), "--local", "--prompt", "x"}, 2, []string{"absent"}},
		{"a hub name", []string{"generate", "owner/name", "--local", "--prompt", "x"}, 2, []string{"owner/name", "whorl models get"}},
		{"a corrupt GGUF", []string{"generate", file("bad.gguf", "GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"), "--local", "--prompt", "x"}, 2, []string{"bad.gguf"}},
		{"an unknown architecture", []string{"generate", folder("odd", `{"architectures":["OddForCausalLM"],"model_type":"odd"}`), "--local", "--prompt", "x"}, 2, []string{"Odd", "Llama"}},
		{"no weights", []string{"generate", folder("bare", `{"architectures":["LlamaForCausalLM"]}`), "--local", "--prompt", "x"}, 2, []string{"bare"}},
		{"a port in use", []string{"serve", toy, "--new-swarm", "--http", busy.Addr().String(), "--admin", "off"}, 1, []string{busy.Addr().String(), "in use"}},
		{"a listener beyond loopback without a token", []string{"serve", toy, "--new-swarm", "--http", "0.0.0.0:0"}, 2, []string{"token"}},
		{"no bootstrap there", []string{"serve", toy, "--http", "off", "--admin", "off", "--initial-peers", "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWPf8GtW5eNQJJpXwjSqEZE7ZerzbFy2jzvC4BdG8MMyrv"}, 1, []string{"/ip4/127.0.0.1/tcp/1", "refused"}},
		{"neither local nor a swarm", []string{"generate", toy, "--prompt", "x"}, 2, []string{"--local", "--initial-peers"}},
		{"over the model's context", []string{"generate", toy, "--local", "--prompt", "x", "--max-new-tokens", "9999"}, 2, []string{"256"}},
		{"no such flag", []string{"serve", "--frobnicate"}, 2, []string{"--frobnicate"}},
		{"CUDA", []string{"generate", toy, "--local", "--prompt", "x", "--device", "cuda"}, 2, []string{"CUDA", "cpu"}},
	} {
		r := run(t, "", c.args...)
		if r.code != c.code || strings.Count(strings.TrimSpace(lastLines(r.stderr)), "\n") > 0 {
			t.Errorf("%s: exit code %d, want %d; %s", c.name, r.code, c.code, r.stderr)
		}
		for _, part := range c.parts {
			if !strings.Contains(r.stderr, part) {
				t.Errorf("%s: %q does not name %s", c.name, r.stderr, part)
			}
		}
	}
}

// lastLines is what a command says beside its log.
func lastLines(stderr string) string {
	var out []string
	for _, l := range strings.Split(stderr, "\n") {
		if !strings.HasPrefix(l, "time=") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// Bad requests are refused, and the gateway goes on.
func TestBadRequests(t *testing.T) {
	s := spawn(t, []string{"0:8"})
	for _, c := range []struct {
		name, body, origin, host string
		status                   int
	}{
		{"no JSON", `{"model":`, "", "", 400},
		{"a wrong type", `{"model":"toy","prompt":"x","top_k":"x"}`, "", "", 400},
		{"another model", `{"model":"../../etc/passwd","prompt":"x"}`, "", "", 404},
		{"over budget", `{"model":"toy","prompt":"x","max_tokens":9999}`, "", "", 400},
		{"a page of somebody else", `{"model":"toy","prompt":"x"}`, "https://evil.example", "", 403},
		{"a rebound name", `{"model":"toy","prompt":"x"}`, "", "evil.example", 403},
	} {
		req, _ := http.NewRequest("POST", s.gateway.HTTP+"/v1/completions", strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/json")
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		req.Host = c.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body completion
		err = json.NewDecoder(resp.Body).Decode(&body)
		resp.Body.Close()
		if resp.StatusCode != c.status || err != nil || body.Error == nil || body.Error.Message == "" {
			t.Errorf("%s: status %d, want %d; %+v %v", c.name, resp.StatusCode, c.status, body.Error, err)
		}
	}
	addr := "ws://" + strings.TrimPrefix(s.gateway.HTTP, "http://") + "/api/v2/generate"
	if _, resp, err := websocket.DefaultDialer.Dial(addr, http.Header{"Origin": {"https://evil.example"}}); err == nil || resp == nil || resp.StatusCode != 403 {
		t.Errorf("a WebSocket of another page: %v", err)
	}
	c, _, err := websocket.DefaultDialer.Dial(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open_inference_session","model":"`+strings.Repeat("x", 4<<20)+`"}`))
	c.SetReadDeadline(time.Now().Add(patience))
	_, _, err = c.ReadMessage()
	for err == nil {
		_, _, err = c.ReadMessage()
	}
	if !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("an oversize frame: %v", err)
	}
	if n := s.servers[0].sessions(t); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// Dead addresses in the list of initial peers cost no more than their time-out. The dead
// ones are addresses of a network namespace made for this test, which drops their packets.
func TestCase011DeadAddresses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: joining past black-hole addresses was not proven")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip command: joining past black-hole addresses was not proven (apt-get install iproute2)")
	}
	const ns = "whorl-e2e-011"
	ip := func(args ...string) error { return exec.Command("ip", args...).Run() }
	ip("netns", "del", ns)
	if err := ip("netns", "add", ns); err != nil {
		t.Skipf("no network namespace can be made (%v): joining past black-hole addresses was not proven", err)
	}
	t.Cleanup(func() { ip("netns", "del", ns) })
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "hole", "type", "veth", "peer", "name", "void"}, // what enters one end vanishes at the other
		{"link", "set", "hole", "up"},
		{"link", "set", "void", "up"},
		{"addr", "add", "10.99.0.1/24", "dev", "hole"},
		{"-6", "addr", "add", "fd99::1/64", "dev", "hole", "nodad"},
		{"neigh", "add", "10.99.0.9", "lladdr", "02:00:00:00:00:09", "dev", "hole"},
		{"-6", "neigh", "add", "fd99::9", "lladdr", "02:00:00:00:00:09", "dev", "hole"},
	} {
		if err := ip(append([]string{"-n", ns}, args...)...); err != nil {
			t.Skipf("ip %v: %v: joining past black-hole addresses was not proven", args, err)
		}
	}
	inside := whorl
	wrapper := filepath.Join(t.TempDir(), "whorl-in-namespace")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec ip netns exec "+ns+" "+inside+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	whorl = wrapper
	t.Cleanup(func() { whorl = inside })

	boot := start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	const dead = "/p2p/12D3KooWPf8GtW5eNQJJpXwjSqEZE7ZerzbFy2jzvC4BdG8MMyrv"
	n := start(t, "serve", toy, "--initial-peers", "/ip4/10.99.0.9/tcp/4001"+dead+",/ip6/fd99::9/tcp/4001"+dead+","+boot.Addrs[0],
		"--block-indices", "0:8", "--http", "off", "--admin", "off", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1")
	for _, addr := range []string{"/ip4/10.99.0.9/tcp/4001", "/ip6/fd99::9/tcp/4001"} {
		if !poll(patience, func() bool { return warnings(n.log.String(), addr) == 1 }) {
			t.Errorf("%d warnings about %s, want one with its reason", warnings(n.log.String(), addr), addr)
		}
	}
}

// warnings counts the warning lines that name an address and a reason.
func warnings(log, addr string) int {
	n := 0
	for _, l := range strings.Split(log, "\n") {
		if strings.Contains(l, "level=WARN") && strings.Contains(l, addr) && strings.Contains(l, "reason=") {
			n++
		}
	}
	return n
}

// Callers who give up at once prove nothing about servers: the next one is answered, by servers that
// nobody avoids.
func TestCallersWhoLeave(t *testing.T) {
	r := refs(t, 8)[0]
	s := spawn(t, []string{"0:4", "4:8"})
	var callers sync.WaitGroup
	for i := range 30 {
		callers.Go(func() {
			body := map[string]any{"messages": []any{map[string]any{"role": "user", "content": "hi"}}, "n": 4, "max_tokens": 1, "timeout": 0.001}
			if i%2 == 0 {
				body = map[string]any{"messages": body["messages"], "max_tokens": 50}
			}
			b, _ := json.Marshal(body)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%6)*time.Millisecond)
			if i%2 == 1 {
				ctx = t.Context() // these have the gateway give up
			}
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", s.gateway.HTTP+"/v1/chat/completions", bytes.NewReader(b))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return // the caller has left
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("a caller without time hears that servers are missing: %s", text)
			}
		})
	}
	callers.Wait()
	status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true, "return_token_ids": true})
	if status != 200 {
		t.Fatalf("the next caller: %d %+v", status, c.Error)
	}
	equal(t, "ids", c.Choices[0].TokenIDs, r.IDs[:8])
	var standings struct {
		Items []struct{ Avoid *struct{ Reason string } }
	}
	get(t, s.gateway.Admin+"/api/v1/peers/standings", &standings)
	for _, p := range standings.Items {
		if p.Avoid != nil {
			t.Errorf("a server is avoided: %s", p.Avoid.Reason)
		}
	}
}
