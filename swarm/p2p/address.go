package p2p

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"whorl/swarm"
	"whorl/swarm/budget"
)

// CheckID refuses whatever is not the canonical text of a peer id. A key has many spellings
// (CIDs of several bases) that libp2p reads as well; a peer with several names would count
// as several, and a ban of one would not hold for the others.
func CheckID(p swarm.PeerID) error {
	id, err := peer.Decode(string(p))
	if err != nil {
		return fmt.Errorf("peer id %.100q: %w", string(p), err)
	}
	if id.String() != string(p) {
		return fmt.Errorf("peer id %.100q is another spelling of %s", string(p), id)
	}
	return nil
}

// IPOf is the IP of a multiaddr, invalid for one that has none, such as a name.
func IPOf(addr string) netip.Addr {
	a, err := ma.NewMultiaddr(addr)
	if err != nil {
		return netip.Addr{}
	}
	return ipOf(a)
}

func ipOf(a ma.Multiaddr) netip.Addr {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}
	}
	out, _ := netip.AddrFromSlice(ip)
	return out.Unmap()
}

// relayOf is the relay of an address at one; "" if it names none.
func relayOf(a ma.Multiaddr) peer.ID {
	before, _ := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_CIRCUIT })
	id, err := peer.IDFromP2PAddr(before)
	if err != nil {
		return ""
	}
	return id
}

// Prefix is the network that an address belongs to as whoever pays for addresses sees it, of
// any address: identities are free, prefixes are not.
func Prefix(ip netip.Addr) string { return budget.Rule{Exempt: []netip.Prefix{}}.Net(ip) }

// zone is the kind of network an address is good in.
type zone int

const (
	nowhere  zone = iota // nobody can be dialled there
	loopback             // this machine
	private              // networks of a site
	public
)

// sharedSpace is what carriers use inside their networks (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

func zoneOf(ip netip.Addr) zone {
	switch {
	case !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return nowhere
	case ip.IsLoopback():
		return loopback
	case ip.IsPrivate() || ip.IsLinkLocalUnicast() || sharedSpace.Contains(ip):
		return private
	}
	return public
}

// Best keeps up to n addresses of a node: those that reach farthest first, and of the
// private ones those that containers use last.
func Best(addrs []string, n int) []string {
	rank := func(s string) int {
		ip := IPOf(s)
		switch {
		case !ip.IsValid(): // a name, which somebody configured
			return 0
		case zoneOf(ip) == public:
			return 1
		case ip.IsLinkLocalUnicast():
			return 5
		case zoneOf(ip) == loopback:
			return 4
		case containers.Contains(ip):
			return 3
		}
		return 2
	}
	out := slices.Clone(addrs)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return out[:min(n, len(out))]
}

// containers is where bridges of containers are put by default.
var containers = netip.MustParsePrefix("172.16.0.0/12")
