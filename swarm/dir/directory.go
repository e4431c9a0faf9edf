package dir

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	krecords "github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// Directory is a node's knowledge of its swarm. Run must be running for it to stay fresh.
// Safe for concurrent use.
type Directory struct {
	cfg  Config
	host *p2p.Host
	dht  *dht.IpfsDHT
	lost chan swarm.PeerID // connections that ended, to be checked
	kick chan struct{}     // asks for a refresh now

	mu       sync.Mutex // guards all below
	records  *records
	own      map[swarm.UID]*swarm.Record // what we announced last
	seq      uint64
	changed  chan struct{}
	first    chan struct{} // closed after the first refresh
	wanted   map[swarm.UID]time.Time
	warned   map[swarm.PeerID]time.Time
	refused  uint64
	lastPull int // rotates the tellers
}

// New starts the DHT on a host and answers pulls. It does not dial: Run does.
func New(h *p2p.Host, cfg Config) (*Directory, error) {
	if cfg.Expiration <= 0 || cfg.Expiration > swarm.MaxLifetime || cfg.Refresh <= 0 || cfg.Lonely <= 0 {
		return nil, fmt.Errorf("directory: expiration %v (at most %v), refresh %v and lonely time %v must be positive", cfg.Expiration, swarm.MaxLifetime, cfg.Refresh, cfg.Lonely)
	}
	d := &Directory{
		cfg: cfg, host: h, lost: make(chan swarm.PeerID, 256), kick: make(chan struct{}, 1),
		records: newRecords(), own: map[swarm.UID]*swarm.Record{}, changed: make(chan struct{}),
		first: make(chan struct{}), wanted: map[swarm.UID]time.Time{}, warned: map[swarm.PeerID]time.Time{},
	}
	kad, err := dht.New(h.Libp2p(),
		dht.ProtocolPrefix(protocol.ID("/whorl/"+cfg.Swarm)), dht.Mode(dht.ModeServer), dht.DisableValues(),
		dht.AddressFilter(func(a []ma.Multiaddr) []ma.Multiaddr { return a }),
		dht.ProviderManagerOpts(krecords.ProvideValidity(provideValidity)))
	if err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	d.dht = kad
	h.Handle(wire.ProtoDirectory, d.serve)
	h.Libp2p().Network().Notify(&network.NotifyBundle{DisconnectedF: func(n network.Network, c network.Conn) {
		if n.Connectedness(c.RemotePeer()) == network.Connected {
			return
		}
		select {
		case d.lost <- swarm.PeerID(c.RemotePeer().String()):
		default: // many at once: expiry will tell
		}
	}})
	return d, nil
}

// Close stops the DHT; the host stays.
func (d *Directory) Close() error { return d.dht.Close() }

// Announce publishes what this node serves: the record is completed with peer, addresses,
// sequence and times, signed, kept and sent to the connected peers. Announcing again
// replaces it.
func (d *Directory) Announce(ctx context.Context, r swarm.Record) error {
	now := time.Now()
	d.mu.Lock()
	// Milliseconds since 1970 rise across restarts without a file to keep.
	d.seq = max(d.seq+1, uint64(now.UnixMilli()))
	r.Protocol, r.Peer, r.Addrs, r.Seq = wire.Version, d.host.ID(), d.host.ListenAddrs(), d.seq
	r.Issued, r.Expires = now.UnixMilli(), now.Add(d.cfg.Expiration).UnixMilli()
	d.mu.Unlock()
	if err := r.Validate(); err != nil {
		return err
	}
	signed, err := seal(d.host, &r)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	d.mu.Lock()
	uid := r.UID()
	before := d.own[uid]
	d.own[uid] = &r
	_, err = d.records.put(&r, signed, now)
	d.touch()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if before == nil || before.State != r.State || before.Span != r.Span {
		d.tell(ctx, fanout)
	} else {
		d.Refresh()
	}
	return nil
}

// touch wakes those who wait for a change. mu is held.
func (d *Directory) touch() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Changed is closed at the next change of what is known.
func (d *Directory) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Refresh asks for an exchange soon.
func (d *Directory) Refresh() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// View is the snapshot of one model. The first call waits for the first exchange, since
// an empty view of a swarm that was not asked yet would be a lie. A model that nobody
// serves has a zero manifest.
func (d *Directory) View(ctx context.Context, uid swarm.UID) (swarm.View, error) {
	select {
	case <-d.first:
	case <-ctx.Done():
		return swarm.View{}, swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the swarm has not answered yet: %w", ctx.Err())
	}
	d.mu.Lock()
	d.wanted[uid] = time.Now()
	d.mu.Unlock()
	for _, v := range d.Views() {
		if v.Manifest.UID() == uid {
			return v, nil
		}
	}
	return swarm.View{At: time.Now()}, nil
}

// Views are the snapshots of every model known, sorted by name.
func (d *Directory) Views() []swarm.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records.views(time.Now())
}

// Signed is a peer's record as it was signed; false if none is known.
func (d *Directory) Signed(p swarm.PeerID) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.records.peers[p]
	if e == nil {
		return nil, false
	}
	return e.signed, true
}

// Accept verifies a signed record and takes it in, so that its peer can be dialled.
func (d *Directory) Accept(signed []byte) (*swarm.Record, error) {
	now := time.Now()
	r, err := open(signed, now)
	if err != nil {
		d.refuse(r, err, now)
		return nil, err
	}
	d.mu.Lock()
	news, err := d.records.put(r, signed, now)
	if news {
		d.touch()
	}
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d.host.AddAddrs(r.Peer, r.Addrs)
	return r, nil
}

// refuse counts a bad record and logs it, a line per peer and a while.
func (d *Directory) refuse(r *swarm.Record, err error, now time.Time) {
	var who swarm.PeerID
	if r != nil {
		who = r.Peer
	}
	d.mu.Lock()
	d.refused++
	quiet := now.Sub(d.warned[who]) < warnEvery || errors.Is(err, ErrExpired)
	if !quiet {
		d.warned[who] = now
	}
	d.mu.Unlock()
	if !quiet {
		d.cfg.Log.Warn("record refused", "reason", err)
	}
}

// Refused counts the records that were refused.
func (d *Directory) Refused() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// Suspect hides a peer that could not be reached until it announces anew.
func (d *Directory) Suspect(p swarm.PeerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records.suspect(p) {
		d.touch()
	}
}
