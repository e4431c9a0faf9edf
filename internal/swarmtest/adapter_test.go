package swarmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/internal/fixture"
	"whorl/model/lora"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
)

const adapterDir = "../../model/lora/testdata"

// serve starts a server of a span that holds adapters, and lets the client know all ids.
func (r *real) serve(w *World, id string, span swarm.Span, adapters ...string) *Server {
	r.t.Helper()
	o := blocks.Options{StepRows: 512}
	for _, name := range adapters {
		a, err := lora.Open(filepath.Join(adapterDir, name), r.ck)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { a.Close() })
		o.Adapters = append(o.Adapters, a)
	}
	l, err := blocks.NewLoader(r.ck, r.device(1), o)
	if err != nil {
		r.t.Fatal(err)
	}
	return w.Start(swarm.PeerID(id), span, server.FromBlocks(l), func(c *server.Config) { c.Memory = 4 << 30 })
}

// adapterWorld is an empty swarm for TOY, and a client of it.
func adapterWorld(t *testing.T) (*real, *World, *client.Engine) {
	t.Helper()
	r := openModel(t, toy)
	w, e := r.engine(0, 1)
	return r, w, e
}

type adaptedPrompt struct {
	IDs, New []int32
	Margins  []float64
}

// adapted are prompts and answers of the reference library with an adapter; answers end
// where float32 cannot decide.
func adapted(t *testing.T, name string) []adaptedPrompt {
	t.Helper()
	ref := fixture.JSON[struct{ Prompts []adaptedPrompt }](t, filepath.Join(adapterDir, name, "ref.json.gz"))
	if len(ref.Prompts) == 0 {
		t.Fatal("no prompts")
	}
	for i, p := range ref.Prompts {
		if at := slices.IndexFunc(p.Margins, func(m float64) bool { return m < 1e-3 }); at >= 0 {
			ref.Prompts[i].New = p.New[:at]
		}
	}
	return ref.Prompts
}

// Two servers hold two adapters. Sessions of either and of none run at the same time, each
// with the ids of the reference library; without adapter with the bits of a swarm that
// holds none.
func TestAdaptersThroughTheSwarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, e := adapterWorld(t)
		names := []string{"toy-list", "toy-regex"}
		r.serve(w, "first", swarm.Span{Start: 0, End: 5}, names...)
		r.serve(w, "second", swarm.Span{Start: 5, End: 8}, names[1], names[0]) // in another order
		_, plain := r.engine(2, 1)
		prompt := adapted(t, names[0])[3].IDs
		_, want := r.run(plain, client.SessionOptions{}, prompt, 12)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, got := r.run(e, client.SessionOptions{}, prompt, 12); got != want {
					t.Errorf("without adapter: logits hash %s, want %s", got, want)
				}
			})
		}
		for _, name := range names {
			for i, p := range adapted(t, name) {
				all.Go(func() {
					got, _ := r.run(e, client.SessionOptions{Adapter: name}, p.IDs, len(p.New))
					if !slices.Equal(got, p.New) {
						t.Errorf("%s, prompt %d: got %v, want %v", name, i, got, p.New)
					}
				})
			}
		}
		all.Wait()
	})
}

// The bits of an adapted session do not depend on layout, chunks, or on a fail-over in the
// middle of it, which only goes to holders.
func TestAdaptedFailOverKeepsBits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, e := adapterWorld(t)
		const name = "toy-regex"
		r.serve(w, "whole", swarm.Span{Start: 0, End: 8}, name)
		prompt := make([]int32, 80)
		for i := range prompt {
			prompt[i] = int32(3 + i*37%250)
		}
		ids, want := r.run(e, client.SessionOptions{Adapter: name}, prompt, 12)
		if _, base := r.run(e, client.SessionOptions{}, prompt, 12); base == want {
			t.Fatal("the adapter changes nothing")
		}
		w.Server("whole").Close()
		r.serve(w, "a", swarm.Span{Start: 0, End: 3}, name)
		for i := range 2 {
			r.serve(w, fmt.Sprint("b", i), swarm.Span{Start: 3, End: 8}, name)
		}
		r.serve(w, "without", swarm.Span{Start: 3, End: 8})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := e.Open(ctx, client.SessionOptions{MaxLength: len(prompt) + 12, Adapter: name, PrefillChunk: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		count := 0
		res, err := s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: 12, TopLogprobs: -1, IgnoreEOS: true, Hash: true}, func(d client.Delta) error {
			if before := count; before < 5 {
				if count += len(d.IDs); count >= 5 {
					w.Server(s.Route()[1].Peer).Close()
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if res.Reroutes != 1 || !slices.Equal(res.IDs, ids) || res.LogitsHash != want {
			t.Errorf("%d re-routes, ids %v, logits hash %s, want %v, %s", res.Reroutes, res.IDs, res.LogitsHash, ids, want)
		}
		if route := s.Route(); route[1].Peer != "b0" && route[1].Peer != "b1" {
			t.Errorf("the session went on to %s", route[1].Peer)
		}
	})
}

// Two different adapters of one name do not mix.
func TestNamesakesDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, e := adapterWorld(t)
		r.serve(w, "a", swarm.Span{Start: 0, End: 4}, "toy-list")
		other := filepath.Join(t.TempDir(), "toy-list") // of the same name, with another scale
		if err := os.CopyFS(other, os.DirFS(filepath.Join(adapterDir, "toy-regex"))); err != nil {
			t.Fatal(err)
		}
		a, err := lora.Open(other, r.ck)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		l, err := blocks.NewLoader(r.ck, r.device(1), blocks.Options{StepRows: 512, Adapters: []*lora.Adapter{a}})
		if err != nil {
			t.Fatal(err)
		}
		w.Start("namesake", swarm.Span{Start: 4, End: 8}, server.FromBlocks(l), func(c *server.Config) { c.Memory = 4 << 30 })
		open := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			s, err := e.Open(ctx, client.SessionOptions{MaxLength: 16, Adapter: "toy-list"})
			if err == nil {
				s.Close()
			}
			return err
		}
		if err := open(200 * time.Millisecond); swarm.CodeOf(err) != swarm.CodeBlocksMissing {
			t.Errorf("halves of two adapters: %v", err)
		}
		r.serve(w, "b", swarm.Span{Start: 4, End: 8}, "toy-list")
		if err := open(time.Minute); err != nil {
			t.Errorf("both halves: %v", err)
		}
	})
}
