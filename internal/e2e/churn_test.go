//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Two models in one swarm, eight chats at a time, and servers that are killed, frozen, ended
// and started all the while: every answer is the right one, and nothing is left behind.
func TestComeAndGo(t *testing.T) {
	const steps = 40
	all := refs(t, steps)[:8]
	s := spawn(t, []string{"0:4", "4:8", "0:4", "4:8"})
	other := &swarm{bootstrap: s.bootstrap}
	second := []string{"--quant", "q8_0", "--model-name", "second"}
	other.servers = []*node{start(t, other.serverArgs("0:8", second...)...)}
	other.gateway = start(t, append([]string{"gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0"}, second...)...)
	var quantised struct{ IDs []int32 }
	lastJSON(t, run(t, "", "generate", toy, "--local", "--quant", "q8_0", "--ids", idList(all[0].PromptIDs), "--max-new-tokens", strconv.Itoa(steps), "--ignore-eos", "--json"), &quantised)

	nodes := append([]*node{s.gateway, other.gateway}, other.servers...)
	ask := func(s *swarm, prompt string, want []int32) bool {
		status, c := s.post(t, map[string]any{"prompt": prompt, "max_tokens": steps, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
		if status != 200 || len(c.Choices) != 1 {
			t.Errorf("status %d: %+v", status, c.Error)
			return false
		}
		equal(t, prompt, c.Choices[0].TokenIDs, want)
		return !t.Failed()
	}
	ask(s, all[0].Prompt, all[0].IDs[:steps])
	ask(other, all[0].Prompt, quantised.IDs)
	before := make([]float64, len(nodes))
	for i, n := range nodes {
		before[i] = n.metric(t, "go_goroutines")
	}

	var over atomic.Bool
	var answers atomic.Int64
	var chats sync.WaitGroup
	chat := func(s *swarm, prompt string, want []int32) {
		chats.Go(func() {
			for !over.Load() && ask(s, prompt, want) {
				answers.Add(1)
			}
		})
	}
	for _, r := range all {
		chat(s, r.Prompt, r.IDs[:steps])
	}
	chat(other, all[0].Prompt, quantised.IDs)
	s.comeAndGo(t, &answers)
	over.Store(true)
	chats.Wait()
	t.Logf("%d answers", answers.Load())

	for _, n := range append(s.servers, other.servers...) {
		if !poll(patience, func() bool { return n.sessions(t) == 0 && n.metric(t, "whorl_server_cache_used_tokens") == 0 }) {
			t.Errorf("%d sessions and cache are left:\n%s", n.sessions(t), n.log)
		}
	}
	for i, n := range nodes {
		var now float64
		if !poll(patience, func() bool { now = n.metric(t, "go_goroutines"); return now <= before[i]+40 }) {
			t.Errorf("node %d: %v goroutines, %v before", i, now, before[i])
		}
	}
}

// comeAndGo kills, ends or freezes one server after the other, never both of a span, while
// chats go on, and lets it come back.
func (s *swarm) comeAndGo(t *testing.T, answers *atomic.Int64) {
	t.Helper()
	for round, span := range []string{"0:4", "4:8", "0:4", "4:8", "0:4", "4:8"} {
		i := round % 4
		n := s.servers[i]
		poll(5*time.Second, func() bool { return n.sessions(t) > 0 || t.Failed() })
		switch round % 3 {
		case 0:
			n.kill()
		case 1:
			n.signal(syscall.SIGTERM)
			select {
			case <-n.done:
			case <-time.After(patience):
				t.Error("it does not end")
			}
		case 2:
			n.signal(syscall.SIGSTOP)
			s.served(t, answers)
			n.signal(syscall.SIGCONT)
		}
		s.served(t, answers)
		if round%3 != 2 {
			s.servers[i] = start(t, s.serverArgs(span)...)
		}
		s.served(t, answers)
	}
}

// served waits for answers that were begun after now: of eight chats, one at least.
func (s *swarm) served(t *testing.T, answers *atomic.Int64) {
	t.Helper()
	from := answers.Load()
	if !poll(patience, func() bool { return answers.Load() >= from+10 || t.Failed() }) {
		t.Errorf("%d answers in %v", answers.Load()-from, patience)
	}
}

// metric is the value of a metric without labels.
func (n *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := http.Get(n.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		var v float64
		if rest, ok := strings.CutPrefix(sc.Text(), name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
