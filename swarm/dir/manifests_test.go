package dir

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// numbered is a manifest of its own, of some length.
func numbered(i, blocks int) swarm.Manifest {
	m := model
	m.Name, m.Blocks, m.Roots = fmt.Sprint("model ", i), blocks, make(swarm.Roots, blocks)
	return m
}

// What a node keeps for others is bounded in number and bytes. The models with the most
// servers stay, and its own always.
func TestManifestsBudget(t *testing.T) {
	servers := map[swarm.UID]int{}
	count := func(uid swarm.UID) int { return servers[uid] }
	s := newManifests()
	s.keep(model)
	put := func(m swarm.Manifest, by int) bool {
		t.Helper()
		servers[m.UID()] = by
		held, err := s.put(m.UID(), m.Encode(), count)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.held) > maxManifests || s.bytes > maxManifestBytes {
			t.Fatalf("%d manifests of %d bytes", len(s.held), s.bytes)
		}
		return held
	}
	honest := numbered(0, 80)
	put(honest, 3)
	for i := 1; i < maxManifests+100; i++ { // a flood of models with one server each
		put(numbered(i, 4), 1)
	}
	if s.held[honest.UID()] == nil || s.held[model.UID()] == nil || len(s.held) != maxManifests {
		t.Errorf("%d manifests are held, the honest one: %t", len(s.held), s.held[honest.UID()] != nil)
	}
	if put(numbered(-1, 4), 1) {
		t.Error("one more of the flood has room")
	}
	if late := numbered(-2, 80); !put(late, 2) {
		t.Error("a newcomer with two servers has no room among models of one")
	}
	for i := range 140 { // the largest there are
		put(numbered(-10-i, swarm.MaxBlocks), 2)
	}
	if s.held[honest.UID()] == nil {
		t.Error("the largest manifests push out the one with the most servers")
	}
	sum := 0
	for _, h := range s.held {
		sum += len(h.raw)
	}
	if sum != s.bytes {
		t.Errorf("%d bytes are held and %d counted", sum, s.bytes)
	}
}

func TestManifestsRefuse(t *testing.T) {
	s := newManifests()
	one := func(swarm.UID) int { return 1 }
	good := numbered(1, 4)
	for name, raw := range map[string][]byte{
		"another": numbered(2, 4).Encode(), "nothing": nil, "a cut one": good.Encode()[:50], "more": append(good.Encode(), ' '),
	} {
		if held, err := s.put(good.UID(), raw, one); held || swarm.CodeOf(err) != swarm.CodeBadFrame {
			t.Errorf("%s: %t %v", name, held, err)
		}
	}
	// The right hash of something that is no manifest is no manifest either.
	odd := []byte(`{"manifest":2}`)
	if held, err := s.put(swarm.UID(content.Sum(odd).String()), odd, one); held || err == nil {
		t.Errorf("%t %v", held, err)
	}
	if len(s.held) != 0 || s.bytes != 0 {
		t.Errorf("%d held", len(s.held))
	}
}

// Only servers that were reached are asked, those of models with many of them first; who
// could not be helped waits longer each time, and what no record names is forgotten.
func TestMissing(t *testing.T) {
	s := roomy()
	put := func(p swarm.PeerID, m swarm.Manifest, reached bool) {
		r := told(p, 1, 0, 10*time.Minute)
		r.UID = m.UID()
		s.put(bare(r, nil), source{}, epoch)
		if reached {
			met(s, p)
		}
	}
	a, b, c := numbered(1, 4), numbered(2, 4), numbered(3, 4)
	put("p1", model, true)
	put("p2", a, true)
	put("p3", b, true)
	put("p4", b, true)
	put("p5", c, false)
	uids, by := s.missing(nil, epoch)
	if len(uids) != 3 || uids[0] != b.UID() || uids[1] != a.UID() || fmt.Sprint(by[b.UID()]) != "[p3 p4]" || len(by[c.UID()]) != 0 {
		t.Errorf("%v by %v", uids, by)
	}
	at := epoch
	for _, want := range []time.Duration{1, 2, 4, 8} {
		s.manifests.fail(b.UID(), time.Second, at)
		at = at.Add(want * time.Second)
		if early, _ := s.missing(nil, at.Add(-1)); len(early) != 2 {
			t.Errorf("%v after a failure it is asked for again", want)
		}
		if due, _ := s.missing(nil, at); len(due) != 3 {
			t.Errorf("%v s after a failure it is not asked for", want)
		}
	}
	s.manifests.put(a.UID(), a.Encode(), s.servers)
	s.prune(epoch.Add(time.Hour))
	if len(s.manifests.failed) != 0 || s.manifests.held[a.UID()] != nil || s.manifests.held[model.UID()] == nil {
		t.Errorf("%d failures and %d manifests without a record", len(s.manifests.failed), len(s.manifests.held))
	}
}

// A manifest travels by its hash: from the server to the bootstrap to a newcomer, and a view
// waits for it. A span beyond the model is in no view.
func TestManifestTravels(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a, b := join(t, boot), join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	wide := record(swarm.Span{Start: 0, End: 4}, swarm.Online)
	wide.Span.End = 9
	wide.Manifest.Blocks, wide.Manifest.Roots = 9, make(swarm.Roots, 9)
	wide.UID = wide.Manifest.UID()
	if err := b.Announce(t.Context(), wide); err != nil {
		t.Fatal(err)
	}
	c := join(t, boot)
	c.until(t, "a", whole)
	v, err := c.View(t.Context(), model.UID())
	if err != nil || !reflect.DeepEqual(v.Manifest, model) || !reflect.DeepEqual(v.Servers[0].Manifest, model) {
		t.Errorf("%+v %v", v, err)
	}
	other := wide
	other.UID = model.UID()
	if err := b.Announce(t.Context(), other); err == nil || !strings.Contains(err.Error(), "with the manifest of") {
		t.Errorf("a record of one model is announced with the manifest of another: %v", err)
	}
	bare := record(swarm.Span{Start: 0, End: 4}, swarm.Online)
	bare.Manifest.Roots, bare.Manifest.Head = nil, content.Hash{}
	bare.UID = bare.Manifest.UID()
	if err := b.Announce(t.Context(), bare); err == nil || !strings.Contains(err.Error(), "names no weights") {
		t.Errorf("a model of any weights is announced: %v", err)
	}
}

// A peer that gives other bytes than the hash names is found out, and the manifest is had
// from elsewhere; one that never answers holds up nobody for long.
func TestManifestLiars(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	a := join(t, boot)
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "a", servers(1))
	signed, _ := boot.Signed(a.host.ID())
	part, err := wire.ParsePart(signed)
	if err != nil {
		t.Fatal(err)
	}
	evil := numbered(666, 4)
	liar := func(answer func(t wire.Type, s wire.Stream)) *p2p.Host {
		h := newHost(t, p2p.Config{})
		h.Handle(wire.ProtoDirectory, func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
			ty, _, err := wire.NewReader(s).FirstOf(wire.TypePull, wire.TypeWant)
			if err != nil {
				return
			}
			if ty == wire.TypePull {
				tells(s, part)
			} else {
				answer(ty, s)
			}
			s.Close()
		})
		return h
	}
	wrong := liar(func(_ wire.Type, s wire.Stream) { s.Write(wire.AppendFrame(nil, wire.TypeManifest, evil.Encode())) })
	mute := liar(func(_ wire.Type, s wire.Stream) { s.Read(make([]byte, 1)) })
	for name, h := range map[string]*p2p.Host{"wrong": wrong, "mute": mute} {
		c := start(t, newHost(t, p2p.Config{}), quick(append(h.Addrs(), boot.host.Addrs()...)))
		c.until(t, "a, beside a liar that is "+name, whole)
		c.host.AddAddrs(h.ID(), h.ListenAddrs()) // whose dial may be under way still
		ctx, cancel := context.WithTimeout(t.Context(), map[string]time.Duration{"wrong": patience, "mute": time.Second}[name])
		err := c.fetch(ctx, numbered(7, 4).UID(), h.ID(), nil)
		cancel()
		if err == nil || name == "wrong" && !strings.Contains(err.Error(), "are not what its UID names") {
			t.Errorf("a manifest from a liar that is %s: %v", name, err)
		}
		c.mu.Lock()
		if c.records.manifests.held[evil.UID()] != nil {
			t.Error("what nobody asked for is kept")
		}
		c.mu.Unlock()
	}
}

// Questions for manifests are refused as pulls are.
func TestWant(t *testing.T) {
	n := start(t, newHost(t, p2p.Config{}), quick(nil))
	if err := n.Keep(model); err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]swarm.Code{
		`{"version":3,"swarm":["main"]}`:                                   swarm.CodeVersion,
		`{"version":2,"swarm":"x","uid":"ab"}`:                             swarm.CodeWrongSwarm,
		`{"version":2,"swarm":"main","uid":""}`:                            swarm.CodeNotServed,
		`{"version":`:                                                      swarm.CodeBadFrame,
		`{"version":2,"swarm":"main","uid":"` + string(model.UID()) + `"}`: "",
	} {
		frame, err := n.give("peer", []byte(payload))
		if swarm.CodeOf(err) != want || (err == nil) != (frame != nil) {
			t.Errorf("%s: %q %v", payload, frame, err)
		}
	}
}

// A newcomer knows every model that it is told of when its first exchange has ended, however
// many there are: who came for one of them is not told that nobody serves it.
func TestNewcomerAmongManyModels(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	const models = 3*fetchesPerRound + 1
	for i := range models {
		h, m := newHost(t, p2p.Config{}), numbered(i, 4)
		r := record(swarm.Span{Start: 0, End: 4}, swarm.Online)
		now := time.Now()
		r.Protocol, r.Peer, r.Addrs, r.UID, r.Manifest = wire.Version, h.ID(), h.ListenAddrs(), m.UID(), m
		r.Seq, r.Issued, r.Expires = 1, now.UnixMilli(), now.Add(time.Minute).UnixMilli()
		signed, err := seal(h.Sign, &r)
		if err != nil {
			t.Fatal(err)
		}
		boot.host.AddAddrs(r.Peer, r.Addrs)
		boot.mu.Lock()
		boot.records.keep(m)
		if _, err := boot.records.put(signed, source{named: true, at: p2p.IPOf(r.Addrs[0])}, now); err != nil {
			t.Fatal(err)
		}
		boot.mu.Unlock()
	}
	cfg := quick(boot.host.Addrs())
	cfg.Refresh = time.Hour // there is no second exchange
	n := start(t, newHost(t, p2p.Config{}), cfg)
	for i := range models {
		if v, err := n.View(t.Context(), numbered(i, 4).UID()); err != nil || len(v.Servers) != 1 {
			t.Errorf("model %d of %d: %d servers, %v", i, models, len(v.Servers), err)
		}
	}
}
