package p2p

import (
	"context"
	"slices"
	"sync"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// routerLook is how often is looked whether a router was found, for at most routerWait.
	routerLook = 250 * time.Millisecond
	routerWait = 15 * time.Second
)

// mapper asks the router for ports and gives them back: over NAT-PMP where it speaks that, else over
// UPnP. libp2p's manager finds no router that speaks NAT-PMP, and over UPnP remembers one outer port
// for TCP and UDP of the same number, so that it would give back one of the two: here each transport
// has a manager of its own, one after the other, since some routers cannot answer two at a time.
type mapper struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex // guards all below
	pmp      *pmp       // nil: the router does not speak it
	tcp, udp basichost.NATManager
}

var _ basichost.NATManager = (*mapper)(nil)

// ofTransport is a network that listens over one transport. When its listeners are closed it still
// says where they were: libp2p would give ports back at once, and be interrupted in it by its own
// end, which gives back what is left.
type ofTransport struct {
	lnet.Network
	code int // of the multiaddr protocol

	mu   sync.Mutex // guards last
	last []ma.Multiaddr
}

func (n *ofTransport) ListenAddresses() []ma.Multiaddr {
	now := slices.DeleteFunc(slices.Clone(n.Network.ListenAddresses()), func(a ma.Multiaddr) bool { return !has(a, n.code) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(now) > 0 {
		n.last = now
	}
	return slices.Clone(n.last)
}

// has tells whether an address has a part of a protocol.
func has(a ma.Multiaddr, code int) bool {
	_, err := a.ValueForProtocol(code)
	return err == nil
}

func newMapper(n lnet.Network) *mapper {
	ctx, stop := context.WithCancel(context.Background())
	m := &mapper{stop: stop}
	m.wg.Go(func() { m.run(ctx, n) })
	return m
}

// run looks for a router, and keeps what it forwards until ctx ends.
func (m *mapper) run(ctx context.Context, n lnet.Network) {
	if p := findPMP(ctx); p != nil {
		m.mu.Lock()
		m.pmp = p
		m.mu.Unlock()
		p.keep(ctx, n.ListenAddresses)
		return
	}
	if ctx.Err() != nil {
		return
	}
	first := basichost.NewNATManager(&ofTransport{Network: n, code: ma.P_TCP})
	m.mu.Lock()
	m.tcp = first
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, routerWait)
	defer cancel()
	for !first.HasDiscoveredNAT() {
		select {
		case <-time.After(routerLook):
		case <-ctx.Done():
			return
		}
	}
	second := basichost.NewNATManager(&ofTransport{Network: n, code: ma.P_UDP})
	m.mu.Lock()
	m.udp = second
	m.mu.Unlock()
}

// HasDiscoveredNAT tells whether a router was found that forwards ports when it is asked to.
func (m *mapper) HasDiscoveredNAT() bool {
	m.mu.Lock()
	p, tcp := m.pmp, m.tcp
	m.mu.Unlock()
	return p != nil || tcp != nil && tcp.HasDiscoveredNAT()
}

// GetMapping is where the router forwards to a listening address; nil for nowhere.
func (m *mapper) GetMapping(a ma.Multiaddr) ma.Multiaddr {
	m.mu.Lock()
	p, by := m.pmp, m.tcp
	if !has(a, ma.P_TCP) {
		by = m.udp
	}
	m.mu.Unlock()
	switch {
	case p != nil:
		return p.mapping(a)
	case by != nil:
		return by.GetMapping(a)
	}
	return nil
}

// Close gives the ports back.
func (m *mapper) Close() error {
	m.stop()
	m.wg.Wait() // nobody changes them any more
	for _, by := range []basichost.NATManager{m.tcp, m.udp} {
		if by != nil {
			by.Close()
		}
	}
	return nil
}
