package dir

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Book is what one node knows, without its network: the records of a Directory, its offers, its choice
// of tellers and of whom to measure, for simulations that carry all of it in virtual time. Nothing is signed or encoded, and
// heartbeats that say nothing new are left out: a record lives until Strike. All nodes are in one address
// prefix, as those of a laboratory are. Not for concurrent use.
type Book struct {
	records *records
	uid     swarm.UID
	wanted  map[swarm.UID]time.Time
	turns   rotation
	cursors map[swarm.PeerID]cursor
	changed []swarm.PeerID
}

// bookAddr is where all nodes of simulations are.
const bookAddr = "192.0.2.1"

var (
	bookAt    = netip.MustParseAddr(bookAddr)
	bookAddrs = []string{"/ip4/" + bookAddr + "/tcp/4001"}
)

// NewBook is that of a newcomer who knows nobody.
func NewBook(self swarm.PeerID, m swarm.Manifest) *Book {
	b := &Book{records: newRecords(self), cursors: map[swarm.PeerID]cursor{}}
	b.uid, _ = b.records.manifests.keep(m)
	b.wanted = map[swarm.UID]time.Time{b.uid: {}}
	return b
}

// Announce is what the node says of itself from now on. The sequence must rise.
func (b *Book) Announce(r swarm.Record, now time.Time) {
	r.Peer, r.UID, r.Addrs = b.records.self, b.uid, bookAddrs
	r.Issued, r.Expires = now.UnixMilli(), now.UnixMilli()+swarm.MaxLifetime.Milliseconds()
	static := []byte(r.Peer)
	beat := binary.LittleEndian.AppendUint64(slices.Clone(static), r.Seq)
	b.take(&sealed{&r, wire.Part{Beat: beat, Static: static}, content.Sum(static)}, source{named: true, at: bookAt, dialled: true}, now)
}

// Tellers are up to n of the connected peers that the node asks next; initial ones are those
// that the operator named.
func (b *Book) Tellers(n int, initial, connected []swarm.PeerID, now time.Time) []swarm.PeerID {
	size := b.records.size()
	return chooseTellers(b.records.self, initial, connected, n, b.turns.at(size, now), size > crowd)
}

// Exchange is one with a teller, who is one of the operator's if it is named: the node takes what is new
// there and leaves its own record. It tells whether either of them learned anything.
func (b *Book) Exchange(teller *Book, named bool, now time.Time) bool {
	at, from := b.cursors[teller.records.self], source{teller: teller.records.self, prefix: string(teller.records.self), named: named}
	pull := wire.Pull{Log: at.log, Since: at.at, Most: wire.MaxOffered}
	if !named {
		pull.Most = maxTold
	}
	own := b.records.peers[b.records.self]
	if own != nil {
		pull.Own = &own.tag
	}
	met, meets := b.meet(teller.records.self, now), teller.meet(b.records.self, now)
	news := met || meets
	offer, _ := teller.records.offer(b.records.self, &pull, now)
	c, n, all := b.records.pick(offer, b.records.allow(from, now), from, now)
	b.records.spend(from, n, now)
	for i, e := range offer.All {
		if p := teller.records.beats[e.Beat]; c.Beats.Has(i) && p != b.records.self {
			news = b.take(teller.records.peers[p].sealed(), from, now) || news
		}
	}
	if own != nil && offer.Beat {
		asker := source{teller: b.records.self, prefix: string(b.records.self), at: bookAt, dialled: true}
		news = teller.take(own.sealed(), asker, now) || news
	}
	if all {
		b.cursors[teller.records.self] = cursor{offer.Log, offer.At}
	}
	b.meet(teller.records.self, now)
	return news
}

// sealed is what came.
func (e *entry) sealed() *sealed { return &sealed{e.record, e.part, e.hash} }

// take is put, for ever.
func (b *Book) take(o *sealed, from source, now time.Time) bool {
	news, err := b.records.put(o, from, now)
	if e := b.records.peers[o.record.Peer]; e != nil && err == nil {
		e.until = time.Unix(math.MaxInt32, 0)
	}
	if news {
		b.changed = append(b.changed, o.record.Peer)
	}
	return news
}

// meet notes that a peer is connected, and tells whether that is news.
func (b *Book) meet(p swarm.PeerID, now time.Time) bool {
	if e := b.records.peers[p]; e != nil && !e.reached.IsZero() && !e.suspect || !b.records.reach(p, bookAt, true, now) {
		return false
	}
	b.changed = append(b.changed, p)
	return true
}

// Unmet are the peers that the node tries to reach in this round, of those that it never reached.
func (b *Book) Unmet(now time.Time) []swarm.PeerID {
	if !b.Strangers() {
		return nil
	}
	return b.records.due(pingsPerRefresh, b.wanted, math.MaxInt64, now)
}

// Ping is one that a peer answers, or not.
func (b *Book) Ping(p swarm.PeerID, answers bool, draw float64, now time.Time) {
	if answers {
		b.meet(p, now)
	} else if b.records.fail(p, draw, now) {
		b.changed = append(b.changed, p)
	}
}

// Strike takes a record of a sequence out whose time is over.
func (b *Book) Strike(p swarm.PeerID, seq uint64) {
	if e := b.records.peers[p]; e != nil && e.record.Seq == seq {
		b.records.set(p, nil)
		b.changed = append(b.changed, p)
	}
}

// Changed lists the peers of which something is new since it was last called.
func (b *Book) Changed() []swarm.PeerID {
	out := b.changed
	b.changed = nil
	return out
}

// Row is what stands in the book of a peer: nil if its record is in no view. met tells whether the node ever reached it.
func (b *Book) Row(p swarm.PeerID, now time.Time) (r *swarm.Record, met bool) {
	e := b.records.peers[p]
	if e == nil || !e.seen(now) {
		return nil, false
	}
	return e.record, !e.reached.IsZero()
}

// Strangers tells whether there are peers that the node never reached.
func (b *Book) Strangers() bool { return b.records.unseen.records > 0 }

// View is the snapshot that the node has of its model.
func (b *Book) View(now time.Time) swarm.View { return b.records.view(b.uid, now) }

// PingRound is how long a node takes to ping each of so many peers that it reached and has no
// streams to, and PingTimeout how long it waits for one that does not answer.
func PingRound(peers int) time.Duration {
	refresh := DefaultConfig().Refresh
	return max(restFor, time.Duration((peers+pingsPerRefresh-1)/pingsPerRefresh)) * refresh
}

// PingTimeout is how long a node waits for an answer to a ping.
const PingTimeout = pingTimeout

// Fanout is how many peers hear of a new state at once, and Tellers how many are asked in each refresh.
const (
	Fanout  = fanout
	Tellers = tellers
)
