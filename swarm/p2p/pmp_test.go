package p2p

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

// pmpRouter answers as RFC 6886 says, at an address of loopback that nobody else has.
type pmpRouter struct {
	conn net.PacketConn

	mu      sync.Mutex // guards all below
	forward map[string]int
	taken   int // an outer port that somebody else has
}

func newPMPRouter(t *testing.T, taken int) *pmpRouter {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.77.1:5351")
	if err != nil {
		t.Skipf("not proven: NAT-PMP: %v", err)
	}
	r := &pmpRouter{conn: c, taken: taken, forward: map[string]int{}}
	t.Cleanup(func() { c.Close() })
	go r.serve()
	return r
}

func (r *pmpRouter) serve() {
	b := make([]byte, 64)
	for {
		n, from, err := r.conn.ReadFrom(b)
		if err != nil {
			return
		}
		switch {
		case n == 2 && b[1] == 0:
			r.conn.WriteTo([]byte{0, 128, 0, 0, 0, 0, 0, 9, 203, 0, 113, 5}, from)
		case n == 12:
			in, out, life := int(binary.BigEndian.Uint16(b[4:])), int(binary.BigEndian.Uint16(b[6:])), binary.BigEndian.Uint32(b[8:])
			key := fmt.Sprintf("%s %d", map[byte]string{1: "udp", 2: "tcp"}[b[1]], in)
			r.mu.Lock()
			if life == 0 {
				delete(r.forward, key)
			} else {
				if out == r.taken {
					out++
				}
				r.forward[key] = out
			}
			r.mu.Unlock()
			a := append([]byte{0, 128 + b[1], 0, 0, 0, 0, 0, 9}, b[4:12]...)
			binary.BigEndian.PutUint16(a[10:], uint16(out))
			r.conn.WriteTo(a, from)
		}
	}
}

func (r *pmpRouter) forwards() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.forward)
}

// A router that speaks NAT-PMP forwards both ports, from the same number outside where that is
// free, and no more once the node has ended.
func TestPMP(t *testing.T) {
	r := newPMPRouter(t, 4002)
	p := &pmp{router: net.IPv4(127, 0, 77, 1), ports: map[inner]int{}}
	listening := []ma.Multiaddr{maddr(t, "/ip4/0.0.0.0/tcp/4001"), maddr(t, "/ip4/0.0.0.0/udp/4002/quic-v1"), maddr(t, "/ip6/::/tcp/4003"), maddr(t, "/ip4/127.0.0.1/tcp/4004")}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.keep(ctx, func() []ma.Multiaddr { return listening }) }()
	await(t, "both are forwarded", func() bool {
		return maps.Equal(r.forwards(), map[string]int{"tcp 4001": 4001, "udp 4002": 4003}) && p.mapping(listening[1]) != nil
	})
	var got []string
	for _, a := range listening {
		if m := p.mapping(a); m != nil {
			got = append(got, m.String())
		}
	}
	if want := []string{"/ip4/203.0.113.5/tcp/4001", "/ip4/203.0.113.5/udp/4003/quic-v1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	cancel()
	<-done
	if f := r.forwards(); len(f) > 0 {
		t.Errorf("after the end %v are forwarded", f)
	}
}
