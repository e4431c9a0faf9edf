package dir

import (
	"cmp"
	"container/list"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// records is what a node knows: the newest record of each peer, within a budget (budget.go).
// Pure: the clock is passed in. Not for concurrent use.
type records struct {
	self    swarm.PeerID // whose record is never evicted
	limits  limits
	peers   map[swarm.PeerID]*entry
	groups  map[string]*group
	total   load
	unseen  load      // of those never reached
	soonest time.Time // before it nothing expires
	order   uint64
	gone    []swarm.PeerID // left without a trace since evicted was called

	// What is new here is told by place in this log (gossip.go).
	log     uint64                  // names it
	changes uint64                  // rises with each change that others may want to hear of
	changed *list.List              // of swarm.PeerID, one per peer, by when it changed last
	beats   map[uint64]swarm.PeerID // whose record has the heartbeat of a tag
	statics map[uint64]swarm.PeerID // and whose the static part
	told    map[string]*allowance   // by prefix of who told it

	manifests manifests
}

type entry struct {
	record  *swarm.Record
	part    wire.Part    // as it travels
	hash    content.Hash // of its static part
	tag     wire.Tag
	bytes   int       // what it takes in memory
	key     string    // of the group that it counts for
	until   time.Time // by our clock
	order   uint64    // rises with each new peer
	suspect bool
	change  uint64        // when it changed last, by the log's count
	place   *list.Element // in the log

	reached  time.Time  // when the peer last proved to be there; zero: never
	at       netip.Addr // where that was
	proven   bool       // that is, or leads to, an address of the record
	pinged   time.Time  // when it was last tried
	failures int        // in a row
	retry    time.Time  // not tried again before
	tries    int        // of finding it at an address of its record
	prove    time.Time  // not before
	used     time.Time  // when this node last opened a stream to it

	teller string // prefix of the first who told it
	more   bool   // others told it too, from another prefix
	named  bool   // one of the operator's initial peers told it
}

// source says who told a record.
type source struct {
	teller swarm.PeerID  // "" if it came with a session
	prefix string        // of the teller's address; "" if it came with a session
	named  bool          // the operator named this teller
	left   time.Duration // how long the teller lets the record live; 0: not said
	clock  int64         // of the record's own peer as it tells it, unix milliseconds; 0: not said

	at      netip.Addr // where the record's own peer is connected from now, if it is
	dialled bool       // by this node
}

// seen tells whether the record may stand in views.
func (e *entry) seen(now time.Time) bool { return now.Before(e.until) && !e.suspect }

// told tells whether the record may be handed on: others dial its addresses, so its owner
// has shown to be at one of them.
func (e *entry) told(now time.Time) bool { return e.seen(now) && !e.reached.IsZero() && e.proven }

func newRecords(self swarm.PeerID) *records {
	return &records{
		self: self, limits: defaultLimits, peers: map[swarm.PeerID]*entry{}, groups: map[string]*group{}, manifests: newManifests(),
		log: rand.Uint64() | 1, changed: list.New(), beats: map[uint64]swarm.PeerID{}, statics: map[uint64]swarm.PeerID{}, told: map[string]*allowance{},
	}
}

// put takes a verified record in; it tells whether anything changed. A peer's record is
// only replaced by one with a higher sequence. It lives as long as it says from when its peer
// told it on, as far as tellers say how long ago that was, but not beyond its own expiry by more
// than clocks may differ: handing an old record on does not keep a dead server alive. A record
// that has no room is refused with ErrFull.
func (s *records) put(o *sealed, from source, now time.Time) (bool, error) {
	r := o.record
	old := s.peers[r.Peer]
	if old != nil && !r.Newer(old.record) {
		s.vouch(r.Peer, from)
		return false, nil
	}
	s.order++
	e := &entry{order: s.order, teller: from.prefix, named: from.named}
	if old != nil { // all but the record and the suspicion stays
		kept := *old
		e, kept.suspect = &kept, false
		e.proven = old.proven && slices.Equal(old.record.Addrs, r.Addrs) || isAt(r, old.at)
	}
	if from.at.IsValid() { // before it is weighed: it is no hearsay
		e.reached, e.at = now, from.at
		e.proven = e.proven || isAt(r, from.at) || from.dialled && !hasIPs(r)
	}
	e.record, e.part, e.hash, e.tag, e.bytes = r, o.part, o.hash, o.tag(), footprint(r, o.part)
	e.until = ends(r, from, now)
	s.set(r.Peer, e)
	s.change(r.Peer)
	s.soonest = earlier(s.soonest, e.until)
	if old != nil {
		s.vouch(r.Peer, from)
	}
	if s.peers[r.Peer] == nil {
		return false, s.noRoom(r.Peer)
	}
	if key := s.peers[r.Peer].key; s.full(key) {
		s.prune(now)
		s.fit(key)
	}
	if s.peers[r.Peer] == nil {
		return false, s.noRoom(r.Peer)
	}
	return true, nil
}

// ends is when a record ends by our clock.
func ends(r *swarm.Record, from source, now time.Time) time.Time {
	left := time.Duration(r.Expires-r.Issued) * time.Millisecond
	if from.left > 0 {
		left = min(left, from.left)
	}
	if from.clock > 0 {
		left = min(left, time.Duration(r.Expires-from.clock)*time.Millisecond)
	}
	return earlier(now.Add(left), time.UnixMilli(r.Expires).Add(MaxSkew))
}

// like finds a record with a static part, and the bytes of that.
func (s *records) like(hash content.Hash) (*swarm.Record, []byte) {
	p, ok := s.statics[tagOf(hash)]
	if e := s.peers[p]; ok && e != nil && e.hash == hash {
		return e.record, e.part.Static
	}
	return nil, nil
}

// keep takes in a manifest of this node's own.
func (s *records) keep(m swarm.Manifest) {
	if uid, news := s.manifests.keep(m); news {
		s.changeAll(uid)
	}
}

func (s *records) noRoom(p swarm.PeerID) error {
	return fmt.Errorf("%w: %s has no room beside %d others", ErrFull, p.Short(), len(s.peers))
}

// vouch notes that a peer's record was told by somebody.
func (s *records) vouch(p swarm.PeerID, from source) {
	e := s.peers[p]
	if e == nil || e.named || !from.named && (from.prefix == e.teller || e.more) {
		return
	}
	changed := *e
	changed.more = changed.more || from.prefix != e.teller
	changed.named = from.named
	s.set(p, &changed)
	s.fit(changed.key)
}

// reach notes that a peer proved to be at an address: it connected from there, or answered
// there. It takes a suspicion back, and tells whether views change.
func (s *records) reach(p swarm.PeerID, at netip.Addr, dialled bool, now time.Time) bool {
	e := s.peers[p]
	if e == nil {
		return false
	}
	changed := *e
	changed.reached, changed.at, changed.failures, changed.retry, changed.suspect = now, at, 0, time.Time{}, false
	changed.proven = e.proven || isAt(e.record, at) || dialled && !hasIPs(e.record)
	s.set(p, &changed)
	if !e.told(now) && changed.told(now) {
		s.change(p)
	}
	s.fit(changed.key)
	return e.suspect || e.reached.IsZero()
}

// unproven lists the addresses of a peer that was reached at none of them, if it is time to
// try them again. draw is uniform in [0, 1).
func (s *records) unproven(p swarm.PeerID, draw float64, now time.Time) []string {
	e := s.peers[p]
	if e == nil || e.proven || e.reached.IsZero() || now.Before(e.prove) {
		return nil
	}
	e.tries++
	e.prove = now.Add(again.After(e.tries, draw))
	return e.record.Addrs
}

// prove notes that a peer answered at an address of its record.
func (s *records) prove(p swarm.PeerID) {
	if e := s.peers[p]; e != nil && !e.proven {
		e.proven = true
		s.change(p)
	}
}

// isAt tells whether a record announces an address with this IP.
func isAt(r *swarm.Record, at netip.Addr) bool {
	return at.IsValid() && slices.ContainsFunc(r.Addrs, func(a string) bool { return p2p.IPOf(a) == at })
}

// hasIPs tells whether a record announces any address that is an IP and not a name.
func hasIPs(r *swarm.Record) bool {
	return slices.ContainsFunc(r.Addrs, func(a string) bool { return p2p.IPOf(a).IsValid() })
}

// suspect hides a peer until it says something newer or is reached; it tells whether that
// is news.
func (s *records) suspect(p swarm.PeerID) bool {
	e := s.peers[p]
	if e == nil || e.suspect {
		return false
	}
	e.suspect = true
	return true
}

// prune drops what has expired; it tells whether there was anything.
func (s *records) prune(now time.Time) bool {
	if now.Before(s.soonest) {
		return false
	}
	before := len(s.peers)
	s.soonest = now.Add(swarm.MaxLifetime)
	for p, e := range s.peers {
		if now.Before(e.until) {
			s.soonest = earlier(s.soonest, e.until)
		} else {
			s.set(p, nil)
			if e.reached.IsZero() {
				s.gone = append(s.gone, p)
			}
		}
	}
	if len(s.peers) == before {
		return false
	}
	s.forget()
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// view is the snapshot of one model; its manifest is zero if nobody serves it, or if its
// manifest is not known yet. Spans that the manifest does not have are left out.
func (s *records) view(uid swarm.UID, now time.Time) swarm.View {
	var m swarm.Manifest
	var all []swarm.Record
	reached := map[swarm.PeerID]string{}
	if h := s.manifests.held[uid]; h != nil {
		for p, e := range s.peers {
			if e.record.UID == uid && e.seen(now) && e.record.Span.End <= h.m.Blocks {
				m = h.m
				r := *e.record
				r.Manifest = m
				all = append(all, r)
				if p == s.self || !e.reached.IsZero() {
					reached[p] = p2p.Prefix(e.at)
				}
			}
		}
	}
	v := swarm.NewView(m, now, all)
	v.Reached = reached
	return v
}

// views are the snapshots of all models, sorted by name and UID.
func (s *records) views(now time.Time) []swarm.View {
	uids := map[swarm.UID]bool{}
	for _, e := range s.peers {
		if e.seen(now) {
			uids[e.record.UID] = true
		}
	}
	var out []swarm.View
	for uid := range uids {
		if v := s.view(uid, now); len(v.Servers) > 0 {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b swarm.View) int {
		return cmp.Or(cmp.Compare(a.Manifest.Name, b.Manifest.Name), cmp.Compare(a.Servers[0].UID, b.Servers[0].UID))
	})
	return out
}
