package p2p

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
)

// List names peers: by their ids, and by where they are. The zero value names nobody.
type List struct {
	peers  map[peer.ID]bool
	places []netip.Prefix
}

// ParseList reads peer ids, IP addresses, and prefixes such as 203.0.113.0/24.
func ParseList(items []string) (List, error) {
	l := List{peers: map[peer.ID]bool{}}
	for _, s := range items {
		s = strings.TrimSpace(s)
		if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			l.places = append(l.places, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		if p, err := netip.ParsePrefix(s); err == nil && !p.Addr().Is4In6() {
			l.places = append(l.places, p.Masked())
			continue
		}
		id, err := peer.Decode(s)
		if err != nil {
			return List{}, fmt.Errorf("%.80q is neither a peer id nor an IP address nor a prefix such as 203.0.113.0/24", s)
		}
		l.peers[id] = true
	}
	return l, nil
}

// Empty tells whether the list names nobody.
func (l List) Empty() bool { return len(l.peers) == 0 && len(l.places) == 0 }

// Add names a peer of an address with /p2p; one without is passed over.
func (l *List) Add(addr string) {
	if a, err := ma.NewMultiaddr(addr); err == nil {
		if id, err := peer.IDFromP2PAddr(a); err == nil {
			l.peers[id] = true
		}
	}
}

// has tells whether the list names a peer or its place, of which either may be unknown.
func (l List) has(p peer.ID, ip netip.Addr) bool {
	return l.peers[p] || ip.IsValid() && slices.ContainsFunc(l.places, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// policy says with whom this node has connections at all, whoever begins: with nobody who is
// denied, and, where anybody is allowed by name, with no others.
type policy struct{ allow, deny List }

func (l policy) permits(p peer.ID, ip netip.Addr) bool {
	return !l.deny.has(p, ip) && (l.allow.Empty() || l.allow.has(p, ip))
}

// address judges a peer at an address: through a relay the two of them, and where the peer is then is
// not known.
func (l policy) address(p peer.ID, a ma.Multiaddr) bool {
	if !isRelayed(a) {
		return l.permits(p, ipOf(a))
	}
	return l.permits(relayOf(a), ipOf(a)) && l.permits(p, netip.Addr{})
}

// stranger judges a caller whose identity is not known yet: false if it cannot be permitted.
func (l policy) stranger(ip netip.Addr) bool {
	return !l.deny.has("", ip) && (l.allow.Empty() || len(l.allow.peers) > 0 || l.allow.has("", ip))
}

// Permits tells whether this node may be connected to a peer at any of its addresses, which are
// without /p2p: what is false for others is no use to it.
func (h *Host) Permits(p swarm.PeerID, addrs []string) bool {
	if h.policy.allow.Empty() && h.policy.deny.Empty() {
		return true
	}
	id, err := peer.Decode(string(p))
	return err == nil && (id == h.h.ID() || slices.ContainsFunc(addrs, func(s string) bool {
		a, err := ma.NewMultiaddr(s)
		return err == nil && h.policy.address(id, a)
	}))
}
