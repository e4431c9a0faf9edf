package client_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/swarm"
)

var manifest = swarmtest.FakeManifest

// world is a network with fake servers and one engine.
type world struct {
	net     *swarmtest.Net
	dir     *swarmtest.Directory
	servers map[swarm.PeerID]*fakeServer
	engine  *client.Engine
}

// newWorld starts servers named by "name start:end".
func newWorld(t testing.TB, change func(*client.Config), servers ...string) *world {
	t.Helper()
	w := &world{net: swarmtest.NewNet(), dir: swarmtest.NewDirectory(), servers: map[swarm.PeerID]*fakeServer{}}
	for _, s := range servers {
		name, span, _ := strings.Cut(s, " ")
		sp, err := swarm.ParseSpan(span)
		if err != nil {
			t.Fatal(err)
		}
		id := swarm.PeerID(name)
		w.servers[id] = newFakeServer(w.net, w.dir, id, manifest, sp)
		t.Cleanup(w.servers[id].node.Close)
	}
	me := w.net.Node("client")
	t.Cleanup(me.Close)
	cfg := client.DefaultConfig()
	cfg.Manifest, cfg.Vocab, cfg.MaxLength, cfg.Head = manifest, vocab, 4096, swarmtest.FakeHead{}
	cfg.Directory, cfg.Dialer, cfg.Log = w.dir.For("client"), me, slog.New(slog.DiscardHandler)
	// Of virtual time, so that no machine is too slow for them: the tests run in bubbles.
	cfg.Timeouts.Probe, cfg.Timeouts.Answer, cfg.Timeouts.Step = 200*time.Millisecond, 200*time.Millisecond, time.Second
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.engine, err = client.New(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) open(t *testing.T, o client.SessionOptions) *client.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := w.engine.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// generate runs a turn; each is called after every id with the number so far.
func generate(t *testing.T, s *client.Session, prompt []int32, n int, each func(int)) []int32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	have := 0
	r, err := s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: n, TopLogprobs: -1}, func(d client.Delta) error {
		have += len(d.IDs)
		if each != nil {
			each(have)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.IDs
}

// eventually waits for what other goroutines are about to bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not after two minutes", what)
		}
	}
}

func prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i + 3) % vocab)
	}
	return ids
}
