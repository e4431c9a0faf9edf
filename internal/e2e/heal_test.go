//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// chooser starts a server of four blocks that chooses them itself.
func (s *swarm) chooser(t *testing.T, throughput int) *node {
	t.Helper()
	return start(t, "serve", toy, "--initial-peers", s.peers(), "--num-blocks", "4", "--mean-block-selection-delay", "1", "--mean-balance-check-period", "5",
		"--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", strconv.Itoa(throughput), "--update-period", "1s")
}

// span is what a server holds and where it means to go.
func (n *node) span(t *testing.T) (held, next string) {
	t.Helper()
	var status struct {
		State string
		Span  struct{ Start, End int }
		Next  *struct {
			Span struct{ Start, End int }
		}
	}
	get(t, n.Admin+"/api/v1/node", &status)
	if status.Next != nil {
		next = strconv.Itoa(status.Next.Span.Start) + ":" + strconv.Itoa(status.Next.Span.End)
	}
	if status.State != "online" {
		return "", next
	}
	return strconv.Itoa(status.Span.Start) + ":" + strconv.Itoa(status.Span.End), next
}

func page(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Four servers; the only holder of the second half is killed. One of the others, which all serve
// sessions, moves there by itself, long before its next check. The sessions go on as on one
// machine, and the dashboard tells of the hole, the intent and the healing.
func TestHoleHealsByItself(t *testing.T) {
	all := refs(t, 8)
	s := spawn(t, nil)
	victim := start(t, s.serverArgs("4:8", "--throughput", "3000")...)
	for range 3 {
		s.servers = append(s.servers, s.chooser(t, 1000))
	}
	for i, n := range s.servers {
		if held, _ := n.span(t); held != "0:4" {
			t.Fatalf("server %d chose %q", i, held)
		}
	}
	var sockets []*socket
	for _, r := range all[:6] {
		k := s.open(t, 128)
		ids, _, last := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": 10, "stream": true, "ignore_eos": true}, nil)
		if !last.OK {
			t.Fatalf("%+v", last)
		}
		equal(t, "before", ids, r.IDs[:10])
		sockets = append(sockets, k)
	}
	victim.kill()
	died := time.Now()
	var turns sync.WaitGroup
	for i, k := range sockets {
		turns.Go(func() {
			ids, _, last := k.generate(map[string]any{"inputs": " and", "max_new_tokens": len(all[i].After), "stream": true, "ignore_eos": true}, nil)
			if !last.OK {
				t.Errorf("socket %d: %+v", i, last)
				return
			}
			equal(t, "after", ids, all[i].After)
		})
	}
	moved := poll(patience, func() bool {
		return slices.ContainsFunc(s.servers, func(n *node) bool { held, _ := n.span(t); return held == "4:8" })
	})
	t.Logf("moved after %v", time.Since(died))
	if !moved {
		t.Error("nobody moved")
	}
	turns.Wait()
	holders := 0
	for _, n := range s.servers {
		if held, _ := n.span(t); held == "0:4" {
			holders++
		}
	}
	if holders != 2 {
		t.Errorf("%d servers stay at 0:4", holders)
	}
	var events string
	told := poll(patience, func() bool {
		events = page(t, s.gateway.HTTP+"/events")
		return strings.Contains(events, "whole again after")
	})
	for _, want := range []string{"blocks 4-7 are missing", "means to move from blocks 0-3", "moved from 0:4 to blocks 4-7"} {
		if !told || !strings.Contains(events, want) {
			t.Errorf("the dashboard does not tell %q, or not that it is whole again", want)
		}
	}
}

// A server ends by SIGTERM while eight streams run through it and another holds its blocks: no
// reader sees an error or another token, and no session is lost and made anew. That no pause is felt is shown in virtual
// time (internal/swarmtest TestStoppedServerHandsOver); here the longest is told.
func TestTerminateUnderEightStreams(t *testing.T) {
	const steps = 200
	all := refs(t, 8)[:8]
	s := spawn(t, []string{"0:4", "4:8"})
	want := make([][]int32, len(all))
	for i, r := range all {
		var local struct{ IDs []int32 }
		lastJSON(t, run(t, "", "generate", toy, "--local", "--ids", idList(r.PromptIDs), "--max-new-tokens", strconv.Itoa(steps), "--ignore-eos", "--json"), &local)
		want[i] = local.IDs
	}
	leaver := s.servers[1]
	var mu sync.Mutex // guards all below
	var told time.Time
	var before, after time.Duration
	var over atomic.Bool
	var turns atomic.Int64
	var readers sync.WaitGroup
	for i, r := range all {
		readers.Go(func() {
			for !over.Load() && !t.Failed() {
				k, last := s.open(t, 256), time.Time{}
				ids, _, end := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": steps, "stream": true, "ignore_eos": true}, func(int) {
					now := time.Now()
					mu.Lock()
					defer mu.Unlock()
					switch gap := now.Sub(last); {
					case last.IsZero():
					case told.IsZero():
						before = max(before, gap)
					default:
						after = max(after, gap)
					}
					last = now
				})
				k.c.Close()
				if !end.OK {
					t.Errorf("reader %d: %+v", i, end)
					return
				}
				equal(t, r.Prompt, ids, want[i])
				turns.Add(1)
			}
		})
	}
	start(t, s.serverArgs("4:8")...)
	for round := turns.Load(); turns.Load() < round+16 && !t.Failed(); {
		<-time.After(10 * time.Millisecond)
	}
	if !poll(patience, func() bool { return leaver.sessions(t) >= 2 }) {
		t.Error("nobody reads through the server that is to leave")
	}
	lost := reroutes(t, s)
	mu.Lock()
	told = time.Now()
	mu.Unlock()
	leaver.signal(syscall.SIGTERM)
	<-leaver.done
	ended, round := time.Since(told), turns.Load()
	for turns.Load() < round+16 && !t.Failed() {
		<-time.After(10 * time.Millisecond)
	}
	over.Store(true)
	readers.Wait()
	t.Logf("gone after %v; longest pause %v before, %v after; %d answers", ended, before, after, turns.Load())
	if n := reroutes(t, s) - lost; n > 0 {
		t.Errorf("%v sessions were lost with the server instead of handed over", n)
	}
}
