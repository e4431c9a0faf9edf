package dir

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/p2p"
)

var model = swarm.Manifest{Name: "tiny", Blocks: 4, Hidden: 8,
	Class: swarm.Class{ConfigHash: "h", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "exact1"},
	Roots: make(swarm.Roots, 4), Head: content.Sum([]byte("head"))}

func record(span swarm.Span, state swarm.State) swarm.Record {
	return swarm.Record{
		UID: model.UID(), Manifest: model, Span: span, State: state,
		Version: "test", CacheTotal: 9, CacheLeft: 9,
	}
}

func newHost(t *testing.T, cfg p2p.Config) *p2p.Host {
	t.Helper()
	if cfg.HostMaddrs == nil {
		cfg.HostMaddrs = []string{"/ip4/127.0.0.1/tcp/0"}
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	h, err := p2p.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// node is one of a swarm on loopback.
type node struct {
	*Directory
	host *p2p.Host
	stop func() error // what Run returned
	log  *lines
}

// lines takes log lines from several goroutines and wakes who waits for one.
type lines struct {
	mu   sync.Mutex // guards all below
	text strings.Builder
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait blocks until a line holds the text.
func (l *lines) wait(t *testing.T, text string) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		found, more := strings.Contains(l.text.String(), text), l.more
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no line with %q in:\n%s", text, l)
		}
	}
}

// patience is how long a test waits for what takes milliseconds on a quiet machine.
const patience = time.Minute

func quick(bootstrap []string) Config {
	c := DefaultConfig()
	c.Bootstrap, c.Refresh, c.Lonely = bootstrap, 50*time.Millisecond, 100*time.Millisecond
	c.Log = slog.New(slog.DiscardHandler)
	return c
}

// start runs a node; it ends with the test at the latest.
func start(t *testing.T, h *p2p.Host, cfg Config) *node {
	t.Helper()
	l := &lines{more: make(chan struct{})}
	cfg.Log = slog.New(slog.NewTextHandler(l, nil))
	d, err := New(h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		if err != nil {
			cfg.Log.Error("Run ended", "reason", err)
		}
		done <- err
	}()
	n := &node{Directory: d, host: h, log: l, stop: sync.OnceValue(func() error {
		cancel()
		err := <-done
		d.Close()
		h.Close()
		return err
	})}
	t.Cleanup(func() { n.stop() })
	return n
}

func join(t *testing.T, boot *node) *node {
	t.Helper()
	return start(t, newHost(t, p2p.Config{}), quick(boot.host.Addrs()))
}

func (n *node) announce(t *testing.T, start, end int, s swarm.State) {
	t.Helper()
	if err := n.Announce(t.Context(), record(swarm.Span{Start: start, End: end}, s)); err != nil {
		t.Fatal(err)
	}
}

// until waits for a view that satisfies the condition.
func (n *node) until(t *testing.T, what string, cond func(swarm.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		changed := n.Changed()
		v, err := n.View(ctx, model.UID())
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, n.log)
		}
		if cond(v) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: still %d servers, missing %v\n%s", what, len(v.Servers), v.Missing(), n.log)
		}
	}
}

func servers(n int) func(swarm.View) bool {
	return func(v swarm.View) bool { return len(v.Servers) == n }
}

func whole(v swarm.View) bool { return len(v.Missing()) == 0 && v.Manifest.Blocks == 4 }
