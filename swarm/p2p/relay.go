package p2p

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"whorl/swarm"
	"whorl/swarm/budget"
)

// RelayLimits bound what a node does for those of its swarm that nobody can dial.
type RelayLimits struct {
	Rate         int64         // bytes a second of all that is relayed
	PeerRate     int64         // bytes a second that one peer sends through this node
	Reservations int           // nodes that may be reached through this one
	Circuits     int           // relayed connections
	PeerCircuits int           // of one peer; each carries any number of sessions
	Duration     time.Duration // a relayed connection ends after it, and its sessions move to the next
	Unasked      bool          // relay also before anybody could be asked whether this node can be dialled
}

// DefaultRelayLimits suit inference: a token through a stage is some kilobytes there and back,
// a prompt some megabytes at once. libp2p's own, 128 KiB in two minutes, are for a handshake.
func DefaultRelayLimits() RelayLimits {
	return RelayLimits{Rate: 32 << 20, PeerRate: 8 << 20, Reservations: 128, Circuits: 512, PeerCircuits: 64, Duration: 12 * time.Hour}
}

// Validate refuses what cannot work.
func (l RelayLimits) Validate() error {
	switch {
	case l.PeerRate < relayBuffer || l.Rate < l.PeerRate:
		return fmt.Errorf("relay rates of %d bytes/s in all and %d of a peer: want at least %d, and no more of a peer than in all", l.Rate, l.PeerRate, relayBuffer)
	case l.Reservations < 1 || l.PeerCircuits < 1 || l.Circuits < l.PeerCircuits:
		return fmt.Errorf("relay limits of %d reservations, %d connections and %d of a peer: want at least 1, and no more of a peer than in all", l.Reservations, l.Circuits, l.PeerCircuits)
	case l.Duration < time.Minute:
		return fmt.Errorf("relayed connections of %v: want at least 1m", l.Duration)
	}
	return nil
}

const (
	// relayBuffer is what is read at once of a relayed connection, in bytes.
	relayBuffer = 64 << 10
	// relayTTL is how long a reservation lives without renewal.
	relayTTL = time.Hour
	// relayPerIP is how many nodes behind one address may reserve.
	relayPerIP = 32
)

// reservesOfPeer and reservesOfNet bound how often a reservation is asked for: a node renews its own
// some times an hour, and begins again where its address changes.
var (
	reservesOfPeer = budget.Rate{Burst: 16, PerSecond: 0.1}
	reservesOfNet  = budget.Rate{Burst: 256, PerSecond: 1}
)

// relaying is this node's service as a relay, for members of the swarm alone.
type relaying struct {
	limits  RelayLimits
	all     *rate.Limiter
	member  func(peer.ID) bool
	net     func(ma.Multiaddr) string // the prefix of an address
	pace    *budget.Pace              // of reservations, each of which costs a signature
	refused func(peer.ID)             // is told who got none
	open    atomic.Int64              // circuits
	metrics relayMetrics

	mu    sync.Mutex // guards all below
	peers map[peer.ID]*rate.Limiter
	asked map[peer.ID]time.Time // who may be reached through this node: when they asked last
}

func newRelaying(limits RelayLimits, member func(peer.ID) bool, net func(ma.Multiaddr) string, refused func(peer.ID), reg prometheus.Registerer) *relaying {
	return &relaying{
		limits: limits, member: member, net: net, refused: refused, metrics: newRelayMetrics(reg), peers: map[peer.ID]*rate.Limiter{}, asked: map[peer.ID]time.Time{},
		pace: budget.NewPace(reservesOfPeer, reservesOfNet),
		all:  rate.NewLimiter(rate.Limit(limits.Rate), int(limits.Rate)),
	}
}

// start begins to relay on a host.
func (r *relaying) start(h host.Host) (*relay.Relay, error) {
	rc := relay.DefaultResources()
	rc.Limit = nil // ours are of rates and not of amounts, in metered
	rc.ReservationTTL, rc.BufferSize = relayTTL, relayBuffer
	rc.MaxReservations, rc.MaxReservationsPerIP, rc.MaxReservationsPerASN = r.limits.Reservations, min(r.limits.Reservations, relayPerIP), r.limits.Reservations
	rc.MaxCircuits = r.limits.PeerCircuits
	return relay.New(&meteredHost{h, r}, relay.WithResources(rc), relay.WithACL(r), relay.WithMetricsTracer(r),
		relay.WithReservationAddressFilter(func(ma.Multiaddr) bool { return true }))
}

// relayAsNeeded relays while others can dial this node, and, where nobody could be asked, if the
// limits say so: those for whom a relay that nobody can dial is chosen would be lost.
func (h *Host) relayAsNeeded() {
	if h.relaying == nil {
		return
	}
	h.relayTurn.Lock() // and not h.mu: libp2p's notifications wait for that, and a relay is notified too
	defer h.relayTurn.Unlock()
	h.mu.Lock()
	state, running, closed := h.reach.State, h.relay, h.closed
	h.mu.Unlock()
	should := state == swarm.ReachYes || h.relaying.limits.Unasked && state != swarm.ReachNo
	if closed || should == (running != nil) {
		return
	}
	var next *relay.Relay
	if should {
		var err error
		if next, err = h.relaying.start(h.h); err != nil {
			h.log.Warn("this node cannot relay", "reason", err)
			return
		}
	}
	h.mu.Lock()
	if closed = h.closed; !closed {
		h.relay = next
	}
	h.mu.Unlock()
	switch {
	case closed && next != nil:
		next.Close()
	case !closed && running != nil:
		running.Close()
	}
}

// AllowReserve is asked before a node may be reached through this one.
func (r *relaying) AllowReserve(p peer.ID, from ma.Multiaddr) bool {
	now := time.Now()
	if !r.member(p) || !r.pace.Take(budget.Who{Peer: string(p), Net: r.net(from)}, now) {
		r.refused(p)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked[p] = now; len(r.asked) > maxProven {
		forget(r.asked, func(at time.Time) time.Time { return at }, now.Add(-relayTTL))
	}
	return true
}

// relayed tells whether a peer lately asked to be reached through this node.
func (h *Host) relayed(p peer.ID) bool {
	if h.relaying == nil {
		return false
	}
	h.relaying.mu.Lock()
	defer h.relaying.mu.Unlock()
	at, ok := h.relaying.asked[p]
	return ok && time.Since(at) < relayTTL
}

// AllowConnect is asked before somebody reaches one. Who calls need be no member: a client that
// has just come has asked others, and never this node; whom it calls is one.
func (r *relaying) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool {
	return r.open.Load() < int64(r.limits.Circuits)
}

// of is the limiter of a peer's bytes.
func (r *relaying) of(p peer.ID) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.peers[p]
	if l == nil {
		if len(r.peers) >= maxProven { // those that are full again have no claim to be remembered
			for q, l := range r.peers {
				if l.Tokens() >= float64(l.Burst()) {
					delete(r.peers, q)
				}
			}
		}
		l = rate.NewLimiter(rate.Limit(r.limits.PeerRate), int(r.limits.PeerRate))
		r.peers[p] = l
	}
	return l
}

// meteredHost is the host as the relay service sees it: the streams of its two protocols are
// slowed to the rates, and end after the longest time.
type meteredHost struct {
	host.Host
	r *relaying
}

func (m *meteredHost) SetStreamHandler(id protocol.ID, f lnet.StreamHandler) {
	m.Host.SetStreamHandler(id, func(s lnet.Stream) { f(m.r.meter(s)) })
}

func (m *meteredHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (lnet.Stream, error) {
	s, err := m.Host.NewStream(ctx, p, ids...)
	if err != nil {
		return nil, err
	}
	return m.r.meter(s), nil
}

// metered is a stream of a relayed connection.
type metered struct {
	lnet.Stream
	r     *relaying
	ctx   context.Context // ends with the stream
	end   context.CancelFunc
	mine  *rate.Limiter
	since time.Time
}

func (r *relaying) meter(s lnet.Stream) *metered {
	ctx, end := context.WithCancel(context.Background())
	return &metered{Stream: s, r: r, ctx: ctx, end: end, mine: r.of(s.Conn().RemotePeer()), since: time.Now()}
}

// Read waits until what came may be passed on. The far end's window fills meanwhile.
func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Stream.Read(b[:min(len(b), relayBuffer)])
	if n > 0 {
		if werr := m.mine.WaitN(m.ctx, n); werr != nil {
			return 0, werr
		}
		if werr := m.r.all.WaitN(m.ctx, n); werr != nil {
			return 0, werr
		}
	}
	return n, err
}

// until is the latest deadline of a stream: none means the end of its longest time.
func (m *metered) until(t time.Time) time.Time {
	last := m.since.Add(m.r.limits.Duration)
	if t.IsZero() || t.After(last) {
		return last
	}
	return t
}

func (m *metered) SetDeadline(t time.Time) error      { return m.Stream.SetDeadline(m.until(t)) }
func (m *metered) SetReadDeadline(t time.Time) error  { return m.Stream.SetReadDeadline(m.until(t)) }
func (m *metered) SetWriteDeadline(t time.Time) error { return m.Stream.SetWriteDeadline(m.until(t)) }

func (m *metered) Close() error {
	m.end()
	return m.Stream.Close()
}

func (m *metered) Reset() error {
	m.end()
	return m.Stream.Reset()
}

// relayMetrics count what is relayed.
type relayMetrics struct {
	reservations, circuits prometheus.Gauge
	bytes                  prometheus.Counter
	requests               *prometheus.CounterVec
}

func newRelayMetrics(reg prometheus.Registerer) relayMetrics {
	m := relayMetrics{
		reservations: prometheus.NewGauge(prometheus.GaugeOpts{Name: "whorl_relay_reservations", Help: "Nodes that can be reached through this one."}),
		circuits:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "whorl_relay_circuits", Help: "Connections that this node relays."}),
		bytes:        prometheus.NewCounter(prometheus.CounterOpts{Name: "whorl_relay_bytes_total", Help: "Bytes that this node relayed."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whorl_relay_requests_total", Help: "Requests to relay, by kind and by what came of them.",
		}, []string{"kind", "status"}),
	}
	if reg != nil {
		reg.MustRegister(m.reservations, m.circuits, m.bytes, m.requests)
	}
	return m
}

// The following make it a relay.MetricsTracer.

func (r *relaying) RelayStatus(bool) {}
func (r *relaying) ConnectionOpened() {
	r.open.Add(1)
	r.metrics.circuits.Inc()
}
func (r *relaying) ConnectionClosed(time.Duration) {
	r.open.Add(-1)
	r.metrics.circuits.Dec()
}
func (r *relaying) ConnectionRequestHandled(s pbv2.Status) {
	r.metrics.requests.WithLabelValues("connect", s.String()).Inc()
}
func (r *relaying) ReservationAllowed(renewal bool) {
	if !renewal {
		r.metrics.reservations.Inc()
	}
}
func (r *relaying) ReservationClosed(n int) { r.metrics.reservations.Sub(float64(n)) }
func (r *relaying) ReservationRequestHandled(s pbv2.Status) {
	r.metrics.requests.WithLabelValues("reserve", s.String()).Inc()
}
func (r *relaying) BytesTransferred(n int) { r.metrics.bytes.Add(float64(n)) }

// protoHop is what relays speak.
const protoHop = proto.ProtoIDv2Hop
