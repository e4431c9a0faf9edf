package p2p

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	p2pswarm "github.com/libp2p/go-libp2p/p2p/net/swarm"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// options are those of libp2p. Go sets TCP_NODELAY on every socket, and yamux sends what
// it is given at once, so that a small frame never waits for another.
func options(cfg Config, id *identity, rm *door) ([]libp2p.Option, error) {
	// Idle connections are closed before new ones must be refused.
	conns := int(rm.conns.Total())
	cm, err := connmgr.NewConnManager(conns/2, conns*3/4, connmgr.WithGracePeriod(time.Minute))
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	opts := append(transports(cfg.SwarmKey),
		libp2p.Identity(id.key), libp2p.ListenAddrStrings(cfg.HostMaddrs...), libp2p.UserAgent(cfg.Agent),
		libp2p.ResourceManager(rm), libp2p.ConnectionManager(cm), libp2p.Ping(true), libp2p.EnableRelay(), libp2p.EnableHolePunching(),
		libp2p.WithDialTimeout(dialTimeout), libp2p.DialRanker(rank), libp2p.MultiaddrResolver(p2pswarm.ResolverFromMaDNS{Resolver: resolver(cfg)}),
	)
	if cfg.AutoRelay || cfg.Relay != nil { // those who mean to be found
		opts = append(opts, libp2p.EnableAutoNATv2())
	}
	if cfg.Registerer != nil {
		opts = append(opts, libp2p.PrometheusRegisterer(cfg.Registerer))
	} else {
		opts = append(opts, libp2p.DisableMetrics())
	}
	if len(cfg.AnnounceMaddr) > 0 {
		var announce []ma.Multiaddr
		for _, s := range cfg.AnnounceMaddr {
			a, err := ma.NewMultiaddr(s)
			if err != nil {
				return nil, fmt.Errorf("announce address %q: %w: want /ip4/HOST/tcp/PORT or /ip4/HOST/udp/PORT/quic-v1", s, err)
			}
			announce = append(announce, a)
		}
		opts = append(opts, libp2p.AddrsFactory(func([]ma.Multiaddr) []ma.Multiaddr { return announce }))
	}
	return opts, nil
}

// transports are TCP with TLS, and QUIC where no key is to be asked for.
func transports(key []byte) []libp2p.Option {
	opts := []libp2p.Option{libp2p.Transport(tcp.NewTCPTransport), libp2p.Security(libp2ptls.ID, libp2ptls.New), libp2p.DefaultMuxers}
	if key != nil {
		return append(opts, libp2p.PrivateNetwork(pnet.PSK(key)))
	}
	return append(opts, libp2p.Transport(quic.NewTransport))
}

// resources sizes libp2p's limits for a swarm, behind a door that divides them. Its own
// defaults refuse peers at moderate load, and its limits per subnet a laboratory behind one
// address. A stream whose memory is refused would cost its whole connection, so that memory
// is the last limit to bind: windows may grow to half of it, streams fill the rest.
func resources(cfg Config) (*door, error) {
	conns, streams := room(cfg.Memory)
	scale := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&scale)
	limit := func(n int, memory int64) rcmgr.ResourceLimits {
		return rcmgr.ResourceLimits{Streams: rcmgr.LimitVal(n), StreamsInbound: rcmgr.LimitVal(n), StreamsOutbound: rcmgr.LimitVal(n), Memory: rcmgr.LimitVal64(memory)}
	}
	memory := int64(streams) * 2 * windowBytes
	all, asked := limit(2*streams, memory), limit(streams, memory)
	n := rcmgr.LimitVal(conns)
	all.Conns, all.ConnsInbound, all.ConnsOutbound, all.FD = n, n, n, n
	asked.StreamsInbound = askers
	partial := rcmgr.PartialLimitConfig{
		System: all, Transient: all, PeerDefault: limit(2*streams, memory),
		ProtocolDefault: limit(2*streams, memory), ProtocolPeerDefault: limit(2*streams, memory),
		ProtocolPeer: map[protocol.ID]rcmgr.ResourceLimits{wire.ProtoDirectory: asked, protoInstance: asked, protoReach: asked, protoRate: asked},
	}
	opts := []rcmgr.Option{
		rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{}, []rcmgr.ConnLimitPerSubnet{}), // the door has its own
		rcmgr.WithConnRateLimiters(callers(cfg)),
	}
	if cfg.Registerer != nil {
		rcmgr.MustRegisterWith(cfg.Registerer)
	} else {
		opts = append(opts, rcmgr.WithMetricsDisabled())
	}
	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(partial.Build(scale.AutoScale())), opts...)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	d := newDoor(rm, budget.Rule{Exempt: cfg.Exempt}, conns, streams)
	if err := budget.Register(cfg.Registerer, d.handshakes, d.conns, d.streams); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(d.penalties); err != nil {
			return nil, fmt.Errorf("network: %w", err)
		}
	}
	return d, nil
}

// callers limits how often an address may begin a handshake, and a prefix, which costs some
// millisecond: a hundred nodes behind one address may all start at once.
func callers(cfg Config) *rate.Limiter {
	exempt := cfg.Exempt
	if exempt == nil {
		exempt = budget.Loopback
	}
	l := &rate.Limiter{SubnetRateLimiter: rate.SubnetLimiter{
		IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: rate.Limit{RPS: 16, Burst: 512}}, {PrefixLength: budget.Bits4, Limit: rate.Limit{RPS: 32, Burst: 1024}}},
		IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: budget.Bits6, Limit: rate.Limit{RPS: 16, Burst: 512}}},
		GracePeriod:      time.Minute,
	}}
	for _, p := range exempt {
		l.NetworkPrefixLimits = append(l.NetworkPrefixLimits, rate.PrefixLimit{Prefix: p})
	}
	return l
}
