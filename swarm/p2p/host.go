package p2p

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Host is a node on the network. Safe for concurrent use.
type Host struct {
	h    host.Host
	id   *identity
	ctx  context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup // streams being answered
	log  *slog.Logger
	once sync.Once

	mu  sync.Mutex // guards rtt
	rtt map[swarm.PeerID]time.Duration
}

// New starts a host. It listens when New returns; an error names the address that could
// not be had.
func New(cfg Config) (*Host, error) {
	id, err := openIdentity(cfg.IdentityPath)
	if err != nil {
		return nil, err
	}
	opts, err := options(cfg, id)
	if err == nil {
		var h host.Host
		if h, err = libp2p.New(opts...); err == nil {
			ctx, end := context.WithCancel(context.Background())
			log := cfg.Log
			if log == nil {
				log = slog.Default()
			}
			return &Host{h: h, id: id, ctx: ctx, end: end, log: log, rtt: map[swarm.PeerID]time.Duration{}}, nil
		}
		err = fmt.Errorf("network: cannot listen on %s: %w", strings.Join(cfg.HostMaddrs, ", "), err)
	}
	id.close()
	return nil, err
}

func options(cfg Config, id *identity) ([]libp2p.Option, error) {
	if len(cfg.HostMaddrs) == 0 {
		cfg.HostMaddrs = DefaultMaddrs(0)
	}
	limits := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&limits)
	unbounded := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Streams: maxStreams, StreamsInbound: maxStreams, StreamsOutbound: maxStreams,
			Conns: maxConns, ConnsInbound: maxConns, ConnsOutbound: maxConns, FD: maxConns, Memory: rcmgr.Unlimited64,
		},
		Transient: rcmgr.ResourceLimits{Streams: 2048, StreamsInbound: 2048, StreamsOutbound: 2048, Conns: 1024, ConnsInbound: 1024, ConnsOutbound: 1024},
		PeerDefault: rcmgr.ResourceLimits{
			Streams: maxStreamsPerPeer, StreamsInbound: maxStreamsPerPeer, StreamsOutbound: maxStreamsPerPeer,
			Memory: 1 << 30,
		},
		ProtocolDefault:     rcmgr.ResourceLimits{Streams: maxStreams, StreamsInbound: maxStreams, StreamsOutbound: maxStreams, Memory: rcmgr.Unlimited64},
		ProtocolPeerDefault: rcmgr.ResourceLimits{Streams: maxStreamsPerPeer, StreamsInbound: maxStreamsPerPeer, StreamsOutbound: maxStreamsPerPeer, Memory: 1 << 30},
	}
	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(unbounded.Build(limits.AutoScale())),
		rcmgr.WithLimitPerSubnet(nil, nil)) // a laptop swarm has every peer on one address
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	cm, err := connmgr.NewConnManager(maxConns/2, maxConns, connmgr.WithGracePeriod(time.Minute))
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	opts := []libp2p.Option{
		libp2p.Identity(id.key), libp2p.ListenAddrStrings(cfg.HostMaddrs...), libp2p.UserAgent(cfg.Agent),
		libp2p.Transport(tcp.NewTCPTransport), libp2p.Security(libp2ptls.ID, libp2ptls.New), libp2p.DefaultMuxers,
		libp2p.ResourceManager(rm), libp2p.ConnectionManager(cm), libp2p.Ping(true), libp2p.DisableRelay(),
		libp2p.WithDialTimeout(dialTimeout),
	}
	if cfg.Registerer != nil {
		opts = append(opts, libp2p.PrometheusRegisterer(cfg.Registerer))
	} else {
		opts = append(opts, libp2p.DisableMetrics())
	}
	if cfg.SwarmKeyPath != "" {
		psk, err := swarmKey(cfg.SwarmKeyPath)
		if err != nil {
			return nil, err
		}
		opts = append(opts, libp2p.PrivateNetwork(psk))
	}
	if len(cfg.AnnounceMaddr) > 0 {
		var announce []ma.Multiaddr
		for _, s := range cfg.AnnounceMaddr {
			a, err := ma.NewMultiaddr(s)
			if err != nil {
				return nil, fmt.Errorf("announce address %q: %w", s, err)
			}
			announce = append(announce, a)
		}
		opts = append(opts, libp2p.AddrsFactory(func([]ma.Multiaddr) []ma.Multiaddr { return announce }))
	}
	return opts, nil
}

// Libp2p is the host for packages that speak libp2p themselves: dir alone.
func (h *Host) Libp2p() host.Host { return h.h }

// ID is the node's peer id.
func (h *Host) ID() swarm.PeerID { return swarm.PeerID(h.h.ID().String()) }

// ListenAddrs are the addresses others can use, without /p2p.
func (h *Host) ListenAddrs() []string {
	var out []string
	for _, a := range h.h.Addrs() {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

// Addrs are the addresses with /p2p, as --initial-peers takes them.
func (h *Host) Addrs() []string {
	out := h.ListenAddrs()
	for i := range out {
		out[i] += "/p2p/" + h.h.ID().String()
	}
	return out
}

// AddAddrs remembers where a peer can be reached. Addresses that are none are skipped.
func (h *Host) AddAddrs(p swarm.PeerID, addrs []string) {
	id, err := peer.Decode(string(p))
	if err != nil || id == h.h.ID() {
		return
	}
	var known []ma.Multiaddr
	for _, s := range addrs {
		if a, err := ma.NewMultiaddr(s); err == nil {
			known = append(known, a)
		}
	}
	h.h.Peerstore().AddAddrs(id, known, addrTTL)
}

// Dial opens a stream to a peer whose addresses are known. Errors are *swarm.Error with
// CodePeerLost.
func (h *Host) Dial(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error) {
	id, err := peer.Decode(string(p))
	if err == nil {
		var s network.Stream
		if s, err = h.h.NewStream(ctx, id, protocol.ID(proto)); err == nil {
			return s, nil
		}
	}
	return nil, &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: p, Message: "cannot dial peer " + p.Short(), Err: err}
}

// Handle answers streams of a protocol. The handler's context ends with the host; when the
// handler returns the stream is reset unless it was closed.
func (h *Host) Handle(proto string, f func(ctx context.Context, from swarm.PeerID, s wire.Stream)) {
	h.h.SetStreamHandler(protocol.ID(proto), func(s network.Stream) {
		h.wg.Add(1)
		defer h.wg.Done()
		defer s.Reset()
		f(h.ctx, swarm.PeerID(s.Conn().RemotePeer().String()), s)
	})
}

// Ping measures the round trip to a peer.
func (h *Host) Ping(ctx context.Context, p swarm.PeerID) (time.Duration, error) {
	id, err := peer.Decode(string(p))
	if err != nil {
		return 0, fmt.Errorf("ping: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case r, ok := <-ping.Ping(ctx, h.h, id):
		if !ok {
			return 0, fmt.Errorf("ping %s: %w", p.Short(), ctx.Err())
		}
		if r.Error != nil {
			return 0, fmt.Errorf("ping %s: %w", p.Short(), r.Error)
		}
		h.smooth(p, r.RTT)
		return r.RTT, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("ping %s: %w", p.Short(), ctx.Err())
	}
}

// smoothing weighs a new round trip against the mean of the earlier ones.
const smoothing = 0.2

func (h *Host) smooth(p swarm.PeerID, rtt time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.rtt[p]; ok {
		rtt = time.Duration(smoothing*float64(rtt) + (1-smoothing)*float64(old))
	}
	h.rtt[p] = rtt
}

// RTT is the smoothed round trip of earlier pings; false if there were none.
func (h *Host) RTT(p swarm.PeerID) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rtt, ok := h.rtt[p]
	return rtt, ok
}

// Peers lists the connections, sorted by peer.
func (h *Host) Peers() []swarm.PeerStatus {
	var out []swarm.PeerStatus
	for _, c := range h.h.Network().Conns() {
		p := swarm.PeerID(c.RemotePeer().String())
		st := swarm.PeerStatus{Peer: p, Addrs: []string{c.RemoteMultiaddr().String()}, Direction: strings.ToLower(c.Stat().Direction.String())}
		if v, err := h.h.Peerstore().Get(c.RemotePeer(), "AgentVersion"); err == nil {
			st.Agent, _ = v.(string)
		}
		if rtt, ok := h.RTT(p); ok {
			ms := float64(rtt) / float64(time.Millisecond)
			st.RTTMillis = &ms
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b swarm.PeerStatus) int {
		return strings.Compare(string(a.Peer)+a.Addrs[0], string(b.Peer)+b.Addrs[0])
	})
	return out
}

// Connected counts the peers with a connection.
func (h *Host) Connected() int { return len(h.h.Network().Peers()) }

// Close ends every stream and waits for their handlers.
func (h *Host) Close() error {
	var err error
	h.once.Do(func() {
		h.end()
		err = h.h.Close()
		h.wg.Wait()
		h.id.close()
	})
	return err
}
