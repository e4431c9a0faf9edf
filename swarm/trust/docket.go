package trust

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// DocketParams bound what others may have this node look into, and what it tells.
type DocketParams struct {
	// Life is how long an accusation counts after it was made: memory has errors too, and they
	// pass. Skew is how far the maker's clock may be ahead.
	Life, Skew time.Duration
	// Waiting are the accusations that wait to be looked into: of all, of one address prefix, of
	// one peer, and against one server. About a kilobyte each.
	Waiting, OfPrefix, OfPeer, OfServer int
	// Told is how many proven ones this node tells: one for each server.
	Told int
	// Looks are how many accusations of a prefix are looked at at once, LooksRate how many more
	// each second: to look costs a signature.
	Looks, LooksRate float64
	// Retry is how long to wait before one that could not be looked into is tried again; it
	// doubles up to RetryMost.
	Retry, RetryMost time.Duration
	// Mute is how long nothing is heard of who told what is false; it doubles up to Life. Its
	// prefix is muted from the MutePrefix-th time on: others may be at that address too.
	Mute       time.Duration
	MutePrefix int
	// Words is how many accusations without a receipt a prefix may have looked into in WordsTime
	// that this node does not find confirmed: each costs it a canary.
	Words     int
	WordsTime time.Duration
	// Again is how long a server that a canary found right is not tried again for a mere word.
	Again time.Duration
	// Names bounds how many peers and prefixes are remembered for all this.
	Names int
}

// DefaultDocketParams hold some 400 kB.
func DefaultDocketParams() DocketParams {
	return DocketParams{
		Life: 7 * 24 * time.Hour, Skew: 10 * time.Minute, Waiting: 64, OfPrefix: 16, OfPeer: 4, OfServer: 4, Told: 60,
		Looks: 64, LooksRate: 0.25, Retry: 5 * time.Second, RetryMost: time.Hour, Mute: time.Hour, MutePrefix: 3, Words: 4, WordsTime: 24 * time.Hour, Again: time.Hour, Names: 1024,
	}
}

// Finding is what a node found out about an accusation by itself.
type Finding uint8

// The findings.
const (
	Unchecked   Finding = iota // nothing: the server is not there, or nobody else computes its blocks
	Confirmed                  // the server gave wrong rows
	Unconfirmed                // of a word without a receipt: the server gave this node the right rows
	False                      // of one with a receipt: what the server signed is right, or is not this
)

var findingNames = [...]string{"unchecked", "confirmed", "unconfirmed", "false"}

// String is the name.
func (f Finding) String() string { return findingNames[f] }

// Docket is what a node was told against servers and has not looked into yet, and what it has
// found proven and tells others. Whoever tells an accusation answers for it, whoever made it:
// honest nodes tell only what they have found out themselves, so that what is false comes from a
// liar, and goes no further. Nobody is avoided for what stands here. Safe for concurrent use; the
// caller passes the time.
type Docket struct {
	p      DocketParams
	self   swarm.PeerID
	verify proof.Verify

	mu      sync.Mutex // guards all below
	waiting []*charge  // in the order in which they came
	told    []told     // in the order of at
	at      uint64
	names   map[string]*name           // of peers and prefixes that told something
	tried   map[swarm.PeerID]time.Time // when a canary last found a server right
	done    map[content.Hash]time.Time // accusations that are settled, until they end
}

// charge is an accusation that waits.
type charge struct {
	proof.Accusation
	id     content.Hash
	teller swarm.PeerID
	prefix string
	tries  int
	retry  time.Time
	taken  bool // somebody looks into it
}

type told struct {
	a   proof.Accusation
	raw []byte
	at  uint64
}

// NewDocket makes an empty one for a node.
func NewDocket(self swarm.PeerID, verify proof.Verify, p DocketParams) *Docket {
	return &Docket{p: p, self: self, verify: verify, names: map[string]*name{}, tried: map[swarm.PeerID]time.Time{}, done: map[content.Hash]time.Time{}}
}

// Reasons why nothing is heard of an accusation.
var (
	ErrMuted = errors.New("what its teller said before is false")
	ErrMany  = errors.New("its teller, its network or all have too many")
	ErrOld   = errors.New("it has ended, or comes from the future")
	ErrHands = errors.New("a word without a receipt counts from who made it alone")
	ErrKnown = errors.New("it is known, or about this node")
)

// Hear takes in what a connected peer tells, if there is room for it; the error says why not. prefix is the
// network of the teller's address, "" if that says nothing. It costs at most one signature.
func (d *Docket) Hear(raw []byte, teller swarm.PeerID, prefix string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys(teller, prefix) {
		n := d.name(k, now)
		if now.Before(n.mute) {
			return ErrMuted
		}
		if n.looks < 1 {
			return ErrMany
		}
	}
	for _, k := range keys(teller, prefix) {
		d.names[k].looks--
	}
	a, err := proof.ParseAccusation(raw)
	if err != nil {
		d.blame(teller, prefix, now)
		return err
	}
	c := &charge{Accusation: a, id: content.Sum(raw), teller: teller, prefix: prefix}
	if err := d.refusal(c, now); err != nil {
		return err
	}
	if err := a.Check(d.verify); err != nil { // no honest node has told it
		d.blame(teller, prefix, now)
		return err
	}
	d.waiting = append(d.waiting, c)
	if len(d.waiting) > d.p.Waiting {
		d.shed()
	}
	if !slices.Contains(d.waiting, c) {
		return ErrMany
	}
	return nil
}

// refusal is why an accusation is not taken in; mu is held.
func (d *Docket) refusal(c *charge, now time.Time) error {
	d.expire(now)
	made := time.UnixMilli(c.Made)
	if made.After(now.Add(d.p.Skew)) || !d.ends(&c.Accusation).After(now) {
		return ErrOld
	}
	if _, ok := d.done[c.id]; ok || c.Server == d.self {
		return ErrKnown
	}
	if slices.ContainsFunc(d.told, func(t told) bool { return t.a.Server == c.Server }) {
		return ErrKnown
	}
	if !c.Signed() {
		if c.Auditor != c.teller {
			return ErrHands
		}
		if at, ok := d.tried[c.Server]; ok && now.Sub(at) < d.p.Again {
			return ErrKnown
		}
		for _, k := range keys(c.teller, c.prefix) {
			if n := d.names[k]; n.words >= d.p.Words {
				return ErrMany
			}
		}
	}
	peer, prefix, server := 0, 0, 0
	for _, o := range d.waiting {
		switch {
		case o.id == c.id:
			return ErrKnown
		case o.Server == c.Server && o.prefix == c.prefix && o.teller == c.teller && o.Signed() == c.Signed():
			return ErrKnown
		}
		if o.teller == c.teller {
			peer++
		}
		if o.prefix == c.prefix && o.prefix != "" {
			prefix++
		}
		if o.Server == c.Server && o.Signed() == c.Signed() {
			server++
		}
	}
	if peer >= d.p.OfPeer || prefix >= d.p.OfPrefix || server >= d.p.OfServer {
		return ErrMany
	}
	return nil
}

// ends is when an accusation stops to count.
func (d *Docket) ends(a *proof.Accusation) time.Time { return time.UnixMilli(a.Made).Add(d.p.Life) }

// shed drops one that waits: the newest of who has most, words before what is signed.
func (d *Docket) shed() {
	of := func(c *charge) string { return keys(c.teller, c.prefix)[len(keys(c.teller, c.prefix))-1] }
	count := map[string]int{}
	for _, c := range d.waiting {
		count[of(c)]++
	}
	worst := -1
	for i, c := range d.waiting {
		if c.taken {
			continue
		}
		if worst < 0 || cmp.Or(cmp.Compare(rank(c), rank(d.waiting[worst])), cmp.Compare(count[of(c)], count[of(d.waiting[worst])])) >= 0 {
			worst = i
		}
	}
	if worst >= 0 {
		d.waiting = slices.Delete(d.waiting, worst, worst+1)
	}
}

// rank is 0 for what is signed, and 1 for words.
func rank(c *charge) int {
	if c.Signed() {
		return 0
	}
	return 1
}

// expire drops what has ended; mu is held.
func (d *Docket) expire(now time.Time) {
	d.waiting = slices.DeleteFunc(d.waiting, func(c *charge) bool { return !c.taken && !d.ends(&c.Accusation).After(now) })
	d.told = slices.DeleteFunc(d.told, func(t told) bool { return !d.ends(&t.a).After(now) })
	for id, until := range d.done {
		if !until.After(now) {
			delete(d.done, id)
		}
	}
	for p, at := range d.tried {
		if now.Sub(at) >= d.p.Again {
			delete(d.tried, p)
		}
	}
}

// Next is an accusation to look into now, those with receipts first; Settle must follow. wait is
// when to ask again if there is none, zero for when one is heard.
func (d *Docket) Next(now time.Time) (a proof.Accusation, teller swarm.PeerID, wait time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	var best *charge
	for _, c := range d.waiting {
		switch {
		case c.taken:
		case c.retry.After(now):
			if wait.IsZero() || c.retry.Before(wait) {
				wait = c.retry
			}
		case best == nil || rank(c) < rank(best):
			best = c
		}
	}
	if best == nil {
		return a, "", wait, false
	}
	best.taken = true
	return best.Accusation, best.teller, time.Time{}, true
}

// Settle says what came of an accusation that Next gave. It tells whether the node has something
// new to tell.
func (d *Docket) Settle(a *proof.Accusation, f Finding, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := a.ID()
	at := slices.IndexFunc(d.waiting, func(c *charge) bool { return c.id == id && c.taken })
	if at < 0 {
		return false
	}
	c := d.waiting[at]
	c.taken = false
	if f == Unchecked {
		c.retry = now.Add(min(d.p.Retry<<min(c.tries, 20), d.p.RetryMost))
		c.tries++
		return false
	}
	d.waiting = slices.Delete(d.waiting, at, at+1)
	d.settled(c, now)
	switch f {
	case Confirmed:
		return a.Signed() && d.tell(a, now)
	case Unconfirmed:
		if len(d.tried) < d.p.Names {
			d.tried[a.Server] = now
		}
		for _, k := range keys(c.teller, c.prefix) {
			n := d.name(k, now)
			if n.words++; n.words == 1 {
				n.since = now
			}
		}
	case False:
		d.blame(c.teller, c.prefix, now)
	}
	return false
}

// settled remembers an accusation until it ends; mu is held.
func (d *Docket) settled(c *charge, now time.Time) {
	if len(d.done) < d.p.Names {
		d.done[c.id] = d.ends(&c.Accusation)
	}
}

// Prove takes in an accusation of this node's own making, which it tells from now on; false if it
// tells of that server already.
func (d *Docket) Prove(a *proof.Accusation, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tell(a, now)
}

// tell has others hear of an accusation. A receipt takes the place of a word. mu is held.
func (d *Docket) tell(a *proof.Accusation, now time.Time) bool {
	d.expire(now)
	if i := slices.IndexFunc(d.told, func(t told) bool { return t.a.Server == a.Server }); i >= 0 {
		if d.told[i].a.Signed() || !a.Signed() {
			return false
		}
		d.told = slices.Delete(d.told, i, i+1)
	}
	if len(d.told) >= d.p.Told {
		d.told = slices.Delete(d.told, 0, 1)
	}
	d.at++
	d.told = append(d.told, told{*a, a.Append(nil), d.at})
	d.waiting = slices.DeleteFunc(d.waiting, func(c *charge) bool { return c.Server == a.Server && !c.taken })
	return true
}

// Tell lists what this node tells that came after some place in its list, with the place of the last.
func (d *Docket) Tell(since uint64, now time.Time) (list [][]byte, at uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	for _, t := range d.told {
		if t.at > since {
			list = append(list, t.raw)
		}
	}
	return list, d.at
}

// Pardon has nothing told of a server any more, by an operator's word, and what was told is not
// looked into again.
func (d *Docket) Pardon(p swarm.PeerID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = slices.DeleteFunc(d.told, func(t told) bool {
		if t.a.Server == p && len(d.done) < d.p.Names {
			d.done[t.a.ID()] = d.ends(&t.a)
		}
		return t.a.Server == p
	})
	d.waiting = slices.DeleteFunc(d.waiting, func(c *charge) bool { return c.Server == p && !c.taken })
}

// Counts are how many accusations wait, and how many this node tells.
func (d *Docket) Counts() (waiting, told int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting), len(d.told)
}
