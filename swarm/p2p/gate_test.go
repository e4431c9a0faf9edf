package p2p

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
)

var day = time.UnixMilli(1_800_000_000_000)

func maddr(t *testing.T, s string) ma.Multiaddr {
	t.Helper()
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Which networks are dialled on hearsay depends on where this node is; what its peer has
// proven, and what the operator named, is always dialled.
func TestGateNetworks(t *testing.T) {
	for _, c := range []struct {
		addr                          string
		anywhere, onLoopback, private bool // allowed at a node that has the one or the other
	}{
		{"/ip4/93.184.216.34/tcp/1", true, true, true},
		{"/ip6/2001:db8::1/tcp/1", true, true, true},
		{"/ip4/127.0.0.1/tcp/1", false, true, false},
		{"/ip6/::1/tcp/1", false, true, false},
		{"/ip4/10.1.2.3/tcp/1", false, false, true},
		{"/ip4/172.17.0.2/tcp/1", false, false, true},
		{"/ip4/192.168.1.1/tcp/1", false, false, true},
		{"/ip4/100.64.0.1/tcp/1", false, false, true},
		{"/ip4/169.254.169.254/tcp/80", false, false, true},
		{"/ip6/fd00::1/tcp/1", false, false, true},
		{"/ip6/::ffff:10.0.0.1/tcp/1", false, false, true},
		{"/ip4/0.0.0.0/tcp/1", false, false, false},
		{"/ip4/224.0.0.1/tcp/1", false, false, false},
		{"/ip4/255.255.255.255/tcp/1", false, false, false},
		{"/dns4/example.org/tcp/1", false, false, false}, // libp2p asks after it has resolved names
	} {
		a := maddr(t, c.addr)
		got := []bool{newGate(false, false).allow("p", a, day), newGate(true, false).allow("p", a, day), newGate(false, true).allow("p", a, day)}
		if want := []bool{c.anywhere, c.onLoopback, c.private}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.addr, got, want)
		}
		g := newGate(false, false)
		if g.name("p", a); !g.allow("p", a, day) {
			t.Errorf("%s: named and refused", c.addr)
		}
		if ip := ipOf(a); ip.IsValid() {
			g := newGate(false, false)
			g.prove("p", ip, day)
			if !g.allow("p", a, day.Add(time.Minute)) || g.allow("q", a, day) != c.anywhere || g.allow("p", a, day.Add(2*provenFor)) != c.anywhere {
				t.Errorf("%s: proven by p", c.addr)
			}
		}
	}
}

// However many identities and ports a stranger invents, a machine that none of them is at is
// dialled a few times in all; one where peers are found is dialled freely.
func TestGateBudget(t *testing.T) {
	victim := func(i int) (peer.ID, ma.Multiaddr) {
		return peer.ID(fmt.Sprint("sybil", i)), maddr(t, fmt.Sprintf("/ip4/203.0.113.7/tcp/%d", 1+i%60000))
	}
	g := newGate(false, false)
	dials := 0
	for i := range 5000 { // in 30 s
		p, a := victim(i)
		if g.allow(p, a, day.Add(time.Duration(i)*6*time.Millisecond)) {
			dials++
		}
	}
	if dials != hostTries+2 {
		t.Errorf("%d dials in 30 s, want %d", dials, hostTries+2)
	}
	late := day.Add(29999 * time.Millisecond)
	if _, a := victim(0); g.allow("newcomer", a, late) {
		t.Error("the budget was not used up")
	} else if g.vouch("newcomer", late); !g.allow("newcomer", a, late) {
		t.Error("whom an initial peer told of has no budget beside that of strangers")
	}
	if p, a := victim(0); !g.allow(p, a, day.Add(time.Hour)) {
		t.Error("refused for ever")
	}

	g, dials = newGate(false, false), 0
	for i := range 5000 { // many victims
		if g.allow(peer.ID(fmt.Sprint(i)), maddr(t, fmt.Sprintf("/ip4/203.%d.%d.7/tcp/80", i%200, i/200)), day) {
			dials++
		}
	}
	if dials != allTries {
		t.Errorf("%d dials of many machines at once, want %d", dials, allTries)
	}

	g = newGate(false, false)
	at := netip.MustParseAddr("203.0.113.7")
	for i := range 1000 {
		p, a := victim(i)
		if !g.allow(p, a, day) {
			t.Fatalf("peer %d, which is there, is not dialled", i)
		}
		g.allow(p, maddr(t, "/ip4/203.0.113.8/tcp/1"), day) // an address of another network of its
		g.prove(p, at, day)
	}
	if len(g.proven) > maxProven || len(g.pending) != 0 || g.all[false].taken != 0 {
		t.Errorf("%d proven, %d pending, %d taken", len(g.proven), len(g.pending), g.all[false].taken)
	}
}

// What a gate remembers is bounded whoever feeds it.
func TestGateMemory(t *testing.T) {
	g := newGate(false, false)
	for i := range 3 * maxProven {
		now := day.Add(time.Duration(i) * time.Second)
		p := peer.ID(fmt.Sprint(i))
		ip := netip.AddrFrom4([4]byte{93, byte(i >> 16), byte(i >> 8), byte(i)})
		g.allow(p, maddr(t, fmt.Sprintf("/ip4/%s/tcp/1", ip)), now)
		g.vouch(p, now)
		if i%2 == 0 {
			g.prove(p, ip, now)
		}
	}
	if len(g.proven) > maxProven || len(g.hosts) > maxHosts || len(g.vouched) > maxProven || len(g.pending) > maxPending {
		t.Errorf("%d proven, %d hosts, %d pending", len(g.proven), len(g.hosts), len(g.pending))
	}
}

// A host dials a victim whose address strangers announce a few times only, and a peer that
// connected to it as often as it likes.
func TestHostIsNoReflector(t *testing.T) {
	victim, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	hits := make(chan struct{}, 1<<16)
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
	h := newHost(t, Config{})
	port := victim.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range 60 {
		p := newID(t)
		h.AddAddrs(p, []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)})
		if _, err := h.Ping(ctx, p); err == nil {
			t.Fatal("a victim answers a ping")
		}
	}
	if n := len(hits); n == 0 || n > hostTries+2 {
		t.Errorf("%d connections to the victim", n)
	}
	friend := newHost(t, Config{})
	if err := friend.Bootstrap(ctx, h.Addrs()); err != nil {
		t.Fatal(err)
	}
	h.AddAddrs(friend.ID(), friend.ListenAddrs())
	for range hostTries + 5 {
		if c := h.Contacts(friend.ID()); len(c) == 0 || !c[0].IP.IsLoopback() {
			t.Fatalf("contacts %v", c)
		}
		id, err := peer.Decode(string(friend.ID()))
		if err != nil {
			t.Fatal(err)
		}
		h.h.Network().ClosePeer(id)
		if _, err := h.Ping(ctx, friend.ID()); err != nil {
			t.Fatal(err)
		}
	}
}

func newID(t *testing.T) swarm.PeerID {
	t.Helper()
	id, err := openIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := peer.IDFromPrivateKey(id.key)
	if err != nil {
		t.Fatal(err)
	}
	return swarm.PeerID(p.String())
}

// A peer proves an address by answering there, and no other by that.
func TestProves(t *testing.T) {
	a, b, c := newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{})
	if !a.Proves(t.Context(), b.ID(), append([]string{"nonsense"}, b.ListenAddrs()...)) {
		t.Error("b is not found where it is")
	}
	if a.Proves(t.Context(), b.ID(), c.ListenAddrs()) || a.Proves(t.Context(), b.ID(), nil) || a.Proves(t.Context(), "nobody", c.ListenAddrs()) {
		t.Error("b is found where c is")
	}
}

// One key has many spellings that libp2p reads; one of them is its peer id.
func TestCheckID(t *testing.T) {
	p := newID(t)
	if err := CheckID(p); err != nil {
		t.Error(err)
	}
	id, _ := peer.Decode(string(p))
	for _, bad := range []swarm.PeerID{"", "nobody", p + " ", "1" + p, p[:len(p)-1], swarm.PeerID(peer.ToCid(id).String()), swarm.PeerID(strings.ToUpper(string(p)))} {
		if err := CheckID(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
		if err := Verify(bad, "d", nil, nil); err == nil {
			t.Errorf("%q signs", bad)
		}
	}
}

func TestBest(t *testing.T) {
	all := []string{"/ip4/127.0.0.1/tcp/1", "/ip4/172.17.0.1/tcp/1", "/ip4/192.168.1.5/tcp/1", "/ip6/fe80::1/tcp/1", "/ip4/93.184.216.34/tcp/1", "/dns4/example.org/tcp/1"}
	want := "[/dns4/example.org/tcp/1 /ip4/93.184.216.34/tcp/1 /ip4/192.168.1.5/tcp/1 /ip4/172.17.0.1/tcp/1 /ip4/127.0.0.1/tcp/1 /ip6/fe80::1/tcp/1]"
	if got := Best(all, 8); fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
	if got := Best(all, 2); len(got) != 2 || got[0] != "/dns4/example.org/tcp/1" || all[0] != "/ip4/127.0.0.1/tcp/1" {
		t.Errorf("%v", got)
	}
}

func FuzzIPOf(f *testing.F) {
	f.Add("/ip4/1.2.3.4/tcp/5")
	f.Add("/ip6zone/x/ip6/fe80::1/tcp/5")
	f.Fuzz(func(t *testing.T, s string) {
		ip := IPOf(s)
		if !ip.IsValid() {
			return
		}
		if ip.Is4In6() || Prefix(ip) == "" {
			t.Errorf("%q: %v in %q", s, ip, Prefix(ip))
		}
	})
}
