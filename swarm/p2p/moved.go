package p2p

import (
	"net"
	"net/netip"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"
)

// movedTick is how often this machine's addresses are looked at.
const movedTick = time.Second

// watchMoves closes connections from addresses that this machine no longer has, as a laptop that
// is carried to another network: nothing comes there any more, and nobody says so. Whoever
// used them dials anew. It ends with the host.
func (h *Host) watchMoves() {
	tick := time.NewTicker(movedTick)
	defer tick.Stop()
	for {
		select {
		case <-h.live.Done():
			return
		case <-tick.C:
		}
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			continue
		}
		for _, c := range gone(h.h.Network().Conns(), addrs) {
			h.log.Info("a connection is closed, since this machine has another address now", "peer", c.RemotePeer(), "from", c.LocalMultiaddr())
			c.Close()
		}
	}
}

// gone are the connections from addresses that are not among those of a machine. QUIC's come from
// whatever address there is, and move by themselves.
func gone(conns []lnet.Conn, addrs []net.Addr) (out []lnet.Conn) {
	have := map[netip.Addr]bool{}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			ip, _ := netip.AddrFromSlice(n.IP)
			have[ip.Unmap()] = true
		}
	}
	for _, c := range conns {
		ip, err := manet.ToIP(c.LocalMultiaddr())
		if err != nil || isRelayed(c.RemoteMultiaddr()) {
			continue
		}
		at, _ := netip.AddrFromSlice(ip)
		if at = at.Unmap(); at.IsValid() && !at.IsUnspecified() && !at.IsLoopback() && !have[at] {
			out = append(out, c)
		}
	}
	return out
}
