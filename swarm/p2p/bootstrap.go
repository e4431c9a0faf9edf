package p2p

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	p2pswarm "github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
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
// on in the background for their time-out and are logged if they fail, a line each. If
// none answers the error names each with its reason.
func (h *Host) Bootstrap(ctx context.Context, addrs []string) error {
	infos, err := ParsePeers(addrs)
	if err != nil {
		return err
	}
	if len(infos) == 1 && infos[0].ID == h.h.ID() {
		return errors.New("the only initial peer is this node itself")
	}
	if sw, ok := h.h.Network().(*p2pswarm.Swarm); ok {
		for _, info := range infos { // whoever asks to join wants a dial now, not its absence
			sw.Backoff().Clear(info.ID)
		}
	}
	type outcome struct {
		addr string
		err  error
	}
	var dials int
	results := make(chan outcome, len(addrs))
	var wg sync.WaitGroup
	for _, info := range infos {
		if info.ID == h.h.ID() {
			continue
		}
		for _, a := range info.Addrs {
			dials++
			wg.Go(func() {
				dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
				defer cancel()
				err := h.h.Connect(dctx, peer.AddrInfo{ID: info.ID, Addrs: []ma.Multiaddr{a}})
				if err != nil {
					h.log.Warn("bootstrap peer did not answer", "addr", a.String(), "peer", info.ID.String(), "reason", reason(err))
				}
				results <- outcome{a.String() + "/p2p/" + info.ID.String(), err}
			})
		}
	}
	h.wg.Go(wg.Wait)
	var failed []string
	for range dials {
		select {
		case r := <-results:
			if r.err == nil {
				return nil
			}
			failed = append(failed, fmt.Sprintf("%s (%s)", r.addr, reason(r.err)))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("none of the initial peers answers: %s: check the addresses and that one of them runs", strings.Join(failed, "; "))
}

// reason is the last line of an error, which libp2p spreads over many.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", dialTimeout)
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.TrimPrefix(last, "* ")
}
