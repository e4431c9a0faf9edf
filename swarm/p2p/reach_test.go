package p2p

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// befriend makes all of the hosts members of one swarm in each other's eyes.
func befriend(all ...*Host) {
	for _, h := range all {
		for _, other := range all {
			h.Member(other.ID())
		}
	}
}

// meet connects a to b, and waits until each knows what the other speaks.
func meet(t *testing.T, a, b *Host) {
	t.Helper()
	if err := a.Bootstrap(t.Context(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*Host{{a, b}, {b, a}} {
		await(t, "they know what they speak", func() bool {
			known, err := pair[0].h.Peerstore().SupportsProtocols(pair[1].h.ID(), protoReach)
			return err == nil && len(known) > 0
		})
	}
}

// hidden is a node that announces an address at which nobody is: as behind a router.
func hidden(t *testing.T, cfg Config) *Host {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cfg.AnnounceMaddr = []string{"/ip4/127.0.0.1/tcp/" + port}
	return newHost(t, cfg)
}

// A node learns from members whether it can be dialled, and how: of those it has spoken to, of
// strangers, of nobody.
func TestReach(t *testing.T) {
	asked, third := newHost(t, Config{}), newHost(t, Config{})
	open, closed, alone := newHost(t, Config{}), hidden(t, Config{}), newHost(t, Config{})
	befriend(asked, third, open, closed)
	if r := alone.CheckReach(t.Context()); r.State != swarm.ReachUnknown {
		t.Errorf("a founder alone: %+v", r)
	}
	meet(t, open, asked)
	if r := open.CheckReach(t.Context()); r.State != swarm.ReachYes || r.Strangers || r.Addrs[0].Asked != 1 {
		t.Errorf("of two: %+v", r)
	}
	meet(t, third, asked)
	r := open.CheckReach(t.Context())
	if r.State != swarm.ReachYes || !r.Strangers || r.Addrs[0].Addr != open.ListenAddrs()[0] || r.Addrs[0].Reached != 1 {
		t.Errorf("of three: %+v", r)
	}
	meet(t, closed, asked)
	r = closed.CheckReach(t.Context())
	if r.State != swarm.ReachNo || !r.Strangers || r.Addrs[0].State != swarm.ReachNo || r.Addrs[0].Asked == 0 {
		t.Errorf("behind a router: %+v", r)
	}
	if got := closed.Reach(); got.State != swarm.ReachNo || !strings.Contains(got.Advice, "--public-ip") || open.Reach().Advice != "" {
		t.Errorf("advice: %q", got.Advice)
	}
	stranger := newHost(t, Config{})
	meet(t, stranger, asked)
	stranger.Member(asked.ID())
	if r := stranger.CheckReach(t.Context()); r.State != swarm.ReachUnknown {
		t.Errorf("who is of no swarm is answered: %+v", r)
	}
}

// Whoever asks cannot have a third machine dialled, nor many questions at a time.
func TestReachIsNoReflector(t *testing.T) {
	victim, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	hits := make(chan struct{}, 100)
	go func() {
		for {
			c, err := victim.Accept()
			if err != nil {
				return
			}
			c.Close()
			hits <- struct{}{}
		}
	}()
	asked, liar := newHost(t, Config{}), newHost(t, Config{})
	befriend(asked, liar)
	meet(t, liar, asked)
	at := "/ip4/127.0.0.2/tcp/" + strings.Split(victim.Addr().String(), ":")[1]
	for range 3 {
		for _, a := range liar.askReach(t.Context(), liar.helpers(protoReach, 1, nil), reachQuestion{Addrs: []string{at}}) {
			if len(a.Trials) != 0 {
				t.Errorf("tried %+v", a.Trials)
			}
		}
	}
	if len(hits) > 0 {
		t.Error("a third machine was dialled")
	}
	for range reachTurns {
		asked.reaches.Take(1, budget.Who{Peer: string(liar.ID())})
	}
	if used, total := asked.reaches.Used(), asked.reaches.Total(); used > total/2 {
		t.Errorf("one peer has %d of %d turns", used, total)
	}
}

func FuzzDecodeReach(f *testing.F) {
	f.Add("{\"addrs\":[\"/ip4/1.2.3.4/tcp/5\"],\"known\":[\"x\"]}\n")
	f.Add("{\"trials\":[{\"by\":\"y\",\"from\":[\"1.2.3.4\"],\"stranger\":true,\"tried\":[{\"addr\":\"x\",\"tried\":1}]}]}\n")
	f.Add(strings.Repeat("x", reachBytes+1))
	f.Fuzz(func(t *testing.T, s string) {
		var q reachQuestion
		var a reachAnswer
		if decodeReach(strings.NewReader(s), &q) == nil && (len(q.Addrs) > reachAddrs || len(q.Known) > reachKnown) {
			t.Error("too many addresses or peers")
		}
		if decodeReach(strings.NewReader(s), &a) == nil {
			h := &Host{spoken: newSpoken()}
			for _, one := range a.Trials {
				h.fromStranger(one, private, day)
			}
			for _, one := range sum(append(a.Trials, a.Trials...)) {
				if one.Reached > one.Tried || one.Tried > 2*reachPassed*reachAddrs {
					t.Errorf("%+v", one)
				}
			}
		}
	})
}

// A node that nobody can dial is found through two relays, by members alone, and leaves a
// relay that dies.
func TestRelays(t *testing.T) {
	limits := DefaultRelayLimits()
	limits.Unasked = true
	reg := prometheus.NewRegistry()
	one, two := newHost(t, Config{Relay: &limits, Registerer: reg}), newHost(t, Config{Relay: &limits})
	server, client := hidden(t, Config{AutoRelay: true}), newHost(t, Config{})
	befriend(one, two, server) // and nobody knows the client yet
	meet(t, two, one)
	meet(t, server, one)
	meet(t, server, two)
	server.Handle("/echo", func(_ context.Context, _ swarm.PeerID, s wire.Stream) { io.Copy(s, s); s.Close() })
	if r := server.CheckReach(t.Context()); r.State != swarm.ReachNo {
		t.Fatalf("%+v", r)
	}
	server.keepRelays(t.Context())
	if r := server.Reach(); len(r.Relays) != 2 || !server.Relayed() {
		t.Fatalf("relays %v", r.Relays)
	}
	for _, s := range server.ListenAddrs() {
		if !strings.HasSuffix(s, "/p2p-circuit") {
			t.Errorf("announces %s, where nobody is", s)
		}
	}
	client.AddAddrs(server.ID(), server.ListenAddrs())
	s, err := client.Dial(t.Context(), server.ID(), "/echo")
	if err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("hello"))
	got := make([]byte, 5)
	if _, err := io.ReadFull(s, got); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	s.Reset()
	if c := client.h.Network().ConnsToPeer(server.h.ID()); len(c) == 0 || !isRelayed(c[0].RemoteMultiaddr()) {
		t.Error("the connection goes through no relay")
	}
	stranger := newHost(t, Config{})
	meet(t, stranger, two)
	stranger.reserve(t.Context(), two.h.ID(), 0)
	if len(stranger.Reach().Relays) > 0 {
		t.Error("who is of no swarm is relayed for")
	}
	one.Close()
	await(t, "the dead relay is left", func() bool { server.keepRelays(t.Context()); return len(server.Reach().Relays) == 1 })
	if slices.Contains(server.Reach().Relays, string(one.ID())) {
		t.Error("the dead relay is announced")
	}
}

// Which relays are asked: due ones again, and as many as lack, but none that has just refused.
func TestPlanRelays(t *testing.T) {
	old, fresh := reservation{from: day.Add(-31 * time.Minute), until: day.Add(29 * time.Minute)}, reservation{from: day, until: day.Add(time.Hour)}
	for _, c := range []struct {
		name       string
		held       map[peer.ID]reservation
		candidates []peer.ID
		refused    map[peer.ID]time.Time
		want       string
	}{
		{"none", nil, []peer.ID{"a", "b", "c"}, nil, "a b"},
		{"one", map[peer.ID]reservation{"a": fresh}, []peer.ID{"a", "b", "c"}, nil, "b"},
		{"both", map[peer.ID]reservation{"a": fresh, "b": fresh}, []peer.ID{"c"}, nil, ""},
		{"due", map[peer.ID]reservation{"a": old, "b": fresh}, []peer.ID{"c"}, nil, "a"},
		{"for others", map[peer.ID]reservation{"a": {from: day, until: day.Add(time.Hour), only: six}}, []peer.ID{"c"}, nil, "a c"},
		{"refused", nil, []peer.ID{"a", "b", "c"}, map[peer.ID]time.Time{"a": day, "b": day.Add(-refusedFor)}, "b c"},
	} {
		var got []string
		for _, p := range planRelays(c.held, wantRelays, 0, c.candidates, c.refused, day) {
			got = append(got, string(p))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// What a relay passes on keeps to the rate of a peer, and to that of all.
func TestRelayRates(t *testing.T) {
	limits := RelayLimits{Rate: 1 << 20, PeerRate: 1 << 19, Reservations: 1, Circuits: 1, PeerCircuits: 1, Duration: time.Minute}
	if err := limits.Validate(); err != nil {
		t.Fatal(err)
	}
	r := newRelaying(limits, func(p peer.ID) bool { return p == "m" }, func(ma.Multiaddr) string { return "" }, func(peer.ID) {}, nil)
	if !r.AllowReserve("m", nil) || r.AllowReserve("x", nil) || !r.AllowConnect("x", nil, "m") {
		t.Error("strangers are served, or members are not")
	}
	r.open.Store(1)
	if r.AllowConnect("m", nil, "y") {
		t.Error("more relayed connections than there may be")
	}
	now := time.Now()
	if l := r.of("m"); !l.AllowN(now, 1<<19) || l.AllowN(now, 1<<16) || r.of("m") != l {
		t.Error("a peer has more than its rate")
	}
	for _, bad := range []RelayLimits{{}, {Rate: 1, PeerRate: 2}, {Rate: 1 << 20, PeerRate: 1 << 20, Reservations: 1, Circuits: 1, PeerCircuits: 2, Duration: time.Hour}, {Rate: 1 << 20, PeerRate: 1 << 20, Reservations: 1, Circuits: 1, PeerCircuits: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// An address at a relay is dialled as the relay is: freely where that is known, within the
// budget of its machine otherwise; and a peer met there proves nothing about the machine.
func TestGateAtRelays(t *testing.T) {
	const relay = "12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ"
	id, _ := peer.Decode(relay)
	a := maddr(t, "/ip4/203.0.113.7/tcp/1/p2p/"+relay+"/p2p-circuit")
	g := newGate(false, false)
	for i := range 2 * hostTries {
		if ok := g.allow("p", a, day); ok != (i < hostTries) {
			t.Fatalf("attempt %d: %v", i, ok)
		}
	}
	g.prove(id, ipOf(a), day)
	for range 2 * hostTries {
		if !g.allow("p", a, day) {
			t.Fatal("a relay that is known is refused")
		}
	}
	if relayOf(ma.StringCast("/p2p-circuit")) != "" || relayOf(a) != id {
		t.Error("who relays")
	}
}

// A relay starts and ends while peers come and go: each waits for the other's locks.
func TestRelayStartsAmongNewcomers(t *testing.T) {
	limits := DefaultRelayLimits()
	h := newHost(t, Config{Relay: &limits})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			h.mu.Lock()
			h.reach.State = []swarm.ReachState{swarm.ReachYes, swarm.ReachNo}[i%2]
			h.mu.Unlock()
			h.relayAsNeeded()
		}
	}()
	var guests sync.WaitGroup
	for range 4 {
		guest := newHost(t, Config{})
		guests.Go(func() {
			for ctx.Err() == nil {
				guest.h.Connect(ctx, peer.AddrInfo{ID: h.h.ID(), Addrs: h.h.Addrs()})
				guest.h.Network().ClosePeer(h.h.ID())
			}
		})
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("the host stands still")
	}
	cancel()
	guests.Wait()
}
