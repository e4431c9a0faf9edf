package p2p

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
)

// Whoever makes records, or tells addresses in any other way, must not be able to make
// this node dial whom he likes. An address that its peer has proven, by connecting from it
// or by answering there, is dialled freely, and so is what the operator named. Any other
// may be tried, since somebody must be the first; but attempts at one machine, and all
// attempts together, have a budget that only success gives back.
const (
	// hostTries is how many attempts at one IP may be open or have failed at a time: a
	// machine with many nodes behind one address can be joined at once.
	hostTries = 16
	// hostEvery gives one of them back.
	hostEvery = 10 * time.Second
	// allTries and allEvery are the same for all IPs together.
	allTries = 128
	allEvery = time.Second
	// provenFor is how long a proof lasts after the last contact.
	provenFor = time.Hour
	// maxProven, maxHosts and maxPending bound what is remembered.
	maxProven, maxHosts, maxPending = 8192, 4096, 4096
)

// machine is what has a budget of attempts: an IP, as peers are known that an initial peer told
// of, or as others are. Whoever invents records with the address of an honest node uses up
// the budget of the others only.
type machine struct {
	ip      netip.Addr
	vouched bool
}

// spot is a peer at an IP.
type spot struct {
	peer peer.ID
	ip   netip.Addr
}

// dialled are attempts at a peer that may still be given back.
type dialled struct {
	where []machine
	at    time.Time
}

// gate decides which addresses may be dialled. The clock is passed in. Safe for concurrent
// use.
type gate struct {
	mu       sync.Mutex // guards all below
	loopback bool       // this node listens on loopback
	private  bool       // this machine has an address of a private network
	named    map[string]bool
	proven   map[spot]time.Time    // when last
	vouched  map[peer.ID]time.Time // told by an initial peer: when last
	hosts    map[machine]*bucket
	all      map[bool]*bucket // by vouched
	pending  map[peer.ID]*dialled
}

func newGate(onLoopback, onPrivate bool) *gate {
	return &gate{
		loopback: onLoopback, private: onPrivate, named: map[string]bool{}, proven: map[spot]time.Time{},
		vouched: map[peer.ID]time.Time{}, hosts: map[machine]*bucket{}, all: map[bool]*bucket{true: {}, false: {}}, pending: map[peer.ID]*dialled{},
	}
}

// bucket counts attempts; one is forgotten every so often. The zero value is empty.
type bucket struct {
	taken int
	at    time.Time // up to when forgetting is done
}

// level is how many attempts count now.
func (b *bucket) level(now time.Time, every time.Duration) int {
	if n := int(now.Sub(b.at) / every); n > 0 {
		b.taken, b.at = max(0, b.taken-n), b.at.Add(time.Duration(n)*every)
		if b.taken == 0 {
			b.at = now
		}
	}
	return b.taken
}

// name lets an address of a peer be dialled because the operator said so; for one that is
// a name of a host, whatever it resolves to.
func (g *gate) name(p peer.ID, a ma.Multiaddr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.named) >= maxProven {
		return
	}
	if ipOf(a).IsValid() {
		g.named[string(p)+a.String()] = true
	} else {
		g.named[string(p)] = true
	}
}

// vouch notes that an initial peer told of a peer.
func (g *gate) vouch(p peer.ID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.vouched) >= maxProven {
		forget(g.vouched, func(at time.Time) time.Time { return at }, now.Add(-provenFor))
	}
	g.vouched[p] = now
}

// prove notes that a peer is at an IP, and gives back what reaching it has cost.
func (g *gate) prove(p peer.ID, ip netip.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.pending[p]; d != nil {
		for _, m := range d.where {
			if b := g.hosts[m]; b != nil {
				b.taken = max(0, b.taken-1)
			}
			all := g.all[m.vouched]
			all.taken = max(0, all.taken-1)
		}
		delete(g.pending, p)
	}
	if !ip.IsValid() {
		return
	}
	if len(g.proven) >= maxProven {
		forget(g.proven, func(at time.Time) time.Time { return at }, now.Add(-provenFor))
	}
	g.proven[spot{p, ip}] = now
}

// forget drops what is older than a limit, and the oldest tenth if that is nothing.
func forget[K comparable, V any](m map[K]V, at func(V) time.Time, before time.Time) {
	dropped, oldest := 0, make([]time.Time, 0, len(m))
	for k, v := range m {
		if at(v).Before(before) {
			delete(m, k)
			dropped++
		} else {
			oldest = append(oldest, at(v))
		}
	}
	if dropped > 0 || len(oldest) == 0 {
		return
	}
	slices.SortFunc(oldest, time.Time.Compare)
	cut := oldest[len(oldest)/10]
	for k, v := range m {
		if !at(v).After(cut) {
			delete(m, k)
		}
	}
}

// allow decides about one attempt, and counts it.
func (g *gate) allow(p peer.ID, a ma.Multiaddr, now time.Time) bool {
	ip := ipOf(a)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.named[string(p)+a.String()] || g.named[string(p)] {
		return true
	}
	at := p // who is at that IP
	if isRelayed(a) {
		if at = relayOf(a); at == "" {
			return false
		}
	}
	if seen, ok := g.proven[spot{at, ip}]; ok && now.Sub(seen) < provenFor {
		return true
	}
	switch zoneOf(ip) {
	case nowhere:
		return false
	case loopback:
		if !g.loopback {
			return false
		}
	case private:
		if !g.private {
			return false
		}
	}
	told, ok := g.vouched[p]
	m := machine{ip, ok && now.Sub(told) < provenFor}
	b, all := g.hosts[m], g.all[m.vouched]
	if b == nil {
		if len(g.hosts) >= maxHosts {
			forget(g.hosts, func(b *bucket) time.Time { return b.at }, now.Add(-hostTries*hostEvery))
		}
		b = &bucket{at: now}
		g.hosts[m] = b
	}
	if b.level(now, hostEvery) >= hostTries || all.level(now, allEvery) >= allTries {
		return false
	}
	b.taken++
	all.taken++
	g.remember(p, m, now)
	return true
}

// remember notes what may be given back should the peer be reached. mu is held.
func (g *gate) remember(p peer.ID, m machine, now time.Time) {
	d := g.pending[p]
	if d == nil || now.Sub(d.at) > dialTimeout {
		if len(g.pending) >= maxPending {
			forget(g.pending, func(d *dialled) time.Time { return d.at }, now.Add(-dialTimeout))
		}
		d = &dialled{}
		g.pending[p] = d
	}
	d.where, d.at = append(d.where, m), now
}

// onPrivate tells whether this machine has an address of a private network.
func onPrivate() bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // the budgets remain
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && zoneOf(ip.Unmap()) == private && !ip.IsLinkLocalUnicast() {
				return true
			}
		}
	}
	return false
}

// onLoopback tells whether any of the addresses to listen on takes connections from this
// machine's loopback.
func onLoopback(maddrs []string) bool {
	for _, s := range maddrs {
		if ip := IPOf(s); ip.IsLoopback() || ip.IsUnspecified() {
			return true
		}
	}
	return false
}

// gater is the gate as libp2p asks it. It judges dials; whom the operator denies, or does not allow,
// whoever begins.
type gater struct {
	*gate
	h *Host
}

func (g gater) InterceptPeerDial(peer.ID) bool { return true }
func (g gater) InterceptAddrDial(p peer.ID, a ma.Multiaddr) bool {
	now := time.Now()
	ok := g.h.policy.address(p, a) && !g.h.deadRelay(a, now) && g.allow(p, a, now)
	if ok && !isRelayed(a) {
		g.h.spoken.note(p, ipOf(a), true, now)
	}
	return ok
}
func (g gater) InterceptAccept(c lnet.ConnMultiaddrs) bool {
	return g.h.policy.stranger(ipOf(c.RemoteMultiaddr()))
}
func (g gater) InterceptSecured(_ lnet.Direction, p peer.ID, c lnet.ConnMultiaddrs) bool {
	return g.h.policy.address(p, c.RemoteMultiaddr())
}
func (g gater) InterceptUpgraded(lnet.Conn) (bool, control.DisconnectReason) { return true, 0 }

// contacts keeps the gate informed of who is where.
func (h *Host) contacts() lnet.Notifiee {
	prove := func(_ lnet.Network, c lnet.Conn) {
		var at netip.Addr // through a relay a peer proves who it is, and not where
		if !isRelayed(c.RemoteMultiaddr()) {
			at = ipOf(c.RemoteMultiaddr())
			h.spoken.note(c.RemotePeer(), at, c.Stat().Direction == lnet.DirOutbound, time.Now())
		}
		h.gate.prove(c.RemotePeer(), at, time.Now())
	}
	return &lnet.NotifyBundle{ConnectedF: prove, DisconnectedF: func(n lnet.Network, c lnet.Conn) {
		prove(n, c) // the proof lasts from the end on
		if isRelayed(c.RemoteMultiaddr()) {
			h.relayEnded(relayOf(c.RemoteMultiaddr()))
		}
	}}
}

// relayEnded notes that a connection through a relay has ended.
func (h *Host) relayEnded(r peer.ID) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended[r] = now; len(h.ended) > maxPending {
		forget(h.ended, func(at time.Time) time.Time { return at }, now.Add(-deadRelayFor))
	}
}

// deadRelayFor is how long a relay is not asked again whose connections have ended with its own.
const deadRelayFor = 10 * time.Second

// deadRelay tells an address at a relay that has just gone: libp2p tries one relay after the
// other, and would wait for this one while the streams that it carried wait for another.
func (h *Host) deadRelay(a ma.Multiaddr, now time.Time) bool {
	if !isRelayed(a) {
		return false
	}
	r := relayOf(a)
	h.mu.Lock()
	at, ok := h.ended[r]
	h.mu.Unlock()
	return ok && now.Sub(at) < deadRelayFor && h.h != nil && h.h.Network().Connectedness(r) != lnet.Connected
}

// Vouch says that a node which the operator named told of a peer.
func (h *Host) Vouch(p swarm.PeerID) {
	if id, err := peer.Decode(string(p)); err == nil {
		h.gate.vouch(id, time.Now())
	}
}

// Contact is a connection to a peer: the far end's IP, and whether this node dialled it.
type Contact struct {
	IP      netip.Addr
	Dialled bool
}

// Contacts are the connections to a peer, those that this node dialled first.
func (h *Host) Contacts(p swarm.PeerID) []Contact {
	id, err := peer.Decode(string(p))
	if err != nil {
		return nil
	}
	var out, in []Contact
	for _, c := range h.h.Network().ConnsToPeer(id) {
		if one := contactOf(c); one.Dialled {
			out = append(out, one)
		} else {
			in = append(in, one)
		}
	}
	return append(out, in...)
}

func contactOf(c lnet.Conn) Contact {
	return Contact{ipOf(c.RemoteMultiaddr()), c.Stat().Direction == lnet.DirOutbound}
}
