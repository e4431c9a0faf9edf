package hostile

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/client"
	"whorl/internal/swarmtest"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/dir"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// Options change the nodes of a World before they start.
type Options struct {
	Spans  []swarm.Span         // of the servers; nil for two halves of the model
	Host   func(*p2p.Config)    // of every honest node
	Dir    func(*dir.Config)    // of every honest node
	Server func(*server.Config) // of every server
	Client func(*client.Config) // of the gateway
}

// World is an honest swarm on loopback: a bootstrap, servers, and a gateway's engine.
type World struct {
	t         testing.TB
	opt       Options
	log       *slog.Logger
	Bootstrap *Node
	Servers   []*Node
	Gateway   *Node
	Engine    *client.Engine
}

// Node is an honest node.
type Node struct {
	Host    *p2p.Host
	Dir     *dir.Directory
	Server  *server.Server // nil unless it holds blocks
	Metrics *prometheus.Registry
	Stop    func() // ends it before the test does
}

// New starts an honest swarm; it ends with the test. WHORL_TEST_LOG=1 shows what the nodes
// log.
func New(t testing.TB, opt Options) *World {
	t.Helper()
	w := &World{t: t, opt: opt, log: slog.New(slog.DiscardHandler)}
	if os.Getenv("WHORL_TEST_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if opt.Spans == nil {
		half := swarmtest.FakeBlocks / 2
		w.opt.Spans = []swarm.Span{{Start: 0, End: half}, {Start: half, End: swarmtest.FakeBlocks}}
	}
	w.Bootstrap = w.Node("bootstrap", nil)
	for _, span := range w.opt.Spans {
		w.Servers = append(w.Servers, w.Serve(span))
	}
	w.Gateway = w.Node("gateway", w.Bootstrap.Host.Addrs())
	cfg := client.DefaultConfig()
	cfg.Manifest, cfg.Vocab, cfg.MaxLength, cfg.Head = swarmtest.FakeManifest, swarmtest.FakeVocab, 4096, swarmtest.FakeHead{}
	cfg.Directory, cfg.Dialer, cfg.Log, cfg.Verify = w.Gateway.Dir, w.Gateway.Host, w.log.With("node", "gateway"), p2p.Verify
	if opt.Client != nil {
		opt.Client(&cfg)
	}
	var err error
	if w.Engine, err = client.New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, n := range w.Nodes() { // a test may begin by looking at any of them
		w.Await("every node sees the servers", func() bool { return w.Seen(n) >= len(w.Servers) })
	}
	return w
}

// Node starts an honest node that joins through the given addresses; nil founds the swarm.
func (w *World) Node(name string, bootstrap []string) *Node {
	w.t.Helper()
	n := &Node{Metrics: prometheus.NewRegistry()}
	hc := p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Registerer: n.Metrics, Log: w.log.With("node", name)}
	if w.opt.Host != nil {
		w.opt.Host(&hc)
	}
	var err error
	if n.Host, err = p2p.New(hc); err != nil {
		w.t.Fatal(err)
	}
	dc := dir.DefaultConfig()
	dc.Bootstrap, dc.Refresh, dc.Lonely = bootstrap, 100*time.Millisecond, time.Second
	dc.Registerer, dc.Log = n.Metrics, w.log.With("node", name)
	if w.opt.Dir != nil {
		w.opt.Dir(&dc)
	}
	if n.Dir, err = dir.New(n.Host, dc); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Dir.Run(ctx) }()
	n.Stop = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Errorf("node %s: %v", name, err)
		}
		n.Dir.Close()
		n.Host.Close()
	})
	w.t.Cleanup(n.Stop)
	return n
}

// Serve starts a server and waits until it is online.
func (w *World) Serve(span swarm.Span) *Node {
	w.t.Helper()
	n := w.Node("server "+span.String(), w.Bootstrap.Host.Addrs())
	cfg := server.DefaultConfig()
	cfg.Manifest, cfg.Span, cfg.Memory, cfg.Spare = swarmtest.FakeManifest, &span, 1<<30, 0
	cfg.Measuring, cfg.Throughput, cfg.Balance.Settle, cfg.CacheToken = server.MeasureNever, 1000, 0, 4096
	cfg.Timeouts.Drain, cfg.Timeouts.Update = 100*time.Millisecond, time.Second
	if w.opt.Server != nil {
		w.opt.Server(&cfg)
	}
	srv, err := server.New(cfg, server.Deps{
		Self: n.Host.ID(), Loader: swarmtest.FakeLoader{}, Directory: n.Dir, Dialer: n.Host, Pinger: n.Host, Signer: n.Host,
		Addrs: n.Host.ListenAddrs, Metrics: n.Metrics, Log: w.log.With("node", span.String()),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Server = srv
	n.Host.Handle(wire.ProtoSession, srv.ServeSession)
	n.Host.Handle(wire.ProtoPush, srv.ServePush)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Errorf("server %v: %v", span, err)
		}
	})
	select {
	case <-srv.Ready():
	case err := <-done:
		w.t.Fatalf("server %v: %v", span, err)
	case <-time.After(patience):
		w.t.Fatalf("server %v is not online after %v", span, patience)
	}
	return n
}

// Nodes are all honest nodes.
func (w *World) Nodes() []*Node {
	return slices.Concat([]*Node{w.Bootstrap}, w.Servers, []*Node{w.Gateway})
}

// Seen counts the servers of the model that a node sees.
func (w *World) Seen(n *Node) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v, err := n.Dir.View(ctx, swarmtest.FakeManifest.UID())
	if err != nil {
		return 0
	}
	return len(v.Servers)
}

// patience bounds waits for what takes moments on a quiet machine.
const patience = 2 * time.Minute

// Await waits until something is so, for two minutes at most.
func (w *World) Await(what string, is func() bool) {
	w.t.Helper()
	late := time.Now().Add(patience)
	for !is() {
		if time.Now().After(late) {
			w.t.Fatalf("after %v it is still not so that %s", patience, what)
		}
		<-time.After(10 * time.Millisecond) // real nodes: there is nothing else to wait for
	}
}

// Ask has the gateway generate n tokens and compares them with those that one place computes.
func (w *World) Ask(prompt []int32, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := w.Engine.Open(ctx, client.SessionOptions{MaxLength: len(prompt) + n})
	if err != nil {
		return err
	}
	defer s.Close()
	res, err := s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: n, TopLogprobs: -1, IgnoreEOS: true}, nil)
	if err != nil {
		return err
	}
	if want := swarmtest.FakeGreedy(prompt, n); !slices.Equal(res.IDs, want) {
		return &otherText{res.IDs, want}
	}
	return nil
}

type otherText struct{ got, want []int32 }

func (e *otherText) Error() string {
	return "the text changed: " + sprint(e.got) + ", want " + sprint(e.want)
}

// Honest lets users generate, one after the other, while an attack runs, and fails the test
// for every answer that does not come or has another text. It returns how many came.
func (w *World) Honest(attack func()) int {
	w.t.Helper()
	var over atomic.Bool
	var wg sync.WaitGroup
	count := 0
	wg.Go(func() {
		for i := 0; !over.Load() || i == 0; i++ {
			if err := w.Ask([]int32{int32(i%20) + 1, 7, 3, 11}, 12); err != nil {
				w.t.Errorf("honest user %d: %v", i, err)
				return
			}
			count++
			<-time.After(5 * time.Millisecond) // a user reads
		}
	})
	func() {
		defer wg.Wait() // also if the attack gives the test up
		defer over.Store(true)
		attack()
	}()
	return count
}
