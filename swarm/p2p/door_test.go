package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// everybody counts: attacks of tests come from loopback.
var everybody = []netip.Prefix{}

// Half-open connections of one address, without the swarm key, do not keep newcomers with
// the key out.
func TestHalfOpenConnections(t *testing.T) {
	key := filepath.Join(t.TempDir(), "swarm.key")
	os.WriteFile(key, []byte("/key/swarm/psk/1.0.0/\n/base16/\n"+strings.Repeat("a", 64)+"\n"), 0o600)
	victim := newHost(t, Config{SwarmKeyPath: key, Exempt: everybody})
	at := strings.Replace(strings.TrimPrefix(victim.ListenAddrs()[0], "/ip4/"), "/tcp/", ":", 1)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	refused := 0
	for range 1500 {
		c, err := from.Dial("tcp4", at)
		if err != nil {
			refused++
			continue
		}
		defer c.Close()
	}
	await(t, "the handshakes have begun", func() bool { return victim.door.handshakes.Used() > 100 })
	held, total := victim.door.handshakes.Used(), victim.door.handshakes.Total()
	if held > total/2 {
		t.Errorf("one address has %d of %d handshakes", held, total)
	}
	t.Logf("1500 connections: %d refused by the system, %d held of %d", refused, held, total)
	newcomer := newHost(t, Config{SwarmKeyPath: key, HostMaddrs: []string{"/ip4/127.0.0.3/tcp/0"}})
	if err := newcomer.Bootstrap(t.Context(), victim.Addrs()); err != nil {
		t.Errorf("a newcomer with the key: %v", err)
	}
}

// One peer has its share of the streams, however many it opens, and another finds room.
func TestStreamsOfOnePeer(t *testing.T) {
	victim := newHost(t, Config{Memory: 1}) // the least there can be
	victim.Handle("/mute", func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
		s.Write([]byte("x"))
		io.Copy(io.Discard, s)
	})
	liar, honest := newHost(t, Config{}), newHost(t, Config{})
	open := func(h *Host) error {
		h.AddAddrs(victim.ID(), victim.ListenAddrs())
		s, err := h.Dial(t.Context(), victim.ID(), "/mute")
		if err != nil {
			return err
		}
		t.Cleanup(func() { s.Reset() })
		_, err = io.ReadFull(s, make([]byte, 1)) // a dial tells nothing: what is refused is reset
		return err
	}
	got := 0
	for range 100 {
		if open(liar) == nil {
			got++
		}
	}
	if total := int(victim.door.streams.Total()); got < 10 || got > total/2 {
		t.Errorf("one peer has %d of %d streams", got, total)
	}
	for i := range 5 {
		if err := open(honest); err != nil {
			t.Errorf("stream %d of an honest peer: %v", i, err)
		}
	}
	liar.Close()
	await(t, "the liar's streams are given back", func() bool { return victim.door.streams.Used() < 20 })
}

// Who has itself dialled back, or comes through a relay as well, is still of its own prefix.
func TestDialledBack(t *testing.T) {
	d, err := resources(Config{Exempt: everybody})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p := newHost(t, Config{}).h.ID()
	relay := "/ip4/198.51.100.1/tcp/1/p2p/" + newHost(t, Config{}).h.ID().String() + "/p2p-circuit"
	for _, c := range []struct {
		dir  network.Direction
		addr string
	}{{network.DirInbound, "/ip4/203.0.113.7/tcp/1"}, {network.DirOutbound, "/ip4/203.0.113.7/tcp/2"}, {network.DirInbound, relay}} {
		knock, err := d.OpenConnection(c.dir, false, ma.StringCast(c.addr))
		if err != nil {
			t.Fatal(err)
		}
		defer knock.Done()
		if err := knock.SetPeer(p); err != nil {
			t.Fatal(err)
		}
		if at := d.nets[p]; at.net == "" || at.from.Peer != "203.0.113.7" {
			t.Errorf("after %s it is of %q, and its deeds are laid to %+v", c.addr, at.net, at.from)
		}
	}
}

// Whatever happens to a connection, its place is given back once.
func TestDoorGivesBack(t *testing.T) {
	d, err := resources(Config{Exempt: everybody})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	at := ma.StringCast("/ip4/203.0.113.7/tcp/1")
	a := newHost(t, Config{})
	for _, life := range []func(c network.ConnManagementScope){
		func(c network.ConnManagementScope) { c.Done(); c.Done() }, // the handshake fails
		func(c network.ConnManagementScope) {
			if err := c.SetPeer(a.h.ID()); err != nil || d.handshakes.Used() != 0 || d.conns.Used() != 1 {
				t.Errorf("after the handshake: %v, %d half open", err, d.handshakes.Used())
			}
			s, err := d.OpenStream(a.h.ID(), network.DirInbound)
			if err != nil || d.streams.Used() != 1 {
				t.Errorf("a stream: %v", err)
			}
			s.Done()
			s.Done()
			c.Done()
		},
	} {
		c, err := d.OpenConnection(network.DirInbound, true, at)
		if err != nil {
			t.Fatal(err)
		}
		life(c)
		if d.handshakes.Used() != 0 || d.conns.Used() != 0 || d.streams.Used() != 0 || len(d.nets) != 0 {
			t.Errorf("left: %d handshakes, %d connections, %d streams, %v", d.handshakes.Used(), d.conns.Used(), d.streams.Used(), d.nets)
		}
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// Who connects over TCP faster than connections are refused waits in the system's queue; over UDP
// nobody waits, since nothing is in a queue there.
func TestRefusalsTakeTime(t *testing.T) {
	for addr, want := range map[string]time.Duration{"/ip4/203.0.113.7/tcp/1": 2 * time.Second, "/ip4/203.0.113.7/udp/1/quic-v1": 0} {
		synctest.Test(t, func(t *testing.T) {
			d, err := resources(Config{Exempt: everybody})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			at := ma.StringCast(addr)
			var open []network.ConnManagementScope
			for range 600 { // those of one address at once
				c, err := d.OpenConnection(network.DirInbound, true, at)
				if err != nil {
					break
				}
				open = append(open, c)
			}
			began := time.Now()
			for range 3*refusedPerSecond - 1 {
				if c, err := d.OpenConnection(network.DirInbound, true, at); err == nil {
					c.Done()
				}
			}
			for _, c := range open {
				c.Done()
			}
			if took := time.Since(began).Round(100 * time.Millisecond); took != want {
				t.Errorf("%s: %d refusals took %v, want %v", addr, 3*refusedPerSecond, took, want)
			}
		})
	}
}

// Who goes on asking for what it is refused is hung up on, and no handshake is begun from its address
// any more; a peer of the same prefix keeps its connection, and one of another finds the door open.
func TestShutOut(t *testing.T) {
	victim := newHost(t, Config{Exempt: everybody})
	victim.door.penalties = budget.NewPenalties(budget.Rate{Burst: 8}, budget.Rate{Burst: 1e6}, time.Hour, time.Hour)
	victim.Handle("/no", func(_ context.Context, from swarm.PeerID, _ wire.Stream) { victim.Refused(from) })
	victim.Handle("/yes", func(_ context.Context, _ swarm.PeerID, s wire.Stream) {
		s.Write([]byte("y"))
		s.Close()
	})
	host := func(ip string) *Host {
		h := newHost(t, Config{HostMaddrs: []string{"/ip4/" + ip + "/tcp/0"}})
		h.AddAddrs(victim.ID(), victim.ListenAddrs())
		return h
	}
	asks := func(h *Host, proto string) bool {
		s, err := h.Dial(t.Context(), victim.ID(), proto)
		if err != nil {
			return false
		}
		defer s.Reset()
		_, err = io.ReadFull(s, make([]byte, 1))
		return err == nil
	}
	liar, neighbour := host("127.0.7.1"), host("127.0.7.2")
	if !asks(neighbour, "/yes") || !asks(liar, "/yes") {
		t.Fatal("the door is not open")
	}
	for range 9 {
		asks(liar, "/no")
	}
	await(t, "the liar is hung up on", func() bool { return victim.h.Network().Connectedness(liar.h.ID()) != network.Connected })
	before := victim.door.handshakes.Used()
	for _, at := range []string{"/ip4/127.0.7.1/tcp/1", "/ip4/127.0.7.1/udp/1/quic-v1"} {
		if _, err := victim.door.OpenConnection(network.DirInbound, true, ma.StringCast(at)); !errors.Is(err, errShutOut) || victim.door.handshakes.Used() > before {
			t.Errorf("another knock from %s: %v", at, err)
		}
	}
	if out, err := victim.door.OpenConnection(network.DirOutbound, true, ma.StringCast("/ip4/127.0.7.1/tcp/1")); err != nil {
		t.Errorf("this node goes there: %v", err)
	} else {
		out.Done()
	}
	if !asks(neighbour, "/yes") || !asks(host("127.0.8.1"), "/yes") {
		t.Error("others are shut out too")
	}
}
