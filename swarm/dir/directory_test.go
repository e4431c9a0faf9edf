package dir

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

var model = swarm.Manifest{Name: "tiny", Blocks: 4, Hidden: 8,
	Class: swarm.Class{ConfigHash: "h", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "cpu1"}}

// start runs a node of a swarm on loopback.
func start(t *testing.T, bootstrap ...string) (*p2p.Host, *Directory) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	h, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Bootstrap, cfg.Refresh, cfg.Log = bootstrap, 50*time.Millisecond, log
	d, err := New(h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.Close()
		h.Close()
	})
	return h, d
}

func record(span swarm.Span, state swarm.State) swarm.Record {
	return swarm.Record{Manifest: model, Span: span, State: state, Digests: slices.Repeat([]string{"digest"}, span.Len()), Version: "test", CacheTotal: 9, CacheLeft: 9}
}

// until waits for a view that satisfies the condition.
func until(t *testing.T, d *Directory, what string, cond func(swarm.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		changed := d.Changed()
		v, err := d.View(ctx, model.UID())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if cond(v) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: still %d servers, missing %v", what, len(v.Servers), v.Missing())
		}
	}
}

// Records spread through a bootstrap to a newcomer; a server that dies is hidden before
// its record expires; one that comes back is seen again.
func TestSwarmOnLoopback(t *testing.T) {
	boot, _ := start(t)
	_, a := start(t, boot.Addrs()...)
	hb, b := start(t, boot.Addrs()...)
	if err := a.Announce(t.Context(), record(swarm.Span{Start: 0, End: 2}, swarm.Online)); err != nil {
		t.Fatal(err)
	}
	if err := b.Announce(t.Context(), record(swarm.Span{Start: 2, End: 4}, swarm.Joining)); err != nil {
		t.Fatal(err)
	}
	_, c := start(t, boot.Addrs()...)
	until(t, c, "both servers", func(v swarm.View) bool { return len(v.Servers) == 2 })
	if err := b.Announce(t.Context(), record(swarm.Span{Start: 2, End: 4}, swarm.Online)); err != nil {
		t.Fatal(err)
	}
	until(t, c, "whole", func(v swarm.View) bool { return len(v.Servers) == 2 && len(v.Missing()) == 0 })

	signed, ok := c.Signed(hb.ID())
	if !ok {
		t.Fatal("no signed record of b")
	}
	if r, err := a.Accept(signed); err != nil || r.Peer != hb.ID() {
		t.Fatalf("a does not accept b's record: %v", err)
	}
	hb.Libp2p().Close() // as SIGKILL would
	until(t, c, "b is suspected", func(v swarm.View) bool { return len(v.Servers) == 1 })
}

func TestRefusals(t *testing.T) {
	h, d := start(t)
	r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
	if err := d.Announce(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	good, _ := d.Signed(h.ID())
	now := time.Now()
	if _, err := open(good, now); err != nil {
		t.Fatal(err)
	}
	if _, err := open(good, now.Add(-10*time.Minute)); err == nil {
		t.Error("a record from the future was accepted")
	}
	if _, err := open(good, now.Add(10*time.Minute)); err == nil {
		t.Error("an expired record was accepted")
	}
	var e envelope
	if err := json.Unmarshal(good, &e); err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{e.Payload, e.Sig} {
		for i := range part { // any changed bit must spoil it
			part[i] ^= 1
			spoilt, _ := json.Marshal(e)
			if _, err := open(spoilt, now); err == nil {
				t.Errorf("byte %d of %q changed and the record was accepted", i, part)
			}
			part[i] ^= 1
		}
	}
}

func TestRecordsRules(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := newRecords()
	r := func(seq uint64, issued, life time.Duration) *swarm.Record {
		at := now.Add(issued).UnixMilli()
		return &swarm.Record{Peer: "p", Manifest: model, Seq: seq, Issued: at, Expires: at + life.Milliseconds()}
	}
	put := func(x *swarm.Record, want bool) {
		t.Helper()
		if got, err := s.put(x, []byte("x"), now); got != want || err != nil {
			t.Errorf("seq %d: %v %v, want %v", x.Seq, got, err, want)
		}
	}
	put(r(5, 0, time.Minute), true)
	put(r(5, 0, time.Hour), false)
	put(r(4, 0, time.Hour), false)
	put(r(6, time.Minute, time.Minute), true) // their clock is ahead: lives a minute from receipt
	if s.prune(now.Add(59 * time.Second)) {
		t.Error("pruned early")
	}
	if !s.suspect("p") || s.suspect("p") || len(s.views(now)) != 0 {
		t.Error("a suspect is seen")
	}
	put(r(7, 0, time.Minute), true)
	if len(s.views(now)) != 1 {
		t.Error("a newer record does not clear the suspicion")
	}
	if !s.prune(now.Add(time.Minute)) || len(s.peers) != 0 {
		t.Error("an expired record is kept")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"payload":"e30=","sig":""}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := open(b, time.Now()); err == nil && r.Validate() != nil {
			t.Error("an invalid record was opened")
		}
	})
}
