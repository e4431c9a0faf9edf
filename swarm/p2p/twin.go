package p2p

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	p2pswarm "github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multistream"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// protoInstance tells which process answers: 16 bytes that it made up at its start.
const protoInstance = "/whorl/instance/1"

func (h *Host) answerInstance(_ context.Context, _ swarm.PeerID, s wire.Stream) {
	s.SetDeadline(time.Now().Add(h.dialTimeout))
	if _, err := s.Write(h.instance[:]); err == nil {
		s.Close()
	}
}

// Twin looks for another process with this node's identity at the given addresses, which
// are those of a record that bears the identity and is not ours. A process that answers
// there has proven that it holds the key; it is a twin if it is not this one. One that is
// busy is asked as often as [Host.Bootstrap] would. The error wraps ErrIdentityInUse.
func (h *Host) Twin(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan string, len(addrs))
	var wg sync.WaitGroup
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		wg.Go(func() {
			var other [16]byte
			_, _, err := h.greet(ctx, a, func(ctx context.Context) (err error) {
				other, err = h.instanceAt(ctx, a)
				return err
			})
			if err == nil && other != h.instance {
				found <- s
				cancel()
			}
		})
	}
	wg.Wait()
	select {
	case s := <-found:
		return fmt.Errorf("%w: a node at %s has it: give this node its own with --identity-path, or stop that one", ErrIdentityInUse, s)
	default:
		return nil
	}
}

// Proves tells whether a peer answers at one of the addresses, tried in turn within ctx: a
// connection that the peer made says who it is and not where it can be reached. Attempts
// count as those of any dial do.
func (h *Host) Proves(ctx context.Context, p swarm.PeerID, addrs []string) bool {
	id, err := peer.Decode(string(p))
	sw, ok := h.h.Network().(*p2pswarm.Swarm)
	if err != nil || !ok || id == h.h.ID() {
		return false
	}
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		if isRelayed(a) && relayOf(a) == h.h.ID() {
			if h.direct(id) && h.relayed(id) {
				return true // through this very node
			}
			continue
		}
		if !h.gate.allow(id, a, time.Now()) {
			continue
		}
		t := sw.TransportForDialing(a)
		if t == nil {
			continue
		}
		if !isRelayed(a) {
			h.spoken.note(id, ipOf(a), true, time.Now())
		}
		if late, err := h.inTime(ctx, func(ctx context.Context) error {
			c, err := t.Dial(ctx, a, id) // which authenticates the peer
			if err != nil {
				return err
			}
			return c.Close()
		}); err == nil && !late {
			at := ipOf(a)
			if isRelayed(a) { // it is there, and not at that machine
				at = netip.Addr{}
			}
			h.gate.prove(id, at, time.Now())
			return true
		}
	}
	return false
}

// instanceAt asks the process at an address for its instance. libp2p dials nobody with our
// own id, so that this goes through the transport, beside the host's connections.
func (h *Host) instanceAt(ctx context.Context, a ma.Multiaddr) (got [16]byte, err error) {
	sw, ok := h.h.Network().(*p2pswarm.Swarm)
	if !ok {
		return got, fmt.Errorf("no transport")
	}
	t := sw.TransportForDialing(a)
	if t == nil {
		return got, fmt.Errorf("no transport for %s", a)
	}
	c, err := t.Dial(ctx, a, h.h.ID())
	if err != nil {
		return got, err
	}
	defer c.Close()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return got, err
	}
	defer s.Reset()
	if by, ok := ctx.Deadline(); ok {
		s.SetDeadline(by)
	}
	if err := multistream.SelectProtoOrFail(protocol.ID(protoInstance), s); err != nil {
		return got, err
	}
	_, err = io.ReadFull(s, got[:])
	return got, err
}
