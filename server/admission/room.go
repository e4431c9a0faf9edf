package admission

import (
	"cmp"
	"slices"
	"time"
)

// resource is one thing that sessions hold.
type resource struct {
	of                  kind
	size                func(*entry) int
	total, peer, prefix int // of all; the most of one peer and of one prefix, 0 for no cap
}

type kind uint8

const (
	line   kind = iota // places to stand and wait
	places             // sessions that have their pages
	pages              // of the cache
	resources
)

// lineOf is the line: it is as long as there may be sessions.
func (c *Controller) lineOf() resource {
	return resource{line, func(e *entry) int { return count(e.waits()) }, c.cfg.Sessions, c.cfg.Peer.Sessions, c.cfg.Prefix.Sessions}
}

func (c *Controller) placesOf() resource {
	return resource{places, func(e *entry) int { return count(!e.waits()) }, c.cfg.Sessions, c.cfg.Peer.Sessions, c.cfg.Prefix.Sessions}
}

func (c *Controller) pagesOf() resource {
	return resource{pages, func(e *entry) int { return e.pages * count(!e.waits()) }, c.cfg.Pages, c.cfg.Peer.Pages, c.cfg.Prefix.Pages}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// need is how much of a resource a session asks for.
type need struct {
	resource
	n int
}

// needs are what a session must have to run.
func (c *Controller) needs(e *entry) []need {
	return []need{{c.placesOf(), 1}, {c.pagesOf(), e.pages}}
}

// bound is whose limit keeps a claim out.
type bound uint8

const (
	fits bound = iota
	ofPeer
	ofPrefix
	ofAll
)

// lack is what a claim wants for.
type lack struct {
	bound
	need
}

// tally is who holds how much of a resource.
type tally struct {
	total   int
	peers   map[string]int // what each holds, 0 for those that only wait
	groups  map[string]int
	members map[string]int // peers in a group
}

// tally counts all sessions but those that are gone. plus, if not nil, is one that asks and
// is not among them yet.
func (c *Controller) tally(r *resource, gone map[*entry]bool, plus *entry) *tally {
	if len(gone) == 0 && plus == nil && c.tallies[r.of] != nil {
		return c.tallies[r.of]
	}
	t := &tally{peers: map[string]int{}, groups: map[string]int{}, members: map[string]int{}}
	for _, e := range c.entries {
		if !gone[e] {
			t.add(e, r.size(e))
		}
	}
	if plus != nil {
		t.add(plus, 0)
	} else if len(gone) == 0 {
		c.tallies[r.of] = t
	}
	return t
}

func (t *tally) add(e *entry, n int) {
	if _, known := t.peers[e.claim.Peer]; !known {
		t.members[e.group]++
	}
	t.total += n
	t.peers[e.claim.Peer] += n
	t.groups[e.group] += n
}

// The fair share of a group is what there is, divided among all groups that hold something
// or wait. The fair share of a peer is the like part of what its group holds, or may hold if
// that is more.

// entitled tells whether n more leave a session's peer within a fair share.
func (t *tally) entitled(e *entry, n int, r *resource) bool {
	return t.groupEntitled(e, n, r) || (t.peers[e.claim.Peer]+n)*t.members[e.group] <= t.ofGroup(e.group, r)
}

func (t *tally) groupEntitled(e *entry, n int, r *resource) bool {
	return (t.groups[e.group]+n)*len(t.groups) <= r.total
}

// ofGroup is what the peers of a group share.
func (t *tally) ofGroup(group string, r *resource) int {
	return max(t.groups[group], r.total/len(t.groups))
}

// over tells whether a session's peer or group holds more than a fair share, at the expense
// of somebody entitled to n.
func (t *tally) over(v, who *entry, n int, r *resource) bool {
	if v.group != who.group {
		return t.groups[v.group]*len(t.groups) > r.total && t.groupEntitled(who, n, r)
	}
	all, members := t.ofGroup(v.group, r), t.members[v.group]
	return v.claim.Peer != who.claim.Peer && t.peers[v.claim.Peer]*members > all && (t.peers[who.claim.Peer]+n)*members <= all
}

// short tells what keeps n more out.
func (c *Controller) short(t *tally, who *entry, n int, r *resource) bound {
	capped := who.claim.Peer != c.cfg.Own
	switch {
	case capped && r.peer > 0 && t.peers[who.claim.Peer]+n > r.peer:
		return ofPeer
	case capped && who.claim.Prefix != "" && r.prefix > 0 && t.groups[who.group]+n > r.prefix:
		return ofPrefix
	case t.total+n > r.total:
		return ofAll
	}
	return fits
}

// room finds the sessions to park so that all needs of one are met, none if they are met as
// it is. If it cannot be done nobody is parked, and it says what is lacking.
func (c *Controller) room(now time.Time, who *entry, needs []need, doing func(ID) Activity) ([]*entry, lack) {
	gone := map[*entry]bool{}
	var victims []*entry
	for {
		l, t := c.lacks(who, needs, gone)
		if l.bound == fits {
			break
		}
		v := c.leastUsed(now, who, &l, t, gone, doing)
		if v == nil {
			return nil, l
		}
		gone[v] = true
		victims = append(victims, v)
	}
	needed := victims[:0]
	for i, v := range victims { // a later one may have been large enough for all
		delete(gone, v)
		if l, _ := c.lacks(who, needs, gone); i == len(victims)-1 || l.bound != fits {
			gone[v] = true
			needed = append(needed, v)
		}
	}
	return needed, lack{}
}

// lacks is the first need that is not met, with who holds what of it.
func (c *Controller) lacks(who *entry, needs []need, gone map[*entry]bool) (lack, *tally) {
	for _, need := range needs {
		plus := who
		if need.of != line { // who asks for more than a place in line stands in it
			plus = nil
		}
		t := c.tally(&need.resource, gone, plus)
		if b := c.short(t, who, need.n, &need.resource); b != fits {
			return lack{b, need}, t
		}
	}
	return lack{}, nil
}

// leastUsed is the session to park first, nil if none may be.
func (c *Controller) leastUsed(now time.Time, who *entry, l *lack, t *tally, gone map[*entry]bool, doing func(ID) Activity) *entry {
	var best *entry
	var why grounds
	for _, v := range c.entries {
		switch {
		case v == who || gone[v] || l.size(v) == 0:
			continue
		case l.bound == ofPeer && v.claim.Peer != who.claim.Peer, l.bound == ofPrefix && v.group != who.group:
			continue
		}
		g := c.groundsOf(now, v, t.over(v, who, l.n, &l.resource), doing(v.id))
		if g == none {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(g, why),
			cmp.Compare(t.groups[best.group], t.groups[v.group]),
			cmp.Compare(t.peers[best.claim.Peer], t.peers[v.claim.Peer]),
			cmp.Compare(weight(now, best), weight(now, v)),
		) < 0 {
			best, why = v, g
		}
	}
	return best
}

// weight is how long a session has done nothing, times what it holds.
func weight(now time.Time, e *entry) float64 { return now.Sub(e.used()).Seconds() * float64(e.pages) }

// grounds are why a session may be parked, the best first.
type grounds uint8

const (
	unearned grounds = iota // nothing computed, and the lease is over: there is nothing to replay
	overShare
	resting
	none
)

// What a session is sure of for its replay, at most maxReplay. It is twice what prompts and
// replays took, so that it is of use for as long as they were. For one that was parked here it
// is four times what was spent on it before: the other stages of its chain may be replayed
// first. All such times together are bounded by what the server computes: nobody gets them for
// nothing.
const (
	replayFactor = 2
	returnFactor = 4
	maxReplay    = 30 * time.Second
)

func (e *entry) needs() time.Duration {
	return min(max(replayFactor*e.replay, returnFactor*e.owed.took), maxReplay)
}

// groundsOf tells why a session may be parked for another; over says that it holds more than
// its share at the other's expense.
func (c *Controller) groundsOf(now time.Time, v *entry, over bool, doing Activity) grounds {
	service, age := c.cfg.Service+v.needs(), now.Sub(v.began())
	switch {
	case doing == Running:
	case v.last.IsZero() && doing == Quiet && age >= c.cfg.Lease:
		return unearned
	case over && (v.waits() || age >= service): // who waits has nothing to lose
		return overShare
	case !v.waits() && !v.last.IsZero() && doing == Quiet && age >= service && now.Sub(v.last) >= c.cfg.Rest+service:
		return resting
	}
	return none
}

// Shed lists sessions to park so that their pages, so many at least, come free although nobody
// asks for them: first those of which nothing was computed, then those at rest, and last those
// whose rows wait; among these whoever is least used. One whose rows are being computed stays.
// As with Park, those listed are to be ended and left.
func (c *Controller) Shed(now time.Time, pages int, doing func(ID) Activity) []ID {
	var all []*entry
	rank := func(e *entry) int {
		switch {
		case e.last.IsZero():
			return 0
		case doing(e.id) == Quiet:
			return 1
		}
		return 2
	}
	for _, e := range c.entries {
		if !e.waits() && doing(e.id) != Running {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(weight(now, b), weight(now, a)))
	})
	n := 0
	for ; n < len(all) && pages > 0; n++ {
		pages -= all[n].pages
	}
	return c.park(now, all[:n])
}
