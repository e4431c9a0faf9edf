package p2p

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/time/rate"

	"whorl/swarm/budget"
)

// What a stranger costs before it has said anything of use, in bytes. A stream is what its
// window may fill, again as much for windows that grow, and what its reader keeps.
const (
	connBytes   = 64 << 10
	streamBytes = 2*windowBytes + 128<<10
	windowBytes = 256 << 10 // yamux gives every stream so much before it is asked
)

// streamsOfPeer and streamsOfNet bound how often streams come in, whatever for: one that says its
// protocol and is answered costs a tenth of a millisecond, so that those of a prefix take a twentieth
// of a core. A gateway opens one or two for each session at a server.
var (
	streamsOfPeer = budget.Rate{Burst: 1024, PerSecond: 256}
	streamsOfNet  = budget.Rate{Burst: 2048, PerSecond: 512}
)

// strikesOfAddress and strikesOfNet are refusals that have no consequence, of streams, of questions and
// of connections over TCP: a site that starts again with a hundred nodes has some hundred. Who goes on is shut out for shutOut, and each
// time it does so again for twice as long, up to shutOutMost: no new connection is taken from there.
// The others of a prefix keep those they have.
var (
	strikesOfAddress = budget.Rate{Burst: 512, PerSecond: 32}
	strikesOfNet     = budget.Rate{Burst: 2048, PerSecond: 128}
)

const (
	shutOut     = 30 * time.Second
	shutOutMost = 8 * time.Minute
)

// refusedPerSecond is how many connections are refused in a second: to take one and close it costs 30
// microseconds. Beyond it they wait in the system's queue, and newcomers with them: who is served
// comes before who is not there yet.
const refusedPerSecond = 1000

// errFlood refuses a stream, errShutOut a connection.
var (
	errFlood   = errors.New("too many streams in too short a time")
	errShutOut = errors.New("this address is shut out for a while, since it went on asking for what it was refused")
)

// room is how many connections and streams fit into the memory of a Config: a fifth of it is
// for connections.
func room(memory int64) (conns, streams int) {
	if memory == 0 {
		memory = defaultMemory
	}
	return max(64, int(memory/5/connBytes)), max(64, int(memory/5*4/streamBytes))
}

// door is libp2p's resource manager with shares: the half-open connections, the connections
// and the streams that come in are budgets of addresses, peers and prefixes, so that neither
// one of them nor the many identities of one keep others out. What this node opens itself
// counts and is nobody's.
type door struct {
	network.ResourceManager
	rule                       budget.Rule
	handshakes, conns, streams *budget.Pool
	pace                       *budget.Pace  // how often streams come in
	refusals                   *rate.Limiter // of connections
	flooded                    func(peer.ID) // is told who opens more, without waiting for it; nil: nobody
	penalties                  *budget.Penalties

	mu   sync.Mutex // guards nets
	nets map[peer.ID]*place
}

// place is where a connected peer comes from.
type place struct {
	net   string
	from  budget.Who // whom its deeds are laid to; nobody for one that comes through a relay
	conns int
}

func newDoor(rm network.ResourceManager, rule budget.Rule, conns, streams int) *door {
	return &door{
		ResourceManager: rm, rule: rule, nets: map[peer.ID]*place{},
		handshakes: budget.New("half-open connections", int64(min(conns, maxHandshakes))),
		conns:      budget.New("connections", int64(conns)),
		streams:    budget.New("streams", int64(streams)),
		pace:       budget.NewPace(streamsOfPeer, streamsOfNet),
		penalties:  budget.NewPenalties(strikesOfAddress, strikesOfNet, shutOut, shutOutMost),
		refusals:   rate.NewLimiter(refusedPerSecond, refusedPerSecond),
	}
}

// who is the holder that an address is.
func (d *door) who(a ma.Multiaddr) budget.Who {
	ip, err := manet.ToIP(a)
	if err != nil {
		return budget.Who{}
	}
	addr, _ := netip.AddrFromSlice(ip)
	return d.rule.Who(addr)
}

// NetOf names the prefix of an address, "" for one that has no share of its own.
func (h *Host) NetOf(a ma.Multiaddr) string { return h.door.who(a).Net }

// OpenConnection takes a place before the handshake, and before the swarm key is asked for. Of TCP it
// runs in the loop that takes connections, so that a refusal may keep others waiting.
func (d *door) OpenConnection(dir network.Direction, usefd bool, endpoint ma.Multiaddr) (network.ConnManagementScope, error) {
	c := &knock{door: d}
	if dir == network.DirInbound {
		if c.who = d.who(endpoint); !isRelayed(endpoint) {
			c.from = c.who
		}
	}
	err := d.open(c, dir, usefd, endpoint)
	if err == nil {
		return c, nil
	}
	if _, no := endpoint.ValueForProtocol(ma.P_TCP); no == nil && dir == network.DirInbound {
		d.penalties.Refused(c.from, time.Now()) // over UDP nobody has proven yet to be there
		time.Sleep(d.refusals.Reserve().Delay())
	}
	return nil, err
}

func (d *door) open(c *knock, dir network.Direction, usefd bool, endpoint ma.Multiaddr) error {
	if dir == network.DirInbound {
		if d.penalties.Out(c.from, time.Now()) {
			return errShutOut
		}
		if err := d.handshakes.Take(1, c.who); err != nil {
			return err
		}
		c.open = true
	}
	err := d.conns.Take(1, c.who)
	if err == nil {
		c.counted = true
		c.ConnManagementScope, err = d.ResourceManager.OpenConnection(dir, usefd, endpoint)
	}
	if err != nil {
		c.leave()
	}
	return err
}

// VerifySourceAddress has a caller over UDP prove that it is where it says, at the cost of a
// round trip, once an eighth of the handshakes are taken: who makes up the addresses of its
// packets must not use up the shares of others.
func (d *door) VerifySourceAddress(addr net.Addr) bool {
	return d.handshakes.Used() > d.handshakes.Total()/8 || d.ResourceManager.VerifySourceAddress(addr)
}

// knock is a connection. libp2p says Done to one whose handshake fails, even twice.
type knock struct {
	network.ConnManagementScope
	door *door
	who  budget.Who // whose places it takes
	from budget.Who // whom it is laid to, as in place

	mu            sync.Mutex // guards all below
	open, counted bool
	peer          peer.ID // known after the handshake
}

// SetPeer ends the handshake.
func (c *knock) SetPeer(p peer.ID) error {
	if err := c.ConnManagementScope.SetPeer(p); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shake()
	if c.peer == "" && c.counted {
		c.peer = p
		c.door.arrive(p, c.who.Net, c.from)
	}
	return nil
}

// Done gives everything back.
func (c *knock) Done() {
	c.ConnManagementScope.Done()
	c.leave()
}

// shake gives back the place of a handshake; mu is held.
func (c *knock) shake() {
	if c.open {
		c.open = false
		c.door.handshakes.Give(1, c.who)
	}
}

func (c *knock) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shake()
	if c.counted {
		c.counted = false
		c.door.conns.Give(1, c.who)
		c.door.depart(c.peer)
	}
}

// arrive notes where a peer comes from; a later connection from elsewhere replaces it. One that this node
// began, or that comes through a relay, says nothing of that: who has itself dialled back, as anybody may who asks
// whether it can be reached, stays where it was.
func (d *door) arrive(p peer.ID, net string, from budget.Who) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.nets[p]
	if at == nil {
		at = &place{}
		d.nets[p] = at
	}
	at.conns++
	if net != "" {
		at.net = net
	}
	if from != (budget.Who{}) {
		at.from = from
	}
}

func (d *door) depart(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.nets[p]; at != nil {
		if at.conns--; at.conns == 0 {
			delete(d.nets, p)
		}
	}
}

// strike notes that a peer was refused what it asked for, and tells whether its address is shut out by now.
func (d *door) strike(p peer.ID) (out bool) {
	var from budget.Who
	d.mu.Lock()
	if at := d.nets[p]; at != nil {
		from = at.from
	}
	d.mu.Unlock()
	return d.penalties.Refused(from, time.Now())
}

// refused is strike, and hangs up on who is shut out, as it would be at its next knock.
func (d *door) refused(p peer.ID) {
	if d.strike(p) && d.flooded != nil {
		d.flooded(p)
	}
}

// OpenStream takes a place for a stream before anything of it is read.
func (d *door) OpenStream(p peer.ID, dir network.Direction) (network.StreamManagementScope, error) {
	var who budget.Who
	if dir == network.DirInbound {
		who.Peer = string(p)
		d.mu.Lock()
		if at := d.nets[p]; at != nil {
			who.Net = at.net
		}
		d.mu.Unlock()
		if !d.pace.Take(who, time.Now()) {
			d.strike(p)
			if d.flooded != nil {
				d.flooded(p)
			}
			return nil, errFlood
		}
	}
	if err := d.streams.Take(1, who); err != nil {
		return nil, err
	}
	inner, err := d.ResourceManager.OpenStream(p, dir)
	if err != nil {
		d.streams.Give(1, who)
		return nil, err
	}
	return &entry{StreamManagementScope: inner, done: sync.OnceFunc(func() { d.streams.Give(1, who) })}, nil
}

// entry is a stream.
type entry struct {
	network.StreamManagementScope
	done func()
}

// Done gives the place back.
func (e *entry) Done() {
	e.StreamManagementScope.Done()
	e.done()
}

// placed is a stream that knows from which prefix it comes; see wire.Net. What was written
// before Close is delivered, also if Reset follows, as it does where a handler returns: QUIC
// would drop it.
type placed struct {
	network.Stream
	net    string
	closed atomic.Bool
}

// Net names the prefix, "" for one that has no share of its own.
func (s *placed) Net() string { return s.net }

func (s *placed) Close() error {
	s.closed.Store(true)
	return s.Stream.Close()
}

func (s *placed) Reset() error {
	if s.closed.Load() {
		return nil
	}
	return s.Stream.Reset()
}
