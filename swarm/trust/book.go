package trust

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"whorl/swarm"
)

// Params say how long what is held against a peer, and how much is remembered.
type Params struct {
	// First is how long a peer is left alone after a failure: long enough that a retry does
	// not meet the same dead peer before its record expires, short enough that a hiccup does
	// not idle a healthy server. It doubles on repetition up to Max.
	First, Max time.Duration
	// Suspicion is how long a peer whose rows differ is left alone if nobody judges.
	Suspicion time.Duration
	// Sentence is how long a proven liar is avoided. It ends, since memory has errors too.
	Sentence time.Duration
	// HalfLife is after what time an observation counts half.
	HalfLife time.Duration
	// PrefixLiars is how many proven liars a network may have before newcomers from it are
	// avoided too: identities cost nothing, addresses do. 0 judges no network.
	PrefixLiars int
	// Standing is how many agreed audits free a peer from what others in its network did:
	// many households share an address.
	Standing int
	// MaxPeers bounds the memory: some 400 bytes each.
	MaxPeers int
}

// DefaultParams has Petals' 15 s after a failure, and a week for a proven lie.
func DefaultParams() Params {
	return Params{
		First: 15 * time.Second, Max: 2 * time.Minute, Suspicion: 10 * time.Minute, Sentence: 7 * 24 * time.Hour,
		HalfLife: 24 * time.Hour, PrefixLiars: 3, Standing: 20, MaxPeers: 8192,
	}
}

// Book is a node's memory of its peers, shared by all that ask peers for something. The zero
// value is not ready: use NewBook. Safe for concurrent use.
type Book struct {
	p Params

	mu    sync.Mutex // guards all below
	peers map[swarm.PeerID]*entry
	// liars are the proven liars per prefix, with the time at which each stops to count.
	liars map[string]map[swarm.PeerID]time.Time
}

// entry is what is known of a peer.
type entry struct {
	prefix   string
	counts   [numKinds]float64 // decayed, as of at
	at       time.Time
	seen     time.Time // the last observation
	strikes  int       // failures that followed one another
	failed   time.Time // the last failure
	failure  Avoidance // why it is left alone after that
	lie      Avoidance // the longest that stands; zero if none
	sessions int       // that could have been audited
}

// NewBook makes an empty memory.
func NewBook(p Params) *Book {
	return &Book{p: p, peers: map[swarm.PeerID]*entry{}, liars: map[string]map[swarm.PeerID]time.Time{}}
}

// entry finds or makes what is known of a peer, with counts decayed to now.
func (b *Book) entry(p swarm.PeerID, now time.Time) *entry {
	e := b.peers[p]
	if e == nil {
		if len(b.peers) >= b.p.MaxPeers {
			b.evict(now)
		}
		e = &entry{at: now, seen: now}
		b.peers[p] = e
	}
	e.decay(now, b.p.HalfLife)
	return e
}

func (e *entry) decay(now time.Time, half time.Duration) {
	if d := now.Sub(e.at); d > 0 {
		f := math.Exp2(-float64(d) / float64(half))
		for k := range e.counts {
			e.counts[k] *= f
		}
		e.at = now
	}
}

// evict forgets an eighth of the peers, those first of whom nothing is held and which were
// seen longest ago: a flood of new identities pushes out its own.
func (b *Book) evict(now time.Time) {
	type old struct {
		id swarm.PeerID
		e  *entry
	}
	all := make([]old, 0, len(b.peers))
	for id, e := range b.peers {
		all = append(all, old{id, e})
	}
	weight := func(o old) int {
		switch {
		case o.e.lie.Until.After(now):
			return 2
		case o.e.counts[Agreed] >= float64(b.p.Standing):
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(x, y old) int {
		return cmp.Or(cmp.Compare(weight(x), weight(y)), x.e.seen.Compare(y.e.seen), cmp.Compare(x.id, y.id))
	})
	for _, o := range all[:max(1, len(all)/8)] {
		delete(b.peers, o.id)
	}
}

// Observe takes an observation in.
func (b *Book) Observe(o Observation, now time.Time) {
	if o.Kind >= numKinds || o.Peer == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(o.Peer, now)
	e.seen = now
	if o.Prefix != "" {
		e.prefix = o.Prefix
	}
	e.counts[o.Kind] += float64(max(1, o.Count))
	switch o.Kind {
	case Served:
		e.strikes = 0 // it is well: the next failure is a first one
	case Agreed:
		e.clear(Wrong, now) // a third party has judged
		if e.failure.Kind == Doubted {
			e.failure = Avoidance{}
		}
	case Doubted:
		e.failure = b.avoid(o, now, b.p.Suspicion, "its rows differ from another holder's, which is less known, and nobody has judged yet")
	case Wrong:
		e.hold(b.avoid(o, now, b.p.Suspicion, "its rows differ from another holder's, and nobody has judged yet"))
	case Proven:
		a := b.avoid(o, now, b.p.Sentence, "it was proven to have sent wrong data")
		e.hold(a)
		b.condemn(e.prefix, o.Peer, a.Until)
	case Named:
		e.hold(b.avoid(o, now, b.p.Sentence, "an operator of this node banned it"))
	default:
		b.fail(e, o, now)
	}
}

// avoid makes the avoidance that an observation gives.
func (b *Book) avoid(o Observation, now time.Time, long time.Duration, why string) Avoidance {
	if d := clip(o.Detail); d != "" {
		why += ": " + d
	}
	until := now.Add(long)
	if o.Kind == Proven && !o.Until.IsZero() && o.Until.Before(until) {
		until = o.Until
	}
	return Avoidance{Kind: o.Kind, Since: now, Until: until, Reason: why, Never: o.Kind.lie()}
}

var failures = map[Kind]string{
	Lost: "it could not be reached", Late: "it is many times slower than it announces",
	Refused: "it refused without a reason that could be checked", Broke: "it sent what breaks the protocol",
	Accused: "it and a server beside it contradict each other about rows",
}

// fail leaves a peer alone for a while. A failure of a peer that is left alone already is no
// second strike: all sessions that a server had lose it at once.
func (b *Book) fail(e *entry, o Observation, now time.Time) {
	switch since := now.Sub(e.failed); {
	case since > b.p.Max:
		e.strikes = 1
	case since >= b.pause(e):
		e.strikes++
	}
	e.failed = now
	if a := b.avoid(o, now, b.pause(e), failures[o.Kind]); a.Until.After(e.failure.Until) {
		e.failure = a
	}
}

// pause is how long a peer is left alone after its last failure.
func (b *Book) pause(e *entry) time.Duration {
	if e.strikes == 0 {
		return 0
	}
	return min(b.p.First<<min(e.strikes-1, 10), b.p.Max)
}

// hold keeps what is held against a peer: the longest counts.
func (e *entry) hold(a Avoidance) {
	if a.Until.After(e.lie.Until) {
		e.lie = a
	}
}

// clear drops what is held against a peer if it is of a kind.
func (e *entry) clear(k Kind, now time.Time) {
	if e.lie.Kind == k && e.lie.Until.After(now) {
		e.lie = Avoidance{}
	}
}

// condemn counts a proven liar against its network.
func (b *Book) condemn(prefix string, p swarm.PeerID, until time.Time) {
	if prefix == "" || b.p.PrefixLiars == 0 {
		return
	}
	if b.liars[prefix] == nil {
		if len(b.liars) >= b.p.MaxPeers {
			return // each has a proven liar: there is nothing to forget yet
		}
		b.liars[prefix] = map[swarm.PeerID]time.Time{}
	}
	if m := b.liars[prefix]; len(m) < b.p.PrefixLiars {
		m[p] = until
	}
}

// Judge says whether to avoid a peer now; prefix is that of its address, "" if unknown.
func (b *Book) Judge(p swarm.PeerID, prefix string, now time.Time) (Avoidance, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.judge(p, prefix, now)
}

func (b *Book) judge(p swarm.PeerID, prefix string, now time.Time) (Avoidance, bool) {
	e := b.peers[p]
	if e != nil {
		if e.lie.Until.After(now) {
			return e.lie, true
		}
		if prefix == "" {
			prefix = e.prefix
		}
	}
	if a, ok := b.judgeNetwork(prefix, now); ok && (e == nil || e.counts[Agreed] < float64(b.p.Standing)) {
		return a, true
	}
	if e != nil && e.failure.Until.After(now) {
		return e.failure, true
	}
	return Avoidance{}, false
}

// judgeNetwork says whether newcomers from a network are avoided.
func (b *Book) judgeNetwork(prefix string, now time.Time) (Avoidance, bool) {
	if prefix == "" || b.p.PrefixLiars == 0 {
		return Avoidance{}, false
	}
	var until time.Time
	n := 0
	for p, end := range b.liars[prefix] {
		if !end.After(now) {
			delete(b.liars[prefix], p)
			continue
		}
		if n++; until.IsZero() || end.Before(until) {
			until = end
		}
	}
	if n == 0 {
		delete(b.liars, prefix)
	}
	if n < b.p.PrefixLiars {
		return Avoidance{}, false
	}
	return Avoidance{Kind: Proven, Until: until, Never: true, Reason: fmt.Sprintf("%d proven liars came from its network %s", n, clip(prefix))}, true
}

// Better tells whether the first of two peers is the better known: more of its audits agreed, then it
// served more, then its id is smaller. It says nothing of who lies.
func (b *Book) Better(p, q swarm.PeerID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var known [2][numKinds]float64
	for i, id := range []swarm.PeerID{p, q} {
		if e := b.peers[id]; e != nil {
			e.decay(now, b.p.HalfLife)
			known[i] = e.counts
		}
	}
	return cmp.Or(cmp.Compare(known[1][Agreed], known[0][Agreed]), cmp.Compare(known[1][Served], known[0][Served]), cmp.Compare(p, q)) < 0
}

// Ban avoids a peer until a time, by an operator's word. It replaces what else is held.
func (b *Book) Ban(p swarm.PeerID, until time.Time, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(p, now)
	e.counts[Named]++
	e.lie = b.avoid(Observation{Peer: p, Kind: Named, Detail: why}, now, until.Sub(now), "an operator of this node banned it")
}

// Pardon forgets all that is held against a peer, by an operator's word; false if nothing
// was. What it did well stays.
func (b *Book) Pardon(p swarm.PeerID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.peers[p]
	if e == nil {
		return false
	}
	_, avoided := b.judge(p, "", now)
	for _, k := range []Kind{Lost, Late, Refused, Broke, Accused, Doubted, Wrong, Proven, Named} {
		e.counts[k] = 0
	}
	e.lie, e.failure, e.strikes, e.failed = Avoidance{}, Avoidance{}, 0, time.Time{}
	for prefix, m := range b.liars {
		if delete(m, p); len(m) == 0 {
			delete(b.liars, prefix)
		}
	}
	return avoided
}

// Standing is what is known of a peer, for operators.
type Standing struct {
	Peer   swarm.PeerID       `json:"peer_id"`
	Prefix string             `json:"prefix,omitempty"`
	Seen   time.Time          `json:"seen"`
	Counts map[string]float64 `json:"counts"` // by kind; what lies one half-life back counts half
	Audits int                `json:"audits"` // sessions that could have been audited
	Avoid  *Avoidance         `json:"avoid,omitempty"`
}

// Standings lists what is known, avoided peers first, then the latest seen.
func (b *Book) Standings(now time.Time) []Standing {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Standing, 0, len(b.peers))
	for id, e := range b.peers {
		e.decay(now, b.p.HalfLife)
		s := Standing{Peer: id, Prefix: e.prefix, Seen: e.seen, Counts: map[string]float64{}, Audits: e.sessions}
		for k, n := range e.counts {
			if n >= 0.005 {
				s.Counts[Kind(k).String()] = math.Round(100*n) / 100
			}
		}
		if a, ok := b.judge(id, "", now); ok {
			s.Avoid = &a
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y Standing) int {
		return cmp.Or(cmp.Compare(btoi(x.Avoid == nil), btoi(y.Avoid == nil)), y.Seen.Compare(x.Seen), cmp.Compare(x.Peer, y.Peer))
	})
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
