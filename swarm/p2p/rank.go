package p2p

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// stagger is the time between two attempts at a peer's public addresses: a round trip of
	// most links (RFC 8305). siteStagger is that of private networks.
	stagger     = 250 * time.Millisecond
	siteStagger = 30 * time.Millisecond
	// relayStagger is how much later a relay is dialled where there are other addresses.
	relayStagger = 500 * time.Millisecond
)

// rank says when which address of a peer is dialled; the first that answers wins. TCP goes
// first, since it takes half the time and a third of the processor time of QUIC for a frame
// (docs/perf.md), then QUIC, each in IPv6 and IPv4, then what is left. Of both kinds of IP and
// both transports any may be dead, and costs three steps at most: less than a second.
func rank(addrs []ma.Multiaddr) []network.AddrDelay {
	var site, wide, relayed []ma.Multiaddr
	for _, a := range addrs {
		switch {
		case isRelayed(a):
			relayed = append(relayed, a)
		case manet.IsPrivateAddr(a):
			site = append(site, a)
		default:
			wide = append(wide, a)
		}
	}
	out := append(inSteps(site, siteStagger, 0), inSteps(wide, stagger, 0)...)
	var offset time.Duration
	if len(out) > 0 {
		offset = relayStagger
	}
	return append(out, inSteps(relayed, stagger, offset)...)
}

// inSteps gives the first address of each kind a step of its own, TCP before QUIC and IPv6
// before IPv4, and all others the last one together.
func inSteps(addrs []ma.Multiaddr, step, offset time.Duration) []network.AddrDelay {
	kind := func(a ma.Multiaddr) (k int) {
		if isQUIC(a) {
			k = 2
		}
		if _, err := a.ValueForProtocol(ma.P_IP4); err == nil {
			k++
		}
		return k
	}
	firsts := [4]ma.Multiaddr{}
	var rest []ma.Multiaddr
	for _, a := range addrs {
		if k := kind(a); firsts[k] == nil {
			firsts[k] = a
		} else {
			rest = append(rest, a)
		}
	}
	var out []network.AddrDelay
	delay := offset
	for _, a := range firsts {
		if a != nil {
			out = append(out, network.AddrDelay{Addr: a, Delay: delay})
			delay += step
		}
	}
	if n := len(out); n == len(firsts) { // others may not make the fourth kind wait
		delay = out[n-1].Delay
	}
	for _, a := range rest {
		out = append(out, network.AddrDelay{Addr: a, Delay: delay})
	}
	slices.SortStableFunc(out, func(a, b network.AddrDelay) int { return int(a.Delay - b.Delay) })
	return out
}

// isRelayed tells an address at a relay.
func isRelayed(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil
}
