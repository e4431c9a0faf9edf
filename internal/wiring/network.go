package wiring

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm/dir"
	"whorl/swarm/p2p"
)

// network is a node's place in a swarm: a host, and the directory that keeps it informed.
type network struct {
	host      *p2p.Host
	Directory *dir.Directory
	home      home // of a long-running node; closed last
	stop      context.CancelFunc
	done      chan struct{} // closed when the directory has ended
	err       error         // why it ended early, after done
}

// startNetwork listens and begins to join.
func startNetwork(ctx context.Context, pc p2p.Config, dc dir.Config) (*network, error) {
	pc.Agent, pc.Log, dc.Log, dc.Clock = "whorl/"+BuildVersion, slog.Default(), slog.Default(), wallClock
	host, err := p2p.New(pc)
	if err != nil {
		return nil, err
	}
	d, err := dir.New(host, dc)
	if err != nil {
		host.Close()
		return nil, err
	}
	// The directory outlives the signal that ends the node: leaving is announced through it.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &network{host: host, Directory: d, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.err = d.Run(ctx)
	}()
	return n, nil
}

// joined waits until the swarm has answered once, or cannot be reached.
func (n *network) joined(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() { // ends with ctx at the latest
		defer close(ended)
		select {
		case <-n.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := n.Directory.View(ctx, "")
	cancel()
	<-ended
	select {
	case <-n.done:
		if n.err != nil {
			return n.err
		}
	default:
	}
	return err
}

// Close leaves the swarm.
func (n *network) Close() error {
	n.stop()
	<-n.done
	err := errors.Join(n.Directory.Close(), n.host.Close())
	n.home.close()
	return err
}

// outward tells whether the node listens beyond this machine.
func (f *NodeOptions) outward() bool {
	return slices.ContainsFunc(f.HostMaddrs, func(a string) bool { return !p2p.IPOf(a).IsLoopback() })
}

// start makes the place of a long-running node of a kind: server, gateway or bootstrap, from
// which others start, so that it relays before anybody has looked whether it can be dialled.
func (f *NodeOptions) start(ctx context.Context, kind string, reg prometheus.Registerer) (*network, error) {
	swarm, err := f.folderName()
	if err != nil {
		return nil, Usage(err)
	}
	h, err := f.DataOptions.open(ctx, swarm, kind)
	if err != nil {
		return nil, err
	}
	n, err := f.startAt(ctx, h, reg, kind == "bootstrap")
	if err != nil {
		h.close()
	}
	return n, err
}

// startAt makes the place of a node with a home. unasked: it relays from the start.
func (f *NodeOptions) startAt(ctx context.Context, h home, reg prometheus.Registerer, unasked bool) (*network, error) {
	dc := dir.DefaultConfig()
	dc.Swarm, dc.Bootstrap, dc.Expiration, dc.Registerer = f.Swarm, f.InitialPeers, f.Expiration, reg
	dc.PeersPath = h.file("peers.json")
	identity, listen := f.IdentityPath, f.HostMaddrs
	if identity == "" {
		identity = h.file("identity")
	}
	if f.anyPort {
		listen = f.offered(p2p.DefaultMaddrs(h.port()))
	}
	n, err := startNetwork(ctx, p2p.Config{
		IdentityPath: identity, SwarmKeyPath: f.SwarmKey, SwarmKey: f.key, HostMaddrs: listen, AnnounceMaddr: f.AnnounceMaddr, Registerer: reg,
		Allow: f.allow, Deny: f.deny, Memory: int64(f.NetworkMemory), Relay: f.Relay.offered(unasked), AutoRelay: f.AutoRelay, PortMapping: !f.NoMapping && f.outward(),
	}, dc)
	if err != nil {
		return nil, err
	}
	n.home = h
	if f.anyPort {
		h.keepPort(n.host.ListenAddrs())
	}
	if identity == "" {
		identity = "for this run only"
	}
	log := slog.With("peer", n.host.ID(), "swarm", f.Swarm, "private", f.private(), "identity", identity)
	if f.private() {
		log.Info("node", "transports", "tcp", "off", "quic: it has no place for a swarm key, which protects TCP only")
	} else {
		log.Info("node", "transports", "tcp, quic")
	}
	slog.Info("others join with", "--initial-peers", strings.Join(n.host.Addrs(), ","))
	return n, nil
}

// clientMaddrs are what a command that only asks listens on. Nobody dials it but those servers
// behind routers that it has reached through a relay, and that it wants to meet without.
func (f *SwarmOptions) clientMaddrs() []string {
	if !slices.ContainsFunc(f.InitialPeers, func(a string) bool { return !p2p.IPOf(a).IsLoopback() }) {
		return []string{"/ip4/127.0.0.1/tcp/0"}
	}
	if f.private() {
		return p2p.TCPOnly(p2p.DefaultMaddrs(0))
	}
	return p2p.DefaultMaddrs(0)
}

// start joins the swarm as somebody who only asks.
func (f *SwarmOptions) start(ctx context.Context) (*network, error) {
	dc := dir.DefaultConfig()
	dc.Swarm, dc.Bootstrap, dc.Client = f.Swarm, f.InitialPeers, true
	n, err := startNetwork(ctx, p2p.Config{SwarmKeyPath: f.SwarmKey, SwarmKey: f.key, HostMaddrs: f.clientMaddrs(), Allow: f.allow, Deny: f.deny}, dc)
	if err != nil {
		return nil, err
	}
	if err := n.joined(ctx); err != nil {
		n.Close()
		if ctx.Err() != nil {
			return nil, ErrInterrupted
		}
		return nil, err
	}
	return n, nil
}
