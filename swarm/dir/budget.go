package dir

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// Identities cost nothing, so that the store is shared among groups of peers that cannot
// be had for nothing: a peer that was reached belongs to the address prefix where it was
// found; one that was not, to the prefix of who told it, unless the operator named that
// teller, whose word about addresses counts. Over a limit the group that holds most loses
// first, and of its rows the one that matters least.

// load is an amount of records.
type load struct{ records, bytes int }

func (l load) add(o load) load { return load{l.records + o.records, l.bytes + o.bytes} }
func (l load) sub(o load) load { return load{l.records - o.records, l.bytes - o.bytes} }

// exceeds tells whether l is more than some eighths of the limit.
func (l load) exceeds(limit load, eighths int) bool {
	return l.records*8 > limit.records*eighths || l.bytes*8 > limit.bytes*eighths
}

// share is the part of the limit that l takes, by whichever is scarcer.
func (l load) share(limit load) float64 {
	return max(float64(l.records)/float64(limit.records), float64(l.bytes)/float64(limit.bytes))
}

// group is what the rows of one key hold together.
type group struct {
	load
	unseen int // rows never reached
	peers  map[swarm.PeerID]*entry
}

// limits of the store.
type limits struct {
	all load
	// The most that a group may hold, and all that was never reached, in eighths.
	teller, prefix, unseen int
}

// defaultLimits hold the largest swarm that one exchange can carry, with records of 4 kB
// in memory on average: half as much again as a server of ten blocks takes.
var defaultLimits = limits{
	all:    load{records: wire.MaxOffered, bytes: 64 << 20},
	teller: 1, // who is not of the operator's choice tells at most 2048 peers that nobody else told
	prefix: 4, // a laboratory, or a swarm on one machine, has all its peers in one prefix
	unseen: 6, // a quarter is left for those that were reached
}

// usedFor is how long a row counts as in use after a stream to its peer was opened: longer
// than a session waits for its next step.
const usedFor = 10 * time.Minute

// footprint is about what a record takes in memory: as signed and as decoded, with the
// overhead of maps, strings and slices.
func footprint(r *swarm.Record, p wire.Part) int {
	const fixed, text, mapped = 3 << 9, 24, 64
	n := fixed + len(p.Beat) + len(p.Static) + len(r.PublicName) + len(r.Version) + len(r.UID)
	for _, a := range r.Addrs {
		n += text + 3*len(a) // here, and twice among the addresses of the host
	}
	for _, a := range r.Adapters {
		n += 2*text + len(a.Name) + len(a.Digest)
	}
	for p := range r.NextRTT {
		n += mapped + len(p)
	}
	return n
}

// group is what an entry counts for.
func (e *entry) group() string {
	switch {
	case !e.reached.IsZero():
		return inPrefix + p2p.Prefix(e.at)
	case e.named:
		var claimed netip.Addr
		for _, a := range e.record.Addrs {
			if ip := p2p.IPOf(a); ip.IsValid() && (!claimed.IsValid() || claimed.IsLoopback()) {
				claimed = ip
			}
		}
		return inPrefix + p2p.Prefix(claimed)
	}
	return byTeller + e.teller
}

const (
	inPrefix = "in "
	byTeller = "by "
)

// worth orders rows of a group by how much they matter here.
func (s *records) worth(p swarm.PeerID, e *entry) int {
	switch {
	case p == s.self:
		return 4
	case !e.used.IsZero():
		return 3
	case !e.reached.IsZero():
		return 2
	case e.named || e.more:
		return 1
	}
	return 0
}

// set replaces a peer's entry, nil for none, and keeps count.
func (s *records) set(p swarm.PeerID, e *entry) {
	if old := s.peers[p]; old != nil {
		s.count(old, load.sub)
		g := s.groups[old.key]
		delete(g.peers, p)
		if len(g.peers) == 0 {
			delete(s.groups, old.key)
		}
		delete(s.peers, p)
		s.unlist(p, old, e)
	}
	if e != nil {
		e.key = e.group()
		if s.groups[e.key] == nil {
			s.groups[e.key] = &group{peers: map[swarm.PeerID]*entry{}}
		}
		s.groups[e.key].peers[p], s.peers[p] = e, e
		s.count(e, load.add)
	}
}

func (s *records) count(e *entry, by func(l, o load) load) {
	one, g := load{1, e.bytes}, s.groups[e.key]
	s.total, g.load = by(s.total, one), by(g.load, one)
	if e.reached.IsZero() {
		s.unseen = by(s.unseen, one)
		g.unseen = by(load{records: g.unseen}, one).records
	}
}

// most is what a group may hold, in eighths of all.
func (s *records) most(group string) int {
	if strings.HasPrefix(group, byTeller) {
		return s.limits.teller
	}
	return s.limits.prefix
}

// full tells whether there is no room after a group has grown.
func (s *records) full(grown string) bool {
	g, _ := s.over(grown)
	return g != nil
}

// over is the group that must lose a row after one has grown, nil if there is room for all;
// unseen says that it must be a row of a peer never reached.
func (s *records) over(grown string) (loser *group, unseen bool) {
	switch {
	case s.total.exceeds(s.limits.all, 8):
	case s.unseen.exceeds(s.limits.all, s.limits.unseen):
		unseen = true
	case s.groups[grown] != nil && s.groups[grown].exceeds(s.limits.all, s.most(grown)):
		return s.groups[grown], false
	default:
		return nil, false
	}
	var most float64
	var which string
	for key, g := range s.groups {
		if share := g.share(s.limits.all); (!unseen || g.unseen > 0) && (loser == nil || share > most || share == most && key > which) {
			loser, which, most = g, key, share
		}
	}
	return loser, unseen
}

// fit evicts until every limit is kept, after a group has grown: of the group that holds
// most the row of least worth, and of several such the one heard of last, so that new
// identities do not push out old ones.
func (s *records) fit(grown string) {
	for {
		g, unseen := s.over(grown)
		if g == nil {
			return
		}
		var last swarm.PeerID
		var le *entry
		for p, e := range g.peers {
			if p != s.self && (!unseen || e.reached.IsZero()) && (le == nil || s.before(p, e, last, le)) {
				last, le = p, e
			}
		}
		if le == nil { // our own row alone is larger than all
			return
		}
		s.set(last, nil)
		s.gone = append(s.gone, last)
	}
}

// before tells whether row p of a group goes before row q.
func (s *records) before(p swarm.PeerID, e *entry, q swarm.PeerID, f *entry) bool {
	return cmp.Or(cmp.Compare(s.worth(p, e), s.worth(q, f)), cmp.Compare(f.order, e.order)) < 0
}

// evicted lists who has left without a trace since it was last called.
func (s *records) evicted() []swarm.PeerID {
	gone := s.gone
	s.gone = nil
	return gone
}

// use notes which peers this node has streams to, or had lately.
func (s *records) use(peers map[swarm.PeerID]time.Time, now time.Time) {
	for p, e := range s.peers {
		if e.used = peers[p]; now.Sub(e.used) > usedFor {
			e.used = time.Time{}
		}
	}
}
