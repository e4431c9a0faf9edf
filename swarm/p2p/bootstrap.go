package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// ParsePeers reads addresses that end in /p2p/ID. An empty list, an empty entry or a
// malformed one is an error that names it.
func ParsePeers(addrs []string) ([]peer.AddrInfo, error) {
	var all []ma.Multiaddr
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("peer address %q: %w: want /ip4/HOST/tcp/PORT/p2p/ID", s, err)
		}
		all = append(all, a)
	}
	infos, err := peer.AddrInfosFromP2pAddrs(all...)
	if err != nil {
		return nil, fmt.Errorf("peer addresses %s: %w: want /ip4/HOST/tcp/PORT/p2p/ID", strings.Join(addrs, ", "), err)
	}
	if len(infos) == 0 {
		return nil, errors.New("no peer address given: name one with --initial-peers or found a swarm with --new-swarm")
	}
	return infos, nil
}

// Bootstrap dials every address at once and returns as soon as one answers; the others go
// on in the background, at most for the time of some dials. Each that fails is logged in one
// line with its reason. If none answers the error names each. An address of this node's
// own id is skipped, or ErrIdentityInUse if another process answers there.
func (h *Host) Bootstrap(ctx context.Context, addrs []string) error {
	infos, err := ParsePeers(addrs)
	if err != nil {
		return err
	}
	results := make(chan error, len(addrs)) // nil, or the failure with its address
	dials := 0
	for _, info := range infos {
		if info.ID == h.h.ID() {
			var own []string
			for _, a := range info.Addrs {
				own = append(own, a.String())
			}
			if err := h.Twin(ctx, own); err != nil {
				return err
			}
			continue
		}
		h.forgive(info.ID)
		for _, a := range info.Addrs {
			h.gate.name(info.ID, a)
			if h.background(func() { results <- h.contact(ctx, info.ID, a) }) {
				dials++
			}
		}
	}
	if dials == 0 {
		return errors.New("the only initial peer is this node itself: name another with --initial-peers, or found a swarm with --new-swarm")
	}
	var failed []string
	for range dials {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			failed = append(failed, err.Error())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("none of the initial peers answers: %s: check the addresses and that one of them runs", strings.Join(failed, "; "))
}

// contact connects to a peer through one address, and logs why it cannot.
func (h *Host) contact(ctx context.Context, id peer.ID, a ma.Multiaddr) error {
	open, late, err := h.greet(ctx, a, func(ctx context.Context) error {
		h.forgive(id)
		return h.h.Connect(ctx, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{a}})
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	var why string
	switch {
	case !late:
		why = reason(err)
	case open:
		why = fmt.Sprintf("somebody listens there and completes no handshake within %v: it may have another swarm key or be no node", handshakes*h.dialTimeout)
	default:
		why = fmt.Sprintf("no answer within %v", h.dialTimeout)
	}
	h.log.Warn("initial peer does not answer", "addr", a.String(), "peer", id.String(), "reason", why)
	return fmt.Errorf("%s/p2p/%s (%s)", a, id, why)
}

// handshakes is how many handshakes are begun with whoever accepts connections, each with the
// time of a dial: a machine that is busy, such as with loading models, may miss the first.
const handshakes = 3

// greet runs a handshake, as often as that, with whoever listens at an address. open tells
// that somebody does, late that the last attempt failed for want of time.
func (h *Host) greet(ctx context.Context, a ma.Multiaddr, handshake func(context.Context) error) (open, late bool, err error) {
	if !isRelayed(a) {
		h.spoken.note("", ipOf(a), true, time.Now())
	}
	tries := 1
	if late, err = h.inTime(ctx, func(ctx context.Context) (err error) { open, err = h.tcpOpen(ctx, a); return err }); err != nil {
		return false, late, err
	}
	if open {
		tries = handshakes
	}
	for range tries {
		if late, err = h.inTime(ctx, handshake); !late || ctx.Err() != nil {
			break
		}
	}
	return open, late, err
}

// inTime runs f within the time of a dial; late tells that it failed for want of time.
func (h *Host) inTime(ctx context.Context, f func(context.Context) error) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.dialTimeout)
	defer cancel()
	err = f(ctx)
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)), err
}

// tcpOpen sees whether anybody listens at an address. libp2p dials all addresses of a peer
// together and would not say which of them are dead when one is not. Of an address that is not
// of TCP only the handshake tells: it is not open, and no error.
func (h *Host) tcpOpen(ctx context.Context, a ma.Multiaddr) (bool, error) {
	network, addr, err := manet.DialArgs(a)
	if err != nil || !strings.HasPrefix(network, "tcp") || isRelayed(a) {
		return false, nil
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

// reason is one line of an error, which libp2p spreads over many.
func reason(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "* ")
	if strings.Contains(last, "negotiate security protocol") {
		last += ": it may have another swarm key"
	}
	return last
}

// PackAddr writes an address that ends in /p2p/ID in few bytes, for an invitation.
func PackAddr(text string) ([]byte, error) {
	if _, err := ParsePeers([]string{text}); err != nil {
		return nil, err
	}
	a, err := ma.NewMultiaddr(text)
	if err != nil {
		return nil, err
	}
	return a.Bytes(), nil
}

// UnpackAddr is the way back, of bytes from a stranger.
func UnpackAddr(b []byte) (string, error) {
	a, err := ma.NewMultiaddrBytes(b)
	if err != nil {
		return "", fmt.Errorf("peer address of %d bytes: %w", len(b), err)
	}
	text := a.String()
	if _, err := ParsePeers([]string{text}); err != nil {
		return "", err
	}
	return text, nil
}
