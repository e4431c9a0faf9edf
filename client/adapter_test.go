package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/swarm"
)

// announce lets a server say that it holds adapters.
func (w *world) announce(t *testing.T, peer swarm.PeerID, adapters ...swarm.Adapter) {
	t.Helper()
	view, err := w.dir.For("client").View(t.Context(), manifest.UID())
	if err != nil {
		t.Fatal(err)
	}
	r, ok := view.Server(peer)
	if !ok {
		t.Fatalf("no record of %s", peer)
	}
	r.Adapters = adapters
	if err := w.dir.For(peer).Announce(t.Context(), *r); err != nil {
		t.Fatal(err)
	}
}

// opened lists the adapters that a server's sessions were opened with.
func (s *fakeServer) opened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, x := range s.sessions {
		if x.open.Adapter != nil {
			out = append(out, x.open.Adapter.Name+" "+x.open.Adapter.Digest)
		} else {
			out = append(out, "none")
		}
	}
	return out
}

// A session with an adapter goes over its holders only, of one digest, whatever else would
// be quicker, and every stage is told.
func TestAdapterChoosesRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 3:6", "other 3:6", "whole 0:6")
		poems := swarm.Adapter{Name: "poems", Digest: "d1"}
		w.announce(t, "a", poems)
		w.announce(t, "b", swarm.Adapter{Name: "prose", Digest: "p"}, poems)
		w.announce(t, "other", swarm.Adapter{Name: "poems", Digest: "d2"})

		s := w.open(t, client.SessionOptions{MaxLength: 64, Adapter: "poems"})
		if route := s.Route(); len(route) != 2 || route[0].Peer != "a" || route[1].Peer != "b" {
			t.Errorf("route %v, want a and b", route)
		}
		for _, p := range []swarm.PeerID{"a", "b"} {
			if got := w.servers[p].opened(); len(got) != 1 || got[0] != "poems d1" {
				t.Errorf("server %s was opened with %v", p, got)
			}
		}
		plain := w.open(t, client.SessionOptions{MaxLength: 64})
		if route := plain.Route(); len(route) != 1 || route[0].Peer != "whole" {
			t.Errorf("route without an adapter %v, want the server of all blocks", route)
		}
		if got := w.servers["whole"].opened(); len(got) != 1 || got[0] != "none" {
			t.Errorf("the server of all blocks was opened with %v", got)
		}
	})
}

// When a holder dies, only another holder of the same adapter can take its place.
func TestAdapterFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := func(c *client.Config) { c.Timeouts.Recover = 300 * time.Millisecond }
		w := newWorld(t, short, "a 0:3", "b 3:6", "c 3:6", "namesake 3:6", "whole 0:6")
		poems := swarm.Adapter{Name: "poems", Digest: "d1"}
		w.announce(t, "a", poems)
		w.announce(t, "b", poems)
		w.announce(t, "c", poems)
		w.announce(t, "namesake", swarm.Adapter{Name: "poems", Digest: "d2"})
		s := w.open(t, client.SessionOptions{MaxLength: 64, Adapter: "poems"})
		generate(t, s, prompt(5), 2, nil)
		first := s.Route()[1].Peer
		w.servers[first].node.Close()
		generate(t, s, nil, 2, nil)
		second := s.Route()[1].Peer
		if both := first + second; both != "bc" && both != "cb" {
			t.Errorf("%s took over from %s", second, first)
		}
		w.servers[second].node.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.Generate(ctx, client.Request{MaxNewTokens: 1, TopLogprobs: -1}, func(client.Delta) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "adapter poems") && swarm.CodeOf(err) != swarm.CodePeerLost {
			t.Errorf("without holders: %v", err)
		}
	})
}

func TestUnknownAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:6")
		w.announce(t, "a", swarm.Adapter{Name: "prose", Digest: "p"}, swarm.Adapter{Name: "songs", Digest: "s"})
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 64, Adapter: "poems"})
		if e := swarm.AsError(err); e.Code != swarm.CodeNotServed || e.Verdict != swarm.Caller ||
			!strings.Contains(e.Message, `the adapter "poems"`) || !strings.Contains(e.Message, `["prose" "songs"]`) {
			t.Errorf("%v (%s, %s)", err, e.Code, e.Verdict)
		}
	})
}

// However many there are, an error lists a few.
func TestUnknownAdapterOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:6")
		var many []swarm.Adapter
		for i := range 40 {
			many = append(many, swarm.Adapter{Name: fmt.Sprintf("n%02d", i), Digest: "d"})
		}
		w.announce(t, "a", many...)
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 64, Adapter: "poems"})
		if !strings.Contains(err.Error(), `"n15"] and 24 more`) || strings.Contains(err.Error(), "n16") {
			t.Error(err)
		}
	})
}

// What is missing is named together with the adapter.
func TestAdapterWithoutAllBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := func(c *client.Config) { c.Timeouts.First = 100 * time.Millisecond }
		w := newWorld(t, short, "a 0:3", "whole 0:6")
		w.announce(t, "a", swarm.Adapter{Name: "poems", Digest: "d"})
		_, err := w.engine.Open(t.Context(), client.SessionOptions{MaxLength: 64, Adapter: "poems"})
		if e := swarm.AsError(err); e.Code != swarm.CodeBlocksMissing || !strings.Contains(e.Message, "only servers that hold the adapter poems count") || len(e.Missing) != 1 {
			t.Errorf("%v (%s, missing %v)", err, e.Code, e.Missing)
		}
	})
}
