package p2p

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// DefaultMaddrs listens on a port of every interface, TCP and UDP (QUIC); 0 takes one that is
// free in both.
func DefaultMaddrs(port int) []string {
	return []string{
		fmt.Sprintf("/ip4/0.0.0.0/tcp/%d", port), fmt.Sprintf("/ip6/::/tcp/%d", port),
		fmt.Sprintf("/ip4/0.0.0.0/udp/%d/quic-v1", port), fmt.Sprintf("/ip6/::/udp/%d/quic-v1", port),
	}
}

// TCPOnly are those of the addresses that are of TCP: what a swarm key can protect. QUIC has
// its handshake in its first packet, and no place for a key that all nodes share.
func TCPOnly(maddrs []string) []string {
	return slices.DeleteFunc(slices.Clone(maddrs), func(s string) bool { return !strings.Contains(s, "/tcp/") })
}

// wantListen is the form of an address to listen on.
const wantListen = "want /ip4/HOST/tcp/PORT or /ip4/HOST/udp/PORT/quic-v1"

// dialable is the network and the address of a transport that this package offers.
func dialable(a ma.Multiaddr) (network, addr string, err error) {
	network, addr, err = manet.DialArgs(a)
	switch {
	case err != nil:
		return "", "", err
	case strings.HasPrefix(network, "tcp"):
		return network, addr, nil
	case strings.HasPrefix(network, "udp") && isQUIC(a):
		return network, addr, nil
	}
	return "", "", errors.New(wantListen)
}

func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}

// portsFree sees that nobody listens on the ports asked for. libp2p shares ports, for
// dials to come from the one that listens, and would share them with another process too.
func portsFree(maddrs []string) error {
	for _, s := range maddrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return fmt.Errorf("listen address %q: %w: %s", s, err, wantListen)
		}
		network, addr, err := dialable(a)
		if err != nil {
			return fmt.Errorf("listen address %q: %s", s, wantListen)
		}
		// Any other failure is libp2p's to report: one address family is enough.
		if _, err := probe(network, addr); AddrInUse(err) {
			return cannotListen(s, syscall.EADDRINUSE)
		}
	}
	return nil
}

// probe listens for a moment, and tells the port.
func probe(network, addr string) (port int, err error) {
	if strings.HasPrefix(network, "tcp") {
		l, err := net.Listen(network, addr)
		if err != nil {
			return 0, err
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port, nil
	}
	l, err := net.ListenPacket(network, addr)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.LocalAddr().(*net.UDPAddr).Port, nil
}

// portTries is how often a port of TCP is drawn that is free in UDP too.
const portTries = 16

// onePort gives all addresses that ask for a free port, of TCP and UDP, the same one, so that
// a router needs one rule. Where only one transport is asked for, libp2p draws the port.
func onePort(maddrs []string) []string {
	tcp, udp := "", false
	for _, s := range maddrs {
		switch {
		case !strings.Contains(s+"/", "/0/"):
		case strings.HasSuffix(s, "/tcp/0"):
			tcp = s
		case strings.Contains(s, "/udp/0/"):
			udp = true
		}
	}
	if tcp == "" || !udp {
		return maddrs
	}
	a, err := ma.NewMultiaddr(tcp)
	if err != nil {
		return maddrs
	}
	network, addr, err := manet.DialArgs(a)
	if err != nil {
		return maddrs
	}
	for range portTries {
		port, err := probe(network, addr)
		if err != nil {
			return maddrs
		}
		out := make([]string, len(maddrs))
		for i, s := range maddrs {
			s = strings.Replace(s, "/udp/0/", "/udp/"+strconv.Itoa(port)+"/", 1)
			if before, ok := strings.CutSuffix(s, "/tcp/0"); ok {
				s = before + "/tcp/" + strconv.Itoa(port)
			}
			out[i] = s
		}
		if portsFree(out) == nil {
			return out
		}
	}
	return maddrs
}

// PortFree tells whether nobody listens on a port of the default addresses.
func PortFree(port int) bool { return portsFree(DefaultMaddrs(port)) == nil }
