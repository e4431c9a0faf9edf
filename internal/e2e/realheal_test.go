//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Four servers of a small real model; the only holder of its second half is killed while three streams, each through
// another of the rest, are in the middle of their answers. One of them moves there by itself, with the stream that it serves; the dashboard shows the
// hole, the intent and the healing; and every stream goes on with the ids of one machine.
func TestRealModelHeals(t *testing.T) {
	if _, err := os.Stat(smol); err != nil {
		t.Skip("not proven: a real model moves while it generates: run scripts/get-model.sh")
	}
	const steps = 48
	s := &swarm{bootstrap: start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")}
	common := []string{"serve", smol, "--initial-peers", s.peers(), "--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--update-period", "1s",
		"--attn-cache-tokens", "4096", "--memory", "2GiB", "--threads", "1"}
	with := func(more ...string) []string { return append(slices.Clone(common), more...) }
	victim := start(t, with("--block-indices", "15:30", "--throughput", "3000")...)
	for range 3 {
		s.servers = append(s.servers, start(t, with("--num-blocks", "15", "--throughput", "1000", "--mean-block-selection-delay", "1", "--mean-balance-check-period", "10")...))
	}
	for i, n := range s.servers {
		if held, _ := n.span(t); held != "0:15" {
			t.Fatalf("server %d chose %q", i, held)
		}
	}
	s.gateway = start(t, "gateway", smol, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")

	const prompt = "The capital of France is"
	var sockets []*socket
	for range 9 { // until each server has a stream
		sockets = append(sockets, s.open(t, 256))
		k := sockets[len(sockets)-1]
		if _, _, last := k.generate(map[string]any{"inputs": prompt, "max_new_tokens": 1, "stream": true, "ignore_eos": true}, nil); !last.OK {
			t.Fatalf("%+v", last)
		}
		if !slices.ContainsFunc(s.servers, func(n *node) bool { return n.sessions(t) == 0 }) {
			break
		}
	}
	for i, n := range s.servers {
		if n.sessions(t) == 0 {
			t.Fatalf("server %d has no stream", i)
		}
	}
	var want struct{ IDs []int32 }
	lastJSON(t, run(t, "", "generate", smol, "--local", "--prompt", prompt, "--max-new-tokens", strconv.Itoa(steps+1), "--ignore-eos", "--json"), &want)
	var begun sync.WaitGroup
	var died atomic.Int64
	begun.Add(len(sockets))
	var turns sync.WaitGroup
	for i, k := range sockets {
		turns.Go(func() {
			var once sync.Once
			defer once.Do(begun.Done)
			ids, _, last := k.generate(map[string]any{"max_new_tokens": steps, "stream": true, "ignore_eos": true}, func(n int) {
				if n >= 3 {
					once.Do(begun.Done)
					begun.Wait() // all streams are in the middle of an answer
				}
				if n >= 6 && died.CompareAndSwap(0, time.Now().UnixNano()) {
					victim.kill()
				}
			})
			if !last.OK {
				t.Errorf("stream %d: %+v", i, last)
				return
			}
			equal(t, "a stream", ids, want.IDs[1:])
		})
	}
	var moved time.Duration
	ok := poll(patience, func() bool {
		if died.Load() == 0 {
			return false
		}
		moved = time.Since(time.Unix(0, died.Load()))
		return slices.ContainsFunc(s.servers, func(n *node) bool { held, _ := n.span(t); return held == "15:30" })
	})
	if t.Logf("%d streams; moved after %v", len(sockets), moved.Round(100*time.Millisecond)); !ok {
		t.Error("nobody moved")
	}
	turns.Wait()
	var events string
	told := poll(patience, func() bool {
		events = page(t, s.gateway.HTTP+"/events")
		return strings.Contains(events, "whole again after")
	})
	for _, want := range []string{"blocks 15-29 are missing", "means to move from blocks 0-14", "moved from 0:15 to blocks 15-29"} {
		if !told || !strings.Contains(events, want) {
			t.Errorf("the dashboard does not tell %q, or not that it is whole again", want)
		}
	}
}
