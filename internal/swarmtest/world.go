package swarmtest

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// World is a swarm in one process.
type World struct {
	t        testing.TB
	Net      *Net
	Dir      *Directory
	Manifest swarm.Manifest
	Log      *slog.Logger
	// Dialer, if set, stands between a server and the network.
	Dialer  func(id swarm.PeerID, d server.Dialer) server.Dialer
	servers map[swarm.PeerID]*Server
}

// Server is a real server on an in-memory node.
type Server struct {
	*Node
	*server.Server
	stop context.CancelFunc
	done chan error
}

// NewWorld makes an empty swarm for a model. WHORL_TEST_LOG=1 shows what the nodes log.
func NewWorld(t testing.TB, m swarm.Manifest) *World {
	w := &World{t: t, Net: NewNet(), Dir: NewDirectory(), Manifest: m, Log: slog.New(slog.DiscardHandler), servers: map[swarm.PeerID]*Server{}}
	if os.Getenv("WHORL_TEST_LOG") != "" {
		w.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return w
}

// Start starts a server with a span and returns when it is online; it ends with the test.
// change may adjust its configuration.
func (w *World) Start(id swarm.PeerID, span swarm.Span, l server.Loader, change func(*server.Config)) *Server {
	w.t.Helper()
	s := w.Launch(id, span, l, change)
	select {
	case <-s.Ready():
	case err := <-s.done:
		w.t.Fatalf("server %s: %v", id, err)
	case <-time.After(30 * time.Second):
		w.t.Fatalf("server %s is not online after 30 s", id)
	}
	return s
}

// Launch starts a server without waiting.
func (w *World) Launch(id swarm.PeerID, span swarm.Span, l server.Loader, change func(*server.Config)) *Server {
	w.t.Helper()
	node := w.Net.Node(id)
	cfg := server.DefaultConfig()
	cfg.Manifest, cfg.Span, cfg.Memory, cfg.Spare = w.Manifest, &span, 1<<30, 0
	cfg.Measuring, cfg.Throughput, cfg.Balance.Settle, cfg.CacheToken = server.MeasureNever, 1000, 0, 4096
	cfg.Timeouts.Drain = 100 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	var dialer server.Dialer = node
	if w.Dialer != nil {
		dialer = w.Dialer(id, node)
	}
	srv, err := server.New(cfg, server.Deps{Self: id, Loader: l, Directory: w.Dir.For(id), Dialer: dialer, Signer: Signer(id), Log: w.Log.With("node", id)})
	if err != nil {
		w.t.Fatal(err)
	}
	node.Handle(wire.ProtoSession, srv.ServeSession)
	node.Handle(wire.ProtoPush, srv.ServePush)
	node.Handle(wire.ProtoPass, srv.ServePass)
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{Node: node, Server: srv, stop: stop, done: make(chan error, 1)}
	var once sync.Once
	go func() { s.done <- srv.Run(ctx) }()
	w.t.Cleanup(func() {
		once.Do(func() {
			node.Close()
			stop()
			select {
			case err := <-s.done:
				if err != nil {
					w.t.Errorf("server %s: %v", id, err)
				}
			case <-time.After(20 * time.Second):
				w.t.Errorf("server %s does not end", id)
			}
		})
	})
	w.servers[id] = s
	return s
}

// Server finds a server by its peer.
func (w *World) Server(id swarm.PeerID) *Server { return w.servers[id] }

// Engine makes a client; change may adjust its configuration.
func (w *World) Engine(head client.Head, vocab int, change func(*client.Config)) *client.Engine {
	w.t.Helper()
	return w.EngineAt("client", head, vocab, change)
}

// EngineAt makes a client with a peer id of its own.
func (w *World) EngineAt(id swarm.PeerID, head client.Head, vocab int, change func(*client.Config)) *client.Engine {
	w.t.Helper()
	me := w.Net.Node(id)
	w.t.Cleanup(me.Close)
	cfg := client.DefaultConfig()
	cfg.Manifest, cfg.Vocab, cfg.MaxLength, cfg.Head = w.Manifest, vocab, 4096, head
	cfg.Directory, cfg.Dialer, cfg.Log, cfg.Verify = w.Dir.For(id), me, w.Log.With("node", id), Verify
	cfg.Timeouts.Probe, cfg.Timeouts.Answer = 500*time.Millisecond, 500*time.Millisecond
	if change != nil {
		change(&cfg)
	}
	e, err := client.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}
