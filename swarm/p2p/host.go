package p2p

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	p2pswarm "github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// Host is a node on the network. Safe for concurrent use.
type Host struct {
	h        host.Host
	id       *identity
	door     *door // who may come in
	gate     *gate // whom to dial
	policy   policy
	spoken   *spoken
	log      *slog.Logger
	instance [16]byte       // tells this process from another with the same identity
	wg       sync.WaitGroup // streams being answered, dials in the background

	names     *madns.Resolver
	reaches   *budget.Pool // questions of others being answered
	reachPace *budget.Pace
	reachNews chan struct{} // something is known of who can dial this node
	company   chan struct{} // there is somebody new to ask
	autoRelay bool
	told      bool                 // the operator said what to announce
	nat       basichost.NATManager // nil: no ports are asked for
	psk       []byte

	live        context.Context    // until Close
	flights     singleflight.Group // dials and pings that several wait for
	hanging     sync.Map           // peers whose connections are being closed
	dialTimeout time.Duration

	relayTurn   sync.Mutex // held while the relay starts or ends
	outsideTurn sync.Mutex // held while outside is made

	mu       sync.Mutex // guards all below
	closed   bool
	members  map[peer.ID]time.Time // of the swarm: when it was last said
	reach    swarm.Reach           // as last found out
	seen     []string              // addresses at which others reach this node, beside its own
	shown    map[string]bool       // addresses that could be dialled when others last looked
	reserved map[peer.ID]reservation
	ended    map[peer.ID]time.Time // relays through which a connection went: when one last ended
	refused  map[peer.ID]time.Time // relays that did not want this node
	moving   map[moveID]*moving    // streams that outlive their connection
	handlers map[protocol.ID]func(swarm.PeerID, wire.Stream)
	relaying *relaying            // nil: this node relays for nobody, whatever happens
	relay    *relay.Relay         // nil while it does not
	outside  host.Host            // dials from ports that nobody knows; made when it is first needed
	stops    []context.CancelFunc // of the handlers' contexts
	rtt      map[swarm.PeerID]roundTrip
	used     map[swarm.PeerID]time.Time // when a stream for a session was last opened

	links     links                 // what was measured with whom
	probes    map[int]func()        // measurements that are under way, and what ends them
	probeID   int                   // of the last one
	rateAsked map[peer.ID]time.Time // for whom this node took part in one
	rateTurns *rate.Limiter
}

type roundTrip struct {
	mean time.Duration
	at   time.Time
}

// New starts a host. It listens when New returns; an error names the address that could
// not be had.
func New(cfg Config) (*Host, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	id, err := openIdentity(cfg.IdentityPath)
	if err != nil {
		return nil, err
	}
	h := &Host{
		id: id, policy: policy{cfg.Allow, cfg.Deny}, gate: newGate(onLoopback(cfg.HostMaddrs), onPrivate()), spoken: newSpoken(), log: cfg.Log, dialTimeout: dialTimeout,
		names: resolver(cfg), reaches: budget.New("looks at whether others can be reached", reachTurns), reachPace: budget.NewPace(reachOfPeer, reachOfNet), reachNews: make(chan struct{}, 1), company: make(chan struct{}, 1), autoRelay: cfg.AutoRelay, told: len(cfg.AnnounceMaddr) > 0, psk: cfg.SwarmKey,
		moving: map[moveID]*moving{}, handlers: map[protocol.ID]func(swarm.PeerID, wire.Stream){}, members: map[peer.ID]time.Time{}, reserved: map[peer.ID]reservation{}, refused: map[peer.ID]time.Time{}, ended: map[peer.ID]time.Time{}, rtt: map[swarm.PeerID]roundTrip{}, used: map[swarm.PeerID]time.Time{},
		links: links{}, probes: map[int]func(){}, rateAsked: map[peer.ID]time.Time{}, rateTurns: newRateTurns(),
	}
	rand.Read(h.instance[:])
	live, stop := context.WithCancel(context.Background())
	h.live, h.stops = live, []context.CancelFunc{stop}
	var opts []libp2p.Option
	if h.door, err = resources(cfg); err == nil {
		h.door.flooded = h.hangUp
		opts, err = options(cfg, id, h.door)
		opts = append(opts, libp2p.ConnectionGater(gater{h.gate, h}))
		if cfg.PortMapping {
			opts = append(opts, libp2p.NATManager(func(n lnet.Network) basichost.NATManager {
				h.nat = newMapper(n)
				return h.nat
			}))
		}
	}
	if err == nil {
		err = portsFree(cfg.HostMaddrs)
	}
	if err == nil {
		if h.h, err = libp2p.New(opts...); err != nil {
			err = cannotListen(strings.Join(cfg.HostMaddrs, ", "), err)
		}
	}
	if err == nil {
		if cfg.Relay != nil {
			h.relaying = newRelaying(*cfg.Relay, h.memberID, h.NetOf, h.door.refused, cfg.Registerer)
			h.relayAsNeeded()
		}
		err = budget.Register(cfg.Registerer, h.reaches)
	}
	if err != nil {
		id.close()
		return nil, err
	}
	h.h.Network().Notify(h.contacts())
	h.background(h.watchMoves)
	h.Handle(protoInstance, h.answerInstance)
	h.Handle(protoReach, h.answerReach)
	h.Handle(protoRate, h.answerRate)
	h.h.SetStreamHandler(protoMove, func(s lnet.Stream) {
		if !h.background(func() { h.answerMove(s) }) {
			s.Reset()
		}
	})
	h.h.Network().Notify(&lnet.NotifyBundle{ConnectedF: func(_ lnet.Network, c lnet.Conn) {
		h.background(func() { h.moveUp(c) }) // what waits there makes the connection wait
	}})
	h.log.Debug("network limits", "connections", h.door.conns.Total(), "streams", h.door.streams.Total())
	return h, nil
}

func cannotListen(on string, err error) error {
	return fmt.Errorf("network: cannot listen on %s: %w: choose another with --port or --host-maddrs", on, err)
}

// Libp2p is the host for packages that speak libp2p themselves: dir alone.
func (h *Host) Libp2p() host.Host { return h.h }

// ID is the node's peer id.
func (h *Host) ID() swarm.PeerID { return swarm.PeerID(h.h.ID().String()) }

// ListenAddrs are the addresses others can use, without /p2p of this node.
func (h *Host) ListenAddrs() []string { return h.announced() }

// Transports are those that the node listens on: "tcp", "quic".
func (h *Host) Transports() (out []string) {
	for _, a := range h.h.Network().ListenAddresses() {
		name := "tcp"
		if isQUIC(a) {
			name = "quic"
		} else if !has(a, ma.P_TCP) || isRelayed(a) {
			continue
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	slices.Reverse(out) // tcp first
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

// AddAddrs remembers for an hour where a peer says that it can be reached. Addresses that
// are none are skipped.
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

// Forget drops the addresses of a peer that is not connected.
func (h *Host) Forget(p swarm.PeerID) {
	if id, err := peer.Decode(string(p)); err == nil && h.h.Network().Connectedness(id) != lnet.Connected {
		h.h.Peerstore().ClearAddrs(id)
	}
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
			ms := swarm.Millis(rtt)
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

// PeerIDs are those of them, in no order.
func (h *Host) PeerIDs() []swarm.PeerID {
	peers := h.h.Network().Peers()
	out := make([]swarm.PeerID, len(peers))
	for i, p := range peers {
		out[i] = swarm.PeerID(p.String())
	}
	return out
}

// stranger is a network of another identity that listens nowhere: what it dials sees a caller
// that it has never spoken to, at a port that it does not know. nil if there can be none.
func (h *Host) stranger() lnet.Network {
	h.outsideTurn.Lock()
	defer h.outsideTurn.Unlock()
	h.mu.Lock()
	out, closed := h.outside, h.closed
	h.mu.Unlock()
	if out != nil {
		return out.Network()
	}
	if closed {
		return nil
	}
	out, err := libp2p.New(append(transports(h.psk), libp2p.NoListenAddrs, libp2p.ResourceManager(h.door), libp2p.ConnectionGater(gater{h.gate, h}),
		libp2p.DisableRelay(), libp2p.DisableMetrics(), libp2p.Ping(false), libp2p.DisableIdentifyAddressDiscovery(), libp2p.WithDialTimeout(dialTime))...)
	if err != nil {
		h.log.Warn("this node cannot look whether others are reachable", "reason", err)
		return nil
	}
	h.mu.Lock()
	if closed = h.closed; !closed {
		h.outside = out
	}
	h.mu.Unlock()
	if closed { // nobody else would
		out.Close()
		return nil
	}
	return out.Network()
}

// hangUp closes the connections to a peer that floods this node: refusing stream after stream
// costs more than the handshakes that it may begin.
func (h *Host) hangUp(p peer.ID) {
	if _, already := h.hanging.LoadOrStore(p, true); already {
		return
	}
	if !h.background(func() {
		defer h.hanging.Delete(p)
		h.log.Debug("connections of a peer are closed, since it opens streams without end", "peer", p)
		h.h.Network().ClosePeer(p)
	}) {
		h.hanging.Delete(p)
	}
}

// Refused notes that a peer was refused what it asked for. Who goes on is hung up on, and for a while
// no new connection is taken from its address.
func (h *Host) Refused(p swarm.PeerID) {
	if id, err := peer.Decode(string(p)); err == nil {
		h.door.refused(id)
	}
}

// forgive lets a peer be dialled at once. libp2p refuses dials for a while after one
// failed; whom to try again and when is decided above (bans, suspicion), with better
// knowledge, such as that the peer has just announced itself.
func (h *Host) forgive(id peer.ID) {
	if s, ok := h.h.Network().(*p2pswarm.Swarm); ok {
		s.Backoff().Clear(id)
	}
}

// background runs f unless the host is closed; Close waits for it.
func (h *Host) background(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.wg.Go(f)
	return true
}

// Close ends every stream and waits for their handlers.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	for _, stop := range h.stops {
		stop()
	}
	outside, relaying := h.outside, h.relay
	moving := slices.Collect(maps.Values(h.moving))
	h.mu.Unlock()
	for _, m := range moving {
		m.fail(errMoveLost, true)
	}
	if relaying != nil {
		relaying.Close()
	}
	err := h.h.Close()
	if outside != nil {
		outside.Close()
	}
	h.wg.Wait()
	h.id.close()
	return err
}
