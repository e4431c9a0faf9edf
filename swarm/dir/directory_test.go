package dir

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

var model = swarm.Manifest{Name: "tiny", Blocks: 4, Hidden: 8,
	Class: swarm.Class{ConfigHash: "h", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "cpu1"}}

func record(span swarm.Span, state swarm.State) swarm.Record {
	return swarm.Record{
		Manifest: model, Span: span, State: state, Digests: slices.Repeat([]string{"digest"}, span.Len()),
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
const patience = 20 * time.Second

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
	go func() { done <- d.Run(ctx) }()
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
			t.Fatalf("%s: %v", what, err)
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

// Records spread through a bootstrap to a newcomer; a server that dies is hidden long
// before its record expires; when it is back with the same identity it is seen again.
func TestSwarm(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	path := filepath.Join(t.TempDir(), "identity")
	a := join(t, boot)
	b := start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(boot.host.Addrs()))
	a.announce(t, 0, 2, swarm.Online)
	b.announce(t, 2, 4, swarm.Joining)
	c := join(t, boot)
	c.until(t, "both servers", servers(2))
	b.announce(t, 2, 4, swarm.Online)
	c.until(t, "whole", whole)
	if v := c.Views(); len(v) != 1 || v[0].Manifest != model {
		t.Errorf("views %+v", v)
	}
	id := b.host.ID()
	signed, ok := c.Signed(id)
	if !ok {
		t.Fatal("no signed record of b")
	}
	if r, err := a.Accept(signed); err != nil || r.Peer != id || r.Span.Start != 2 {
		t.Fatalf("a does not accept b's record: %v", err)
	}
	b.host.Libp2p().Close() // as SIGKILL would
	c.until(t, "b is hidden", servers(1))
	b.stop()
	b = start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(boot.host.Addrs()))
	b.announce(t, 2, 4, swarm.Online)
	c.until(t, "b is back", whole)
	b.announce(t, 2, 4, swarm.Offline)
	c.until(t, "b says it leaves", func(v swarm.View) bool { return len(v.Missing()) == 1 && len(v.Servers) == 2 })
	if err := a.stop(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	c.until(t, "a is gone", servers(1))
}

// A failed dial hides a server from this node at once; a ping that is answered shows it
// again.
func TestSuspect(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a, c := join(t, boot), join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	c.until(t, "a", servers(1))
	changed := c.Changed()
	c.Suspect(a.host.ID())
	select {
	case <-changed:
	default:
		t.Error("a suspicion is no news")
	}
	c.until(t, "a answers", servers(1))
	a.Suspect(a.host.ID())
	if v, err := a.View(t.Context(), model.UID()); err != nil || len(v.Servers) != 1 {
		t.Errorf("a node suspects itself: %+v %v", v, err)
	}
}

// The first view waits for the swarm's first answer; one that never comes is a time-out.
func TestFirstView(t *testing.T) {
	d, err := New(newHost(t, p2p.Config{}), quick(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.View(ctx, model.UID()); swarm.CodeOf(err) != swarm.CodeTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// count is the value of a counter.
func count(c prometheus.Counter) float64 {
	var m dto.Metric
	c.Write(&m)
	return m.GetCounter().GetValue()
}

// A record lives by the clock; its owner must renew it.
func TestExpiry(t *testing.T) {
	var ahead atomic.Int64
	cfg := quick(nil)
	cfg.Clock = func() time.Time { return epoch.Add(time.Duration(ahead.Load())) }
	n := start(t, newHost(t, p2p.Config{}), cfg)
	n.announce(t, 0, 4, swarm.Online)
	n.until(t, "announced", servers(1))
	ahead.Store(int64(cfg.Expiration - time.Second))
	n.announce(t, 0, 4, swarm.Online)
	ahead.Store(int64(2*cfg.Expiration - 2*time.Second))
	n.until(t, "renewed", servers(1))
	ahead.Store(int64(2*cfg.Expiration - time.Second))
	n.until(t, "expired", servers(0))
}

func TestBadAnnouncement(t *testing.T) {
	n := start(t, newHost(t, p2p.Config{}), quick(nil))
	if err := n.Announce(t.Context(), record(swarm.Span{Start: 0, End: 9}, swarm.Online)); !errors.Is(err, swarm.ErrBadRecord) {
		t.Errorf("%v", err)
	}
	for name, spoil := range map[string]func(*Config){
		"swarm": func(c *Config) { c.Swarm = "a/b" }, "expiration": func(c *Config) { c.Expiration = time.Hour },
		"refresh": func(c *Config) { c.Refresh = 0 }, "bootstrap": func(c *Config) { c.Bootstrap = []string{"x"} },
	} {
		c := quick(nil)
		spoil(&c)
		if _, err := New(n.host, c); err == nil {
			t.Errorf("a bad %s is taken", name)
		}
	}
}

// A node of another swarm is told so, and leaves nothing behind.
func TestWrongSwarm(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	cfg := quick(boot.host.Addrs())
	cfg.Swarm = "other"
	d, err := New(newHost(t, p2p.Config{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Run(t.Context()); swarm.CodeOf(err) != swarm.CodeWrongSwarm || !strings.Contains(err.Error(), `"main"`) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("%v", err)
	}
	boot.log.wait(t, "peer is left out")
}

// A copy of a running node's identity is refused at the start, and the first is untouched.
func TestTwin(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	path, stolen := filepath.Join(t.TempDir(), "identity"), filepath.Join(t.TempDir(), "identity")
	a := start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(boot.host.Addrs()))
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "a", servers(1))
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(stolen, key, 0o600)
	d, err := New(newHost(t, p2p.Config{IdentityPath: stolen}), quick(boot.host.Addrs()))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Run(t.Context()); !errors.Is(err, p2p.ErrIdentityInUse) {
		t.Errorf("%v", err)
	}
	select {
	case <-d.first:
		t.Error("the second holder sees views")
	default:
	}
	c := join(t, boot)
	c.until(t, "a still serves", whole)
}

// A clock set back does not silence a node: it counts on from what the swarm remembers.
func TestClockSetBack(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	path := filepath.Join(t.TempDir(), "identity")
	a := start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(boot.host.Addrs()))
	a.announce(t, 0, 2, swarm.Online)
	boot.until(t, "a", servers(1))
	a.stop()
	cfg := quick(boot.host.Addrs())
	cfg.Clock = func() time.Time { return time.Now().Add(-20 * time.Second) }
	a = start(t, newHost(t, p2p.Config{IdentityPath: path}), cfg)
	a.until(t, "joined", func(swarm.View) bool { return true })
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "the new record", whole)
}

// A node whose clock is far off is told by how much, on both sides.
func TestClocks(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := quick(nil)
	cfg.Registerer = reg
	boot := start(t, newHost(t, p2p.Config{}), cfg)
	for _, c := range []struct {
		off        time.Duration
		ours, boot string
	}{
		{time.Hour, "1h0m0s ahead of", "ahead of ours"},
		{-time.Hour, "1h0m0s behind", "this node's clock is 1h0m0s ahead"},
	} {
		cfg := quick(boot.host.Addrs())
		cfg.Clock = func() time.Time { return time.Now().Add(c.off) }
		n := start(t, newHost(t, p2p.Config{}), cfg)
		n.announce(t, 0, 4, swarm.Online)
		n.log.wait(t, c.ours)
		boot.log.wait(t, c.boot)
		n.stop()
	}
	if v, err := boot.View(t.Context(), model.UID()); err != nil || len(v.Servers) != 0 {
		t.Errorf("records of the wrong time are seen: %+v", v)
	}
	for _, reason := range []string{"clock", "expired"} {
		if count(boot.metrics.refused.WithLabelValues(reason)) == 0 {
			t.Errorf("refusals for %s are not counted", reason)
		}
	}
	if all, err := reg.Gather(); err != nil || len(all) == 0 || boot.Refused() == 0 {
		t.Errorf("%d metrics, %d refused, %v", len(all), boot.Refused(), err)
	}
}

// Pulls of several tellers are merged: one that leaves out or garbles records hides
// nothing that another tells.
func TestLyingTeller(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "a", servers(1))
	good, _ := boot.Signed(a.host.ID())
	forged := []byte(strings.Replace(string(good), `"sig":"`, `"sig":"AAAA`, 1))
	liar := newHost(t, p2p.Config{})
	liar.Handle(wire.ProtoDirectory, func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
		s.Write(wire.AppendJSON(nil, wire.TypeRecords, wire.Records{Records: [][]byte{[]byte("garbage"), forged}}))
		s.Close()
	})
	alone := start(t, newHost(t, p2p.Config{}), quick(liar.Addrs()))
	both := start(t, newHost(t, p2p.Config{}), quick(append(liar.Addrs(), boot.host.Addrs()...)))
	both.until(t, "a, told by the honest one", servers(1))
	alone.log.wait(t, "not signed by its peer")
	if v, err := alone.View(t.Context(), model.UID()); err != nil || len(v.Servers) != 0 || alone.Refused() < 2 {
		t.Errorf("%+v %v, %d refused", v, err, alone.Refused())
	}
}

// A peer of another version gets one clear answer.
func TestVersions(t *testing.T) {
	n := start(t, newHost(t, p2p.Config{}), quick(nil))
	for payload, want := range map[string]swarm.Code{
		`{"version":2,"swarm":"main"}`: swarm.CodeVersion,
		`{"version":1}`:                swarm.CodeWrongSwarm,
		`{"version":`:                  swarm.CodeBadFrame,
		`{"version":1,"swarm":"main","own":["eA=="],"z":[]}`: "",
	} {
		frame, err := n.answer("peer", []byte(payload))
		if swarm.CodeOf(err) != want || (err == nil) != (frame != nil) {
			t.Errorf("%s: %q %v", payload, frame, err)
		}
	}
}

// Providers of a model are found through the DHT alone.
func TestProviders(t *testing.T) {
	var all []*Directory
	for range 3 {
		d, err := New(newHost(t, p2p.Config{}), quick(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		all = append(all, d)
	}
	server, boot, asker := all[0], all[1], all[2] // none of them runs: nobody exchanges
	for _, d := range []*Directory{server, asker} {
		if err := d.host.Bootstrap(t.Context(), boot.host.Addrs()); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Announce(t.Context(), record(swarm.Span{Start: 0, End: 4}, swarm.Joining)); err != nil {
		t.Fatal(err)
	}
	uid := model.UID()
	for range 100 { // until the tables know the others
		if server.provide(t.Context(), uid) == nil {
			asker.find(t.Context(), uid)
		}
		if asker.knows(server.host.ID()) {
			return
		}
		for _, d := range all {
			<-d.dht.RefreshRoutingTable()
		}
	}
	t.Fatal("the provider is not found")
}

// The bootstrap is lost and comes back: nobody else restarts, both log it, and a newcomer
// finds all again.
func TestRejoin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	boot := start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(nil))
	at := boot.host.ListenAddrs()
	a, b := join(t, boot), join(t, boot)
	a.announce(t, 0, 2, swarm.Online)
	b.announce(t, 2, 4, swarm.Online)
	a.until(t, "whole", whole)
	boot.stop()
	a.log.wait(t, "lost the last initial peer")
	a.log.wait(t, "cannot rejoin")
	boot = start(t, newHost(t, p2p.Config{IdentityPath: path, HostMaddrs: at}), quick(nil))
	a.log.wait(t, "an initial peer is back")
	b.log.wait(t, "an initial peer is back")
	c := join(t, boot)
	c.until(t, "whole again", whole)
	if count(a.metrics.lost) != 1 || count(a.metrics.rejoins) == 0 {
		t.Error("loss and rejoin are not counted")
	}
}

// A node joins through peers it has seen earlier if its initial peers are gone.
func TestSavedPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.json")
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	cfg := quick(boot.host.Addrs())
	cfg.PeersPath = path
	b := start(t, newHost(t, p2p.Config{}), cfg)
	b.until(t, "a", servers(1))
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	var saved []string
	if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &saved) != nil || !slices.Equal(saved, a.host.Addrs()) {
		t.Fatalf("saved %q, %v", saved, err)
	}
	boot.stop()
	b = start(t, newHost(t, p2p.Config{}), cfg)
	b.until(t, "a, without the bootstrap", servers(1))
	b.stop()
	for _, bad := range []string{"x", `["x"]`, `[]`} {
		os.WriteFile(path, []byte(bad), 0o600)
		d, err := New(newHost(t, p2p.Config{}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "none of the initial peers answers") {
			t.Errorf("with the peers file %s: %v", bad, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	h, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	defer h.Close()
	d, err := New(h, quick(nil))
	if err != nil {
		f.Fatal(err)
	}
	defer d.Close()
	f.Add([]byte(`{"version":1,"swarm":"main","own":["e30="],"known":{"p":1}}`))
	f.Add([]byte(`{"version":1,"swarm":"main","known":{"p":-1}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame, err := d.answer("peer", payload)
		if (err == nil) != (frame != nil) {
			t.Errorf("%q: %q %v", payload, frame, err)
		}
	})
}
