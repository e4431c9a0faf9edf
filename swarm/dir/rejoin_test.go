package dir

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

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
	ctx, cancel := context.WithTimeout(t.Context(), patience) // one that is not refused would run on
	defer cancel()
	if err := d.Run(ctx); !errors.Is(err, p2p.ErrIdentityInUse) {
		t.Errorf("the second holder: %v", err)
	}
	select {
	case <-d.first:
		t.Error("the second holder sees views")
	default:
	}
	c := join(t, boot)
	c.until(t, "a still serves", whole)
}

// The bootstrap is lost and comes back: nobody else restarts, both log it, and a newcomer
// finds all again.
func TestRejoin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	boot := start(t, newHost(t, p2p.Config{IdentityPath: path, HostMaddrs: []string{"/ip4/127.0.79.1/tcp/0"}}), quick(nil))
	at := boot.host.ListenAddrs() // of a machine of its own: nobody takes the port meanwhile
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
	b.until(t, "a is reached", func(v swarm.View) bool { return !v.Hearsay(a.host.ID()) })
	for late := time.After(patience); ; { // soon, and not only when b ends
		if _, err := os.Stat(path); err == nil {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatal("no peers are saved while the node runs")
		}
	}
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
	a.stop()
	gone, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, want string }{
		{"x", "none of the initial peers answers"}, {`["x"]`, "none of the initial peers answers"}, {`[]`, "none of the initial peers answers"},
		{string(gone), "nor does any of 1 addresses of peers seen earlier"},
	} {
		os.WriteFile(path, []byte(c.file), 0o600)
		d, err := New(newHost(t, p2p.Config{}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with the peers file %s: %v", c.file, err)
		}
	}
}

// A node that nobody answers any more says so; a founder alone has nobody to ask.
func TestSynced(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	var ahead atomic.Int64
	cfg := quick(boot.host.Addrs())
	cfg.Clock = func() time.Time { return epoch.Add(time.Duration(ahead.Load())) }
	a := start(t, newHost(t, p2p.Config{}), cfg)
	a.until(t, "the first exchange", func(swarm.View) bool { return true })
	if err := a.Synced(); err != nil {
		t.Errorf("just joined: %v", err)
	}
	boot.stop()
	ahead.Store(int64(staleAfter * cfg.Refresh))
	if err := a.Synced(); err != nil {
		t.Errorf("some exchanges later: %v", err)
	}
	for late := time.After(patience); a.Synced() == nil; { // at once, unless an answer was still on its way
		ahead.Add(int64(time.Second))
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatal("the silence goes unnoticed")
		}
	}
	if err := start(t, newHost(t, p2p.Config{}), quick(nil)).Synced(); err != nil {
		t.Errorf("a founder alone: %v", err)
	}
}

// A peer that takes questions and never answers does not keep a node from asking others.
func TestHangingTeller(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.until(t, "the first exchange", func(swarm.View) bool { return true })
	asked := make(chan struct{}, 1000)
	mute := newHost(t, p2p.Config{})
	mute.Handle(wire.ProtoDirectory, func(ctx context.Context, _ swarm.PeerID, _ wire.Stream) {
		asked <- struct{}{}
		<-ctx.Done()
	})
	if err := mute.Bootstrap(t.Context(), a.host.Addrs()); err != nil {
		t.Fatal(err)
	}
	of := func(result string) float64 { return count(a.metrics.exchanges.WithLabelValues(result)) }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 5 { // a machine that stands still may give a question up
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("the mute peer was not asked")
		}
		ok, failed := of("ok"), of("failed")
		for of("failed") == failed && of("ok") < ok+3 {
			<-tick.C
		}
		if of("ok") >= ok+3 {
			return
		}
	}
	t.Error("nobody else is asked until the question to the mute peer is given up")
}
