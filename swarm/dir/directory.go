package dir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/network"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// Directory is a node's knowledge of its swarm. Run must be running for it to stay fresh.
// Safe for concurrent use.
type Directory struct {
	cfg     Config
	host    *p2p.Host
	dht     *dht.IpfsDHT
	metrics *metrics
	lost    chan swarm.PeerID // whose connection ended or whom a session suspects, to be checked
	kick    chan struct{}     // asks for an exchange now
	turns   *budget.Pool      // pulls being answered
	pace    *budget.Pace      // how often others ask
	answers *budget.Pool      // bytes of answers
	reading budget.Hold       // bytes of frames that are being read; our own hand in it
	lacking chan struct{}     // asks for manifests that records name

	fetching sync.Mutex // one at a time fetches manifests

	mu      sync.Mutex     // guards all below
	boot    []string       // cfg.Bootstrap, with what its lists named when last looked up
	initial []swarm.PeerID // of boot
	heard   time.Time      // when an exchange last succeeded
	records *records
	own     *swarm.Record // what we announced last
	restate time.Time     // when its static part was made
	pending *swarm.Record // figures that wait for their time
	seq     uint64        // of the last record of ours, from this process or an earlier one
	foreign *swarm.Record // the newest record of ours that this process did not make
	changed chan struct{}
	first   chan struct{} // closed after the first exchange
	wanted  map[swarm.UID]time.Time
	warned  map[string]time.Time
	lines   int       // warnings since
	since   time.Time // this minute
	refused uint64
	asked   rotation // of tellers
	cursors map[swarm.PeerID]cursor
}

// cursor is where this node stopped in a teller's log.
type cursor struct{ log, at uint64 }

// New starts the DHT on a host and answers pulls. It does not dial: Run does.
func New(h *p2p.Host, cfg Config) (*Directory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	d := &Directory{
		cfg: cfg, host: h, lost: make(chan swarm.PeerID, 256), kick: make(chan struct{}, 1), lacking: make(chan struct{}, 1),
		records: newRecords(h.ID()), changed: make(chan struct{}), first: make(chan struct{}),
		wanted: map[swarm.UID]time.Time{}, warned: map[string]time.Time{}, cursors: map[swarm.PeerID]cursor{},
	}
	if len(cfg.Bootstrap) > 0 {
		for _, s := range cfg.Bootstrap {
			if err := p2p.CheckPeer(s); err != nil {
				return nil, err
			}
		}
		d.startFrom(slices.DeleteFunc(slices.Clone(cfg.Bootstrap), p2p.IsList))
	}
	d.turns, d.answers = budget.New("turns of the directory", servings), budget.New("bytes of answers of the directory", answerBytes)
	d.reading.Pool = budget.New("bytes of exchanges that are being read", readingBytes)
	if err := budget.Register(cfg.Registerer, d.turns, d.answers, d.reading.Pool); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	each := 1 / cfg.Refresh.Seconds() // in its turn a node asks once in this time
	d.pace = budget.NewPace(budget.Rate{Burst: questions, PerSecond: questionsRate * each}, budget.Rate{Burst: netQuestions, PerSecond: netQuestionsRate * each})
	var err error
	if d.dht, err = newDHT(h, cfg); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	d.metrics = newMetrics(cfg.Registerer, d.size, d.unreached)
	h.Handle(wire.ProtoDirectory, d.serve)
	h.Libp2p().Network().Notify(&network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		d.reached(swarm.PeerID(c.RemotePeer().String()))
	}, DisconnectedF: func(n network.Network, c network.Conn) {
		if n.Connectedness(c.RemotePeer()) == network.Connected {
			return
		}
		d.doubt(swarm.PeerID(c.RemotePeer().String()))
	}})
	return d, nil
}

// Close stops the DHT; the host stays.
func (d *Directory) Close() error { return d.dht.Close() }

func (d *Directory) size() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(len(d.records.peers))
}

// unreached counts the peers that this node had no contact with.
func (d *Directory) unreached() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(d.records.unseen.records)
}

// Announce publishes what this node serves: the record is completed with peer, addresses,
// sequence and times, signed, kept and sent to connected peers, at once if the state, the
// span or the intent is new. Announcing again replaces it. Where nothing but figures are new
// the record may wait for a while, which is longer the larger the swarm is.
func (d *Directory) Announce(ctx context.Context, r swarm.Record) error {
	news, err := d.announce(&r, false)
	switch {
	case err != nil:
		return fmt.Errorf("announce: %w", err)
	case news:
		d.tell(ctx, fanout)
	default:
		d.Refresh()
	}
	return nil
}

// announce is Announce without telling anybody; it tells whether that is urgent. Figures wait
// for their time unless it is due.
func (d *Directory) announce(r *swarm.Record, due bool) (news bool, err error) {
	now := d.cfg.Clock()
	if r.Protocol, r.Peer = wire.Version, d.host.ID(); r.Features == 0 {
		r.Features = wire.Features
	}
	r.Addrs = p2p.Best(d.host.ListenAddrs(), swarm.MaxAddrs)
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.records.size()
	before := d.own
	news = before == nil || before.State != r.State || before.Span != r.Span || !sameIntent(before.Next, r.Next)
	if before != nil {
		old, still := staticOf(before), staticOf(r)
		roundTrips, others := still.differs(&old)
		if roundTrips && !others && !news && len(old.NextRTT) > 0 && now.Sub(d.restate) < time.Duration(n)*restateEvery {
			r.NextRTT, roundTrips = old.NextRTT, false
		}
		if !roundTrips && !others && !news && !due && now.Sub(time.UnixMilli(before.Issued)) < pace(n) {
			waits := *r
			d.pending = &waits
			return false, nil
		}
		if roundTrips || others {
			d.restate = now
		}
	}
	// Milliseconds since 1970 rise across restarts without a file to keep; should the
	// clock be set back, the swarm reminds us of how far we were.
	d.seq = max(d.seq+1, uint64(max(0, now.UnixMilli())))
	r.Seq, r.Issued, r.Expires = d.seq, now.UnixMilli(), now.Add(lifetime(n, d.cfg.Expiration)).UnixMilli()
	err = errors.Join(r.Validate(), r.Manifest.Validate())
	switch uid := r.Manifest.UID(); {
	case err != nil:
	case r.UID != uid:
		err = fmt.Errorf("record of model %s with the manifest of %s", r.UID, uid)
	case !r.Manifest.Pinned():
		err = fmt.Errorf("the manifest of %s names no weights, so nobody could check them", r.Manifest.Name)
	}
	if err != nil {
		return false, err
	}
	signed, err := seal(d.host.Sign, r)
	if err != nil {
		return false, err
	}
	d.own, d.pending = signed.record, nil
	d.records.keep(r.Manifest)
	_, err = d.records.put(signed, source{named: true}, now)
	d.touch()
	return news, err
}

// renew announces figures whose time has come.
func (d *Directory) renew() {
	now := d.cfg.Clock()
	d.mu.Lock()
	r := d.pending
	if r != nil && d.own != nil && now.Sub(time.UnixMilli(d.own.Issued)) < pace(d.records.size()) {
		r = nil
	}
	d.mu.Unlock()
	if r == nil {
		return
	}
	if _, err := d.announce(r, true); err != nil {
		d.warn("renew", "the record cannot be renewed", "reason", err)
	}
}

func sameIntent(a, b *swarm.Intent) bool { return a == b || a != nil && b != nil && *a == *b }

// touch wakes those who wait for a change. mu is held.
func (d *Directory) touch() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Changed is closed at the next change of what is known. Take it before looking.
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

// View is the snapshot of one model, without servers to which this node must not connect. The first call waits for the first exchange, since
// an empty view of a swarm that was not asked yet would be a lie. A model that nobody
// serves has a zero manifest.
func (d *Directory) View(ctx context.Context, uid swarm.UID) (swarm.View, error) {
	if uid != "" { // before anybody has answered: where no teller does, the DHT is asked for it
		d.mu.Lock()
		d.wanted[uid] = d.cfg.Clock()
		d.mu.Unlock()
	}
	select {
	case <-d.first:
	case <-ctx.Done():
		return swarm.View{}, swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the swarm has not answered yet: %w", ctx.Err())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.records.view(uid, d.cfg.Clock())
	v.Servers = slices.DeleteFunc(v.Servers, func(r swarm.Record) bool { return !d.host.Permits(r.Peer, r.Addrs) })
	return v, nil
}

// Views are the snapshots of every model known, sorted by name.
func (d *Directory) Views() []swarm.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records.views(d.cfg.Clock())
}

// Signed is a peer's record as it was signed, for Accept of another node; false if none is
// known.
func (d *Directory) Signed(p swarm.PeerID) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.records.peers[p]
	if e == nil {
		return nil, false
	}
	return e.part.Append(nil), true
}

// Accept verifies a signed record and takes it in, so that its peer can be dialled. It
// returns the newest record known of that peer: an older one, told late or replayed, is
// no error and changes nothing.
func (d *Directory) Accept(signed []byte) (*swarm.Record, error) {
	p, err := wire.ParsePart(signed)
	if err != nil {
		d.refuse("", source{}, err)
		return nil, err
	}
	return d.accept(p, source{}, "")
}

// accept is Accept of what somebody tells; with only, a record of another peer is refused.
func (d *Directory) accept(p wire.Part, from source, only swarm.PeerID) (*swarm.Record, error) {
	now := d.cfg.Clock()
	var newest *swarm.Record
	o, who, err := open(p, now, d.host.Verify, func(who swarm.PeerID, seq uint64, hash content.Hash) (*swarm.Record, []byte, error) {
		if only != "" && who != only {
			return nil, nil, fmt.Errorf("%w: %s brings one of %.100q", ErrTeller, only.Short(), string(who))
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if e := d.records.peers[who]; e != nil && who != d.host.ID() && seq <= e.record.Seq {
			d.records.vouch(who, from)
			newest = e.record
			return nil, nil, errKnown
		}
		like, raw := d.records.like(hash)
		return like, raw, nil
	})
	switch {
	case newest != nil:
		return newest, nil
	case err != nil:
		d.refuse(who, from, err)
		return nil, err
	case who == d.host.ID():
		return o.record, d.hearOfUs(o.record)
	}
	r := o.record
	if c := d.host.Contacts(r.Peer); len(c) > 0 {
		from.at, from.dialled = c[0].IP, c[0].Dialled
	}
	d.mu.Lock()
	_, met := d.records.peers[r.Peer]
	news, err := d.records.put(o, from, now)
	if news {
		d.touch()
	} else if e := d.records.peers[r.Peer]; err == nil {
		r = e.record
	}
	gone := d.records.evicted()
	d.mu.Unlock()
	for _, p := range gone {
		d.metrics.evicted.Inc()
		d.host.Forget(p)
	}
	if err != nil {
		d.refuse(who, from, err)
		return nil, err
	}
	d.host.AddAddrs(r.Peer, r.Addrs)
	if from.named {
		d.host.Vouch(r.Peer)
	}
	d.reached(r.Peer)
	if news {
		d.lack()
	}
	if !met && from.teller != "" && from.teller != r.Peer {
		d.metrics.finds.WithLabelValues(byGossip).Inc()
	}
	return r, nil
}

// source is what a peer counts as when it tells something.
func (d *Directory) source(p swarm.PeerID) source {
	_, initial := d.starts()
	s := source{teller: p, named: slices.Contains(initial, p)}
	if c := d.host.Contacts(p); len(c) > 0 {
		s.prefix = p2p.Prefix(c[0].IP)
	}
	return s
}

// reached notes that a peer is connected, if it is and has a record.
func (d *Directory) reached(p swarm.PeerID) {
	now := d.cfg.Clock()
	for _, c := range d.host.Contacts(p) {
		d.mu.Lock()
		if d.records.reach(p, c.IP, c.Dialled, now) {
			d.touch()
		}
		d.mu.Unlock()
	}
}

// hearOfUs takes a record that bears our identity: one of ours, one from before a restart,
// or one of a process that has a copy of the key.
func (d *Directory) hearOfUs(r *swarm.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Seq <= d.seq {
		return nil
	}
	d.seq = r.Seq // whatever we announce next must be newer
	d.foreign = r
	return nil
}

// refuse counts a bad record and logs it, a line per reason, teller and a while. Expired ones
// are common where a teller's clock is a little behind.
func (d *Directory) refuse(who swarm.PeerID, from source, err error) {
	d.metrics.refused.WithLabelValues(kind(err)).Inc()
	d.mu.Lock()
	d.refused++
	d.mu.Unlock()
	if !errors.Is(err, ErrExpired) {
		d.warn("record "+kind(err)+from.prefix, "record refused", "peer", who, "from", from.prefix, "reason", err)
	}
}

// warn logs a line unless one with the same key was logged lately, or many others were:
// strangers must not be able to fill a log.
func (d *Directory) warn(key, text string, args ...any) {
	now := d.cfg.Clock()
	d.mu.Lock()
	if now.Sub(d.since) > time.Minute || now.Before(d.since) {
		d.since, d.lines = now, 0
	}
	at, ok := d.warned[key]
	quiet := ok && now.Sub(at) < warnEvery || d.lines >= maxLines
	if !quiet {
		d.lines++
		if len(d.warned) >= maxWarned {
			clear(d.warned)
		}
		d.warned[key] = now
	}
	d.mu.Unlock()
	if !quiet {
		d.cfg.Log.Warn(text, args...)
	}
}

// Refused counts the records that were refused.
func (d *Directory) Refused() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// Suspect hides a peer that could not be reached until it announces anew or answers a
// ping, which is asked of it at once: what one session saw of a server must not take it
// from all others for longer. A node does not suspect itself.
func (d *Directory) Suspect(p swarm.PeerID) {
	if p == d.host.ID() {
		return
	}
	d.mu.Lock()
	news := d.records.suspect(p)
	if news {
		d.metrics.suspects.WithLabelValues("session").Inc()
		d.touch()
	}
	d.mu.Unlock()
	if news {
		d.doubt(p)
	}
}

// doubt has a peer checked soon.
func (d *Directory) doubt(p swarm.PeerID) {
	select {
	case d.lost <- p:
	default: // many at once: the rounds of pings and expiry will tell
	}
}
