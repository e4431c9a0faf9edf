package dir

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

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
	if v := c.Views(); len(v) != 1 || !reflect.DeepEqual(v[0].Manifest, model) {
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
// again, and is sent without waiting for the next round.
func TestSuspect(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "a", servers(1))
	rare := quick(boot.host.Addrs())
	rare.Refresh = time.Hour
	c := start(t, newHost(t, p2p.Config{}), rare)
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

// telling answers every pull with the same records.
func telling(parts ...wire.Part) func(context.Context, swarm.PeerID, wire.Stream) {
	return func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
		if t, _, err := wire.NewReader(s).Next(); err == nil && t == wire.TypePull {
			tells(s, parts...)
			s.Close()
		}
	}
}

// tells offers records, and sends them all.
func tells(s wire.Stream, parts ...wire.Part) {
	o := wire.Offer{}
	var frame []byte
	for i, p := range parts {
		o.All = append(o.All, wire.Offered{Tag: wire.Tag{Beat: rand.Uint64(), Static: uint64(i)}, Left: 60_000})
		frame = p.Append(frame)
	}
	s.Write(wire.AppendFrame(nil, wire.TypeOffer, o.Append(nil)))
	if t, _, err := wire.NewReader(s).Next(); err == nil && t == wire.TypeChoice {
		s.Write(wire.AppendFrame(nil, wire.TypeRecords, frame))
	}
}

// Pulls of several tellers are merged: one that leaves out or garbles records hides
// nothing that another tells.
func TestLyingTeller(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "a", servers(1))
	signed, _ := boot.Signed(a.host.ID())
	forged, err := wire.ParsePart(bytes.Clone(signed))
	if err != nil {
		t.Fatal(err)
	}
	forged.Beat[len(forged.Beat)-1] ^= 1
	liar := newHost(t, p2p.Config{})
	liar.Handle(wire.ProtoDirectory, telling(wire.Part{Beat: []byte("garbage")}, forged))
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
		`{"version":3,"swarm":["main"]}`: swarm.CodeVersion,
		`{"version":1,"swarm":"main"}`:   swarm.CodeVersion,
		`{"version":2}`:                  swarm.CodeWrongSwarm,
		`{"version":`:                    swarm.CodeBadFrame,
		`{"version":2,"swarm":"main","own":{"beat":7},"z":[]}`: "",
	} {
		frame, err := n.answer("peer", []byte(payload))
		if swarm.CodeOf(err) != want || (err == nil) != (frame != nil) {
			t.Errorf("%s: %v %v", payload, frame, err)
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
			if found := finds(t, asker); found[byDHT] > 1 || found[byGossip] > 0 { // it may have told of itself first
				t.Errorf("found by %v", found)
			}
			return
		}
		for _, d := range all {
			<-d.dht.RefreshRoutingTable()
		}
	}
	t.Fatal("the provider is not found")
}

// finds are how many servers a directory found, by what.
func finds(t *testing.T, d *Directory) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(d.metrics.finds)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			out[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
	}
	return out
}

// Where every teller leaves a server out, or tells nothing at all, the DHT finds it.
func TestFoundThroughTheDHT(t *testing.T) {
	for name, teller := range map[string]func(context.Context, swarm.PeerID, wire.Stream){
		"by omission": telling(), "silent": func(_ context.Context, _ swarm.PeerID, s wire.Stream) { s.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			boot := start(t, newHost(t, p2p.Config{}), quick(nil))
			server := join(t, boot)
			server.announce(t, 0, 4, swarm.Online)
			boot.until(t, "the server", servers(1))
			provided := func() bool {
				c, err := key(model.UID())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for info := range boot.dht.FindProvidersAsync(ctx, c, 1) {
					return info.ID.String() == string(server.host.ID())
				}
				return false
			}
			for end := time.Now().Add(patience); !provided(); {
				if time.Now().After(end) {
					t.Fatal("the server is in no provider record")
				}
			}
			boot.host.Handle(wire.ProtoDirectory, teller)
			asker := join(t, boot)
			asker.until(t, "the server, by the DHT", servers(1))
			// The tables of the DHT may have connected both before this node asks for providers: then the
			// server tells of itself.
			if found := finds(t, asker.Directory); found[byGossip] != 0 {
				t.Errorf("found by %v", found)
			}
		})
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
	f.Add([]byte(`{"version":2,"swarm":"main","own":{"beat":1,"static":2},"since":3,"log":4,"most":5}`))
	f.Add([]byte(`{"version":2,"swarm":"main","most":-1}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame, err := d.answer("peer", payload)
		if (err == nil) != (frame != nil) {
			t.Errorf("%q: %v %v", payload, frame, err)
		}
	})
}

// A server that the operator denies is in no view of that node, although others tell of it; it is in
// theirs.
func TestDeniedServersAreNotInViews(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	denied, other := join(t, boot), join(t, boot)
	list, err := p2p.ParseList([]string{string(denied.host.ID())})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, newHost(t, p2p.Config{Deny: list}), quick(boot.host.Addrs()))
	denied.announce(t, 0, 4, swarm.Online)
	boot.until(t, "the server that is denied elsewhere", servers(1))
	other.announce(t, 0, 4, swarm.Online)
	boot.until(t, "both", servers(2))
	n.until(t, "the other alone", func(v swarm.View) bool {
		if len(v.Servers) > 0 && v.Servers[0].Peer != other.host.ID() || len(v.Servers) > 1 {
			t.Fatalf("a denied server is in the view: %v", v.Servers)
		}
		return len(v.Servers) == 1
	})
}
