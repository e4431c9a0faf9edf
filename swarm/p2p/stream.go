package p2p

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"github.com/multiformats/go-multistream"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Dial opens a stream to a peer whose addresses are known. Errors are *swarm.Error with
// the verdict Elsewhere: CodePeerLost, or CodeVersion for a peer that answers and does not
// speak the protocol.
func (h *Host) Dial(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error) {
	h.hush(proto)
	id, err := peer.Decode(string(p))
	if err == nil {
		err = h.connect(ctx, id)
	}
	if err == nil && h.moves(id, proto) {
		var m wire.Stream
		if m, err = h.dialMoving(ctx, id, proto); err == nil {
			h.use(p, proto)
			return m, nil
		}
	} else if err == nil {
		var s network.Stream
		if s, err = h.h.NewStream(ctx, id, protocol.ID(proto)); err == nil {
			h.log.Debug("stream", "peer", p, "protocol", proto, "addr", s.Conn().RemoteMultiaddr())
			h.use(p, proto)
			return &placed{Stream: s}, nil
		}
	}
	e := &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: p, Message: "cannot dial peer " + p.Short() + ": " + reason(err)}
	if errors.Is(err, multistream.ErrNotSupported[protocol.ID]{}) {
		e.Code, e.Message = swarm.CodeVersion, fmt.Sprintf("peer %s does not speak %s: it runs another version, or has not this role", p.Short(), proto)
	}
	return nil, e
}

// connect sees that there is a connection to a peer. All who want one at a time share one
// attempt: to the gate they are one.
func (h *Host) connect(ctx context.Context, id peer.ID) error {
	if h.h.Network().Connectedness(id) == network.Connected {
		return nil
	}
	_, err := h.shared(ctx, "dial "+string(id), func(ctx context.Context) (time.Duration, error) {
		h.forgive(id)
		return 0, h.h.Connect(ctx, peer.AddrInfo{ID: id})
	})
	return err
}

// shared runs f in the background, for the time of a dial at most. Whoever asks for the same
// meanwhile gets its result too; it goes on when the one who began it has left.
func (h *Host) shared(ctx context.Context, what string, f func(context.Context) (time.Duration, error)) (time.Duration, error) {
	begun := h.flights.DoChan(what, func() (any, error) {
		var took time.Duration
		err := error(net.ErrClosed)
		over := make(chan struct{})
		if !h.background(func() {
			defer close(over)
			ctx, cancel := context.WithTimeout(h.live, h.dialTimeout)
			defer cancel()
			took, err = f(ctx)
		}) {
			return took, err
		}
		<-over
		return took, err
	})
	select {
	case r := <-begun:
		return r.Val.(time.Duration), r.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// usedFor is how long Used remembers, maxUsed how many peers.
const (
	usedFor = 10 * time.Minute
	maxUsed = 1024
)

// use notes that a stream was opened for a session.
func (h *Host) use(p swarm.PeerID, proto string) {
	if proto == wire.ProtoDirectory {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[p] = now; len(h.used) > maxUsed {
		forget(h.used, func(at time.Time) time.Time { return at }, now.Add(-usedFor))
	}
}

// Used are the peers to which this node lately opened streams other than the directory's,
// with the time.
func (h *Host) Used() map[swarm.PeerID]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.used)
}

// Handle answers streams of a protocol. The handler's context ends with the host; when the
// handler returns the stream is reset unless it was closed.
func (h *Host) Handle(proto string, f func(ctx context.Context, from swarm.PeerID, s wire.Stream)) {
	ctx, stop := context.WithCancel(context.Background())
	h.mu.Lock()
	h.stops = append(h.stops, stop)
	h.handlers[protocol.ID(proto)] = func(from swarm.PeerID, s wire.Stream) {
		defer s.Reset()
		f(ctx, from, s)
	}
	h.mu.Unlock()
	h.h.SetStreamHandler(protocol.ID(proto), func(s network.Stream) {
		done := make(chan struct{})
		// libp2p's goroutine lends itself, but only background is waited for by Close.
		if !h.background(func() {
			defer close(done)
			h.hush(proto)
			in := &placed{Stream: s, net: h.NetOf(s.Conn().RemoteMultiaddr())}
			defer in.Reset()
			f(ctx, swarm.PeerID(s.Conn().RemotePeer().String()), in)
		}) {
			s.Reset()
			return
		}
		<-done
	})
}

// Ping measures the round trip to a peer. Its callers at one time share one ping: a peer
// answers only a few of a node at once.
func (h *Host) Ping(ctx context.Context, p swarm.PeerID) (time.Duration, error) {
	id, err := peer.Decode(string(p))
	if err != nil {
		return 0, fmt.Errorf("ping: %w", err)
	}
	if err = h.connect(ctx, id); err == nil {
		var rtt time.Duration
		if rtt, err = h.shared(ctx, "ping "+string(id), func(ctx context.Context) (time.Duration, error) { return h.ping(ctx, id) }); err == nil {
			return rtt, nil
		}
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("ping %s: %w", p.Short(), ctx.Err())
	}
	return 0, fmt.Errorf("ping %s: %s", p.Short(), reason(err))
}

func (h *Host) ping(ctx context.Context, id peer.ID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	select {
	case r, ok := <-ping.Ping(ctx, h.h, id):
		switch {
		case !ok:
			return 0, context.Cause(ctx)
		case r.Error != nil:
			return 0, r.Error
		}
		h.smooth(swarm.PeerID(id.String()), r.RTT)
		return r.RTT, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

const (
	// smoothing weighs a new round trip against the mean of the earlier ones (Petals).
	smoothing = 0.2
	// rttTTL is how long a round trip counts as known (Petals).
	rttTTL = 5 * time.Minute
)

func (h *Host) smooth(p swarm.PeerID, rtt time.Duration) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for q, r := range h.rtt {
		if now.Sub(r.at) > rttTTL {
			delete(h.rtt, q)
		}
	}
	if old, ok := h.rtt[p]; ok {
		rtt = time.Duration(smoothing*float64(rtt) + (1-smoothing)*float64(old.mean))
	}
	h.rtt[p] = roundTrip{rtt, now}
}

// RTT is the smoothed round trip of pings in the last minutes; false if there were none.
func (h *Host) RTT(p swarm.PeerID) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.rtt[p]
	if !ok || time.Since(r.at) > rttTTL {
		return 0, false
	}
	return r.mean, true
}
