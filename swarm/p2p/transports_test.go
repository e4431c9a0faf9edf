package p2p

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"

	"whorl/swarm"
	"whorl/swarm/wire"
)

const (
	loopTCP  = "/ip4/127.0.0.1/tcp/0"
	loopQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
)

// One port serves both transports, and streams run over either.
func TestTransports(t *testing.T) {
	b := newHost(t, Config{HostMaddrs: []string{loopTCP, loopQUIC}})
	b.Handle("/echo", func(_ context.Context, _ swarm.PeerID, s wire.Stream) { io.Copy(s, s); s.Close() })
	at := b.ListenAddrs()
	if len(at) != 2 || strings.TrimSuffix(strings.Replace(at[1], "/udp/", "/tcp/", 1), "/quic-v1") != at[0] {
		t.Fatalf("two transports on two ports: %v", at)
	}
	for _, addr := range at {
		a := newHost(t, Config{})
		a.AddAddrs(b.ID(), []string{addr})
		s, err := a.Dial(t.Context(), b.ID(), "/echo")
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		s.Write([]byte("hello"))
		got := make([]byte, 5)
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q %v", addr, got, err)
		}
		s.Close()
		if p := a.Peers(); len(p) != 1 || p[0].Addrs[0] != addr {
			t.Errorf("%s: peers %+v", addr, p)
		}
	}
}

// What a handler has written when it closes the stream and returns comes whole, over both
// transports.
func TestAnswersComeWhole(t *testing.T) {
	b := newHost(t, Config{HostMaddrs: []string{loopTCP, loopQUIC}})
	answer := make([]byte, 200_000)
	b.Handle("/answer", func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
		s.Write(answer)
		s.Close()
	})
	for _, addr := range b.ListenAddrs() {
		a := newHost(t, Config{})
		a.AddAddrs(b.ID(), []string{addr})
		for range 20 {
			s, err := a.Dial(t.Context(), b.ID(), "/answer")
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, s); err != nil || n != int64(len(answer)) {
				t.Fatalf("%s: %d bytes of %d, %v", addr, n, len(answer), err)
			}
			s.Close()
		}
	}
}

// With a swarm key nothing listens on UDP, and asking for it says why not.
func TestKeyMeansTCP(t *testing.T) {
	key := filepath.Join(t.TempDir(), "swarm.key")
	os.WriteFile(key, []byte("/key/swarm/psk/1.0.0/\n/base16/\n"+strings.Repeat("a", 64)+"\n"), 0o600)
	h, err := New(Config{SwarmKeyPath: key, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, a := range h.ListenAddrs() {
		if !strings.Contains(a, "/tcp/") {
			t.Errorf("listens on %s", a)
		}
	}
	if _, err := New(Config{SwarmKeyPath: key, HostMaddrs: []string{loopQUIC}}); err == nil || !strings.Contains(err.Error(), "TCP only") {
		t.Errorf("QUIC with a key: %v", err)
	}
}

// What is dialled when: no dead kind of address costs more than a second, nor do many of one
// kind.
func TestRank(t *testing.T) {
	for _, c := range []struct {
		name, addrs string
		want        []string // in order
	}{
		{"everything", "/ip4/93.184.216.34/udp/1/quic-v1 /ip4/93.184.216.34/tcp/1 /ip6/2606:2800::1/udp/1/quic-v1 /ip6/2606:2800::1/tcp/1",
			[]string{"0s /ip6/2606:2800::1/tcp/1", "250ms /ip4/93.184.216.34/tcp/1", "500ms /ip6/2606:2800::1/udp/1/quic-v1", "750ms /ip4/93.184.216.34/udp/1/quic-v1"}},
		{"one transport", "/ip4/93.184.216.34/udp/1/quic-v1", []string{"0s /ip4/93.184.216.34/udp/1/quic-v1"}},
		{"a site beside", "/ip4/93.184.216.34/tcp/1 /ip4/10.0.0.1/tcp/1 /ip4/10.0.0.1/udp/1/quic-v1",
			[]string{"0s /ip4/10.0.0.1/tcp/1", "30ms /ip4/10.0.0.1/udp/1/quic-v1", "0s /ip4/93.184.216.34/tcp/1"}},
		{"many", "/ip4/93.184.216.34/tcp/1 /ip4/93.184.216.35/tcp/1 /ip4/93.184.216.36/tcp/1 /ip4/93.184.216.36/udp/1/quic-v1",
			[]string{"0s /ip4/93.184.216.34/tcp/1", "250ms /ip4/93.184.216.36/udp/1/quic-v1", "500ms /ip4/93.184.216.35/tcp/1", "500ms /ip4/93.184.216.36/tcp/1"}},
		{"a relay last", "/ip4/93.184.216.34/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ/p2p-circuit /ip4/93.184.216.35/tcp/1",
			[]string{"0s /ip4/93.184.216.35/tcp/1", "500ms /ip4/93.184.216.34/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ/p2p-circuit"}},
		{"nothing but a relay", "/ip4/93.184.216.34/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ/p2p-circuit",
			[]string{"0s /ip4/93.184.216.34/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ/p2p-circuit"}},
	} {
		var in []ma.Multiaddr
		for _, s := range strings.Fields(c.addrs) {
			in = append(in, maddr(t, s))
		}
		var got []string
		for _, d := range rank(in) {
			got = append(got, d.Delay.String()+" "+d.Addr.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// A peer of whose addresses one takes connections and is silent or another swallows packets
// is reached at the other, which is begun while the first may still take all the time of a dial: TestRank
// says when.
func TestDeadAddressesCostASecond(t *testing.T) {
	b := newHost(t, Config{HostMaddrs: []string{loopTCP, loopQUIC}})
	mute, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	hole, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	port := func(a net.Addr) string { _, p, _ := net.SplitHostPort(a.String()); return p }
	at := b.ListenAddrs()
	for name, addrs := range map[string][]string{
		"UDP is blocked": {"/ip4/127.0.0.1/udp/" + port(hole.LocalAddr()) + "/quic-v1", at[0]},
		"TCP is blocked": {"/ip4/127.0.0.1/tcp/" + port(mute.Addr()), at[1]},
	} {
		a := newHost(t, Config{})
		a.AddAddrs(b.ID(), addrs)
		begin := time.Now()
		if _, err := a.Ping(t.Context(), b.ID()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: reached after %v", name, time.Since(begin))
	}
}

// Half-open connections over UDP are counted like those over TCP, and those who may have made
// up their address must prove it before they can use up the places.
func TestDoorCountsQUIC(t *testing.T) {
	d, err := resources(Config{Exempt: everybody})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	at := ma.StringCast("/ip4/203.0.113.7/udp/1/quic-v1")
	from := &net.UDPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 1}
	if d.VerifySourceAddress(from) {
		t.Error("a first caller is asked to prove its address")
	}
	got := 0
	for i := range d.handshakes.Total() {
		if _, err := d.OpenConnection(lnet.DirInbound, false, at); err != nil {
			break
		}
		if got++; i == d.handshakes.Total()/8 && !d.VerifySourceAddress(from) {
			t.Error("an eighth of the places is taken, and nobody is asked for proof")
		}
	}
	if most := d.handshakes.Total() / 2; int64(got) > most || got < 10 {
		t.Errorf("one address has %d of %d handshakes", got, d.handshakes.Total())
	}
	h := newHost(t, Config{HostMaddrs: []string{loopQUIC}, Exempt: everybody})
	a := newHost(t, Config{HostMaddrs: []string{loopQUIC}})
	if err := a.Bootstrap(t.Context(), h.Addrs()); err != nil {
		t.Fatal(err)
	}
	await(t, "the connection is counted, and its handshake is over", func() bool {
		return h.door.conns.Used() == 1 && h.door.handshakes.Used() == 0
	})
	a.Close()
	await(t, "its place is given back", func() bool { return h.door.conns.Used() == 0 })
}

// Lists in DNS: as bare names, as /dnsaddr, of one peer, through other lists, and wrong ones.
func TestLists(t *testing.T) {
	b := newHost(t, Config{HostMaddrs: []string{loopTCP}})
	one, two := b.Addrs()[0], "/ip4/127.0.0.1/tcp/1/p2p/"+string(newID(t))
	names, err := madns.NewResolver(madns.WithDefaultResolver(&madns.MockResolver{
		TXT: map[string][]string{
			"_dnsaddr.swarm.example":  {"dnsaddr=" + one, "dnsaddr=" + two, "v=spf1", "dnsaddr=/ip4/1.2.3.4/tcp/1"},
			"_dnsaddr.parent.example": {"dnsaddr=/dnsaddr/swarm.example", "dnsaddr=/dnsaddr/parent.example"},
			"_dnsaddr.empty.example":  {"dnsaddr=nonsense"},
		},
		IP: map[string][]net.IPAddr{"host.example": {{IP: net.IPv4(127, 0, 0, 1)}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	a := newHost(t, Config{names: names})
	_, id, _ := strings.Cut(one, "/p2p/")
	for _, c := range []struct {
		in   string
		want []string
		err  string
	}{
		{"swarm.example", []string{one, two}, ""},
		{"swarm.example.", []string{one, two}, ""},
		{"/dnsaddr/swarm.example", []string{one, two}, ""},
		{"/dnsaddr/swarm.example/p2p/" + id, []string{one}, ""},
		{"parent.example", []string{one, two}, ""},
		{"empty.example", nil, "names no peer"},
		{"none.example", nil, "none.example"},
	} {
		if err := CheckPeer(c.in); err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
		got, err := a.Resolve(t.Context(), []string{c.in})
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.in, got, err)
		}
	}
	for _, bad := range []string{"10.0.0.1:4001", "localhost", "x", "", "/dnsaddr", "host.example:80", "/dns4/host.example/tcp/1"} {
		if CheckPeer(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	named := strings.Replace(one, "/ip4/127.0.0.1/", "/dns4/host.example/", 1)
	if err := a.Bootstrap(t.Context(), []string{named}); err == nil {
		// The look whether anybody listens asks the system's name servers, which know no host.example.
		t.Error("reached through a name that the system does not know")
	}
	a.AddAddrs(b.ID(), []string{strings.TrimSuffix(named, "/p2p/"+id)})
	bid, _ := peer.Decode(id)
	a.gate.name(bid, maddr(t, named))
	if _, err := a.Ping(t.Context(), b.ID()); err != nil {
		t.Errorf("through a name: %v", err)
	}
}
