package p2p

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	natpmp "github.com/jackpal/go-nat-pmp"
	"github.com/libp2p/go-netroute"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// pmpTime bounds a question to the router, which is near.
	pmpTime = 2 * time.Second
	// pmpLease is how long the router forwards a port without being asked again: what is left of a
	// node that crashed is gone by then. pmpRenew is when it is asked again, pmpRetry where it refused.
	pmpLease = 10 * time.Minute
	pmpRenew = pmpLease / 3
	pmpRetry = 30 * time.Second
	// pmpLook is how often is looked whether the node listens on more ports.
	pmpLook = 2 * time.Second
)

// pmp has the router forward ports over NAT-PMP (RFC 6886): from the same port outside, if it can.
type pmp struct {
	router net.IP

	mu    sync.Mutex // guards all below
	outer netip.Addr
	ports map[inner]int // outer ports; 0: refused
}

// inner is a port of this node.
type inner struct {
	proto string // "tcp" or "udp"
	port  int
}

// innerOf is the port that an address listens on; false for one that no router translates.
func innerOf(a ma.Multiaddr) (inner, bool) {
	ip := ipOf(a)
	if !ip.Is4() || ip.IsLoopback() {
		return inner{}, false
	}
	for proto, code := range map[string]int{"tcp": ma.P_TCP, "udp": ma.P_UDP} {
		if s, err := a.ValueForProtocol(code); err == nil {
			port, err := strconv.Atoi(s)
			return inner{proto, port}, err == nil && port > 0
		}
	}
	return inner{}, false
}

// findPMP asks the router on the way to the internet whether it speaks NAT-PMP; nil if not.
func findPMP(ctx context.Context) *pmp {
	routes, err := netroute.New()
	if err != nil {
		return nil
	}
	_, router, _, err := routes.Route(net.IPv4(192, 0, 2, 1)) // any address of the internet will do
	if err != nil || router == nil || router.IsUnspecified() {
		return nil
	}
	p := &pmp{router: router, ports: map[inner]int{}}
	if !p.look() || ctx.Err() != nil {
		return nil
	}
	return p
}

func (p *pmp) client() *natpmp.Client { return natpmp.NewClientWithTimeout(p.router, pmpTime) }

// look asks for the address outside.
func (p *pmp) look() bool {
	got, err := p.client().GetExternalAddress()
	if err != nil {
		return false
	}
	p.mu.Lock()
	p.outer = netip.AddrFrom4(got.ExternalIPAddress)
	p.mu.Unlock()
	return true
}

// keep has the ports forwarded that the node listens on, until ctx ends, and then no more.
func (p *pmp) keep(ctx context.Context, listening func() []ma.Multiaddr) {
	var due time.Time
	for {
		if all := listening(); p.news(all) || len(all) > 0 && !time.Now().Before(due) {
			wait := pmpRenew
			if !p.look() || !p.ask(all) {
				wait = pmpRetry
			}
			due = time.Now().Add(wait)
		}
		select {
		case <-time.After(pmpLook):
		case <-ctx.Done():
			p.release()
			return
		}
	}
}

// news tells whether the node listens on a port that the router was never asked for.
func (p *pmp) news(listening []ma.Multiaddr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(listening, func(a ma.Multiaddr) bool {
		in, ok := innerOf(a)
		_, asked := p.ports[in]
		return ok && !asked
	})
}

// ask asks for every port, or again; it tells whether all are forwarded.
func (p *pmp) ask(listening []ma.Multiaddr) bool {
	all := true
	for _, a := range listening {
		in, ok := innerOf(a)
		if !ok {
			continue
		}
		p.mu.Lock()
		out := p.ports[in]
		p.mu.Unlock()
		if out == 0 {
			out = in.port
		}
		got, err := p.client().AddPortMapping(in.proto, in.port, out, int(pmpLease.Seconds()))
		out = 0
		if err == nil {
			out = int(got.MappedExternalPort)
		}
		all = all && out != 0
		p.mu.Lock()
		p.ports[in] = out
		p.mu.Unlock()
	}
	return all
}

// release has the router forget them.
func (p *pmp) release() {
	p.mu.Lock()
	defer p.mu.Unlock() // nobody asks any more
	var asking sync.WaitGroup
	for in, out := range p.ports {
		if out != 0 {
			asking.Go(func() { p.client().AddPortMapping(in.proto, in.port, 0, 0) })
		}
	}
	asking.Wait()
	clear(p.ports)
}

// mapping is where the router forwards to a listening address; nil for nowhere.
func (p *pmp) mapping(a ma.Multiaddr) ma.Multiaddr {
	in, ok := innerOf(a)
	if !ok {
		return nil
	}
	p.mu.Lock()
	out, outer := p.ports[in], p.outer
	p.mu.Unlock()
	if out == 0 || !outer.IsValid() || outer.IsUnspecified() {
		return nil
	}
	text := "/ip4/" + outer.String() + "/" + in.proto + "/" + strconv.Itoa(out)
	if isQUIC(a) {
		text += "/quic-v1"
	}
	m, err := ma.NewMultiaddr(text)
	if err != nil {
		return nil
	}
	return m
}
