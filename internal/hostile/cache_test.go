package hostile

import (
	"context"
	"sync"
	"testing"
	"time"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/server"
	"whorl/swarm"
)

// onlooker is a directory that its user cannot change: a stranger finds the servers that
// the gateway sees, and what it suspects is nothing to the gateway.
type onlooker struct{ client.Directory }

func (onlooker) Suspect(swarm.PeerID) {}

// engineOf is a client on a stranger's host, which finds the servers that the gateway sees.
func (w *World) engineOf(s *Stranger) *client.Engine {
	w.t.Helper()
	for _, n := range w.Servers {
		s.Host.AddAddrs(n.Host.ID(), n.Host.ListenAddrs())
	}
	cfg := client.DefaultConfig()
	cfg.Manifest, cfg.Vocab, cfg.MaxLength, cfg.Head = swarmtest.FakeManifest, swarmtest.FakeVocab, 4096, swarmtest.FakeHead{}
	cfg.Directory, cfg.Dialer, cfg.Log = onlooker{w.Gateway.Dir}, s.Host, w.log.With("node", "stranger")
	cfg.Timeouts.Backoff = time.Second // hundreds that are refused share this machine's cores with their victims
	e, err := client.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// Strangers that take every place, or all cache with long waits, commit and send nothing,
// keep no user out, who has the text of always.
func TestCacheHeldForNothing(t *testing.T) {
	for _, c := range []struct {
		name             string
		strangers, opens int
		length           int
		wait             time.Duration
	}{
		{"64 sessions of a token each", 4, 64, 1, 0},
		{"two opens of half the cache, with long waits", 2, 2, 512, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := New(t, Options{Server: func(s *server.Config) {
				s.CacheToken, s.MaxSessions = 1024, 64
				s.Timeouts.Service = 200 * time.Millisecond
			}})
			ctx, stop := context.WithCancel(t.Context())
			var opens sync.WaitGroup
			for range c.strangers {
				e := w.engineOf(w.Stranger(""))
				for range c.opens {
					opens.Go(func() {
						for ctx.Err() == nil {
							if s, err := e.Open(ctx, client.SessionOptions{MaxLength: c.length, Wait: c.wait}); err == nil {
								<-ctx.Done()
								s.Close()
							}
						}
					})
				}
			}
			w.Await("strangers hold the cache", func() bool {
				return w.Servers[0].Server.Status().Cache.LeftTokens == 0
			})
			n := w.Honest(func() { <-time.After(time.Second) })
			stop()
			opens.Wait()
			t.Logf("%d honest answers beside %d strangers", n, c.strangers)
		})
	}
}
