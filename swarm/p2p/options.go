package p2p

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// options are those of libp2p. Go sets TCP_NODELAY on every socket, and yamux sends what
// it is given at once, so that a small frame never waits for another.
func options(cfg Config, id *identity) ([]libp2p.Option, error) {
	rm, err := resources(cfg)
	if err != nil {
		return nil, err
	}
	cm, err := connmgr.NewConnManager(trimTo, trimAt, connmgr.WithGracePeriod(time.Minute))
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
				return nil, fmt.Errorf("announce address %q: %w: want /ip4/HOST/tcp/PORT", s, err)
			}
			announce = append(announce, a)
		}
		opts = append(opts, libp2p.AddrsFactory(func([]ma.Multiaddr) []ma.Multiaddr { return announce }))
	}
	return opts, nil
}

// resources sizes libp2p's limits for a swarm: its defaults refuse peers at moderate load.
// Refusals are counted in cfg.Registerer.
func resources(cfg Config) (network.ResourceManager, error) {
	scale := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&scale)
	streams := func(n rcmgr.LimitVal, memory rcmgr.LimitVal64) rcmgr.ResourceLimits {
		return rcmgr.ResourceLimits{Streams: n, StreamsInbound: n, StreamsOutbound: n, Memory: memory}
	}
	all := streams(maxStreams, rcmgr.Unlimited64)
	all.Conns, all.ConnsInbound, all.ConnsOutbound, all.FD = maxConns, maxConns, maxConns, maxConns
	handshakes := streams(maxStreamsPerPeer, 0)
	handshakes.Conns, handshakes.ConnsInbound, handshakes.ConnsOutbound = maxHandshakes, maxHandshakes, maxHandshakes
	limits := rcmgr.PartialLimitConfig{
		System: all, Transient: handshakes, PeerDefault: streams(maxStreamsPerPeer, maxPeerMemory),
		ProtocolDefault: streams(maxStreams, rcmgr.Unlimited64), ProtocolPeerDefault: streams(maxStreamsPerPeer, maxPeerMemory),
	}
	opts := []rcmgr.Option{rcmgr.WithLimitPerSubnet(nil, nil)} // a laptop swarm has every peer on one address
	if cfg.Registerer != nil {
		rcmgr.MustRegisterWith(cfg.Registerer)
	} else {
		opts = append(opts, rcmgr.WithMetricsDisabled())
	}
	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits.Build(scale.AutoScale())), opts...)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return rm, nil
}
