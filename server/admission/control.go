package admission

import (
	"maps"
	"slices"
	"time"

	"whorl/tensor"
)

// ID names a session to the controller.
type ID uint64

// Activity is what a session does at this moment.
type Activity uint8

const (
	Quiet   Activity = iota // nothing of it waits to be computed
	Queued                  // rows of it wait
	Running                 // rows of it are being computed: it cannot be parked now
)

// entry is a session, waiting or granted.
type entry struct {
	id      ID
	claim   Claim
	group   string
	pages   int
	asked   time.Time
	granted time.Time     // zero while it waits
	last    time.Time     // when rows were last computed; zero: never
	took    time.Duration // what was spent on its rows since the grant
	replay  time.Duration // the part of it that prompts and replays took
	owed    parked        // what was spent on its rows here before it was parked, if it was
}

// waits tells whether it holds no pages yet.
func (e *entry) waits() bool { return e.granted.IsZero() }

// began is when it got what it has: its pages, or its place in the line.
func (e *entry) began() time.Time {
	if e.waits() {
		return e.asked
	}
	return e.granted
}

// used is when it last did something.
func (e *entry) used() time.Time {
	if e.last.IsZero() {
		return e.began()
	}
	return e.last
}

// Controller keeps the book of all sessions. Not for concurrent use.
type Controller struct {
	cfg     Config
	entries []*entry          // in the order in which they asked
	tallies [resources]*tally // of all of them, as last counted; nil once they changed
	parked  map[string]parked // by peer and session: those that may come back
}

// New makes a controller of an empty cache.
func New(cfg Config) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Controller{cfg: cfg, parked: map[string]parked{}}, nil
}

// Configure changes the rules. Sessions that are over a new cap keep what they hold; nobody is
// granted more.
func (c *Controller) Configure(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	c.cfg = cfg
	c.changed()
	return nil
}

// Ask puts a session in line. It is refused at once if it can never fit, or if the line is
// full; otherwise those listed are to be ended first, and Next says what becomes of it.
func (c *Controller) Ask(now time.Time, id ID, claim Claim, doing func(ID) Activity) (park []ID, err error) {
	if err := c.Never(claim); err != nil {
		return nil, err
	}
	e := &entry{id: id, claim: claim, group: claim.group(), pages: claim.Pages(), asked: now}
	victims, l := c.room(now, e, []need{{c.lineOf(), 1}}, doing)
	if l.bound != fits {
		return nil, c.refusal(now, e, &l)
	}
	e.owed = c.comesBack(now, e)
	c.entries = append(c.entries, e)
	c.changed()
	return c.park(now, victims), nil
}

// Never refuses what no waiting can help.
func (c *Controller) Never(claim Claim) error {
	pages := claim.Pages()
	no := func(reason error, asked int, limit int64) error {
		return &Refusal{Reason: reason, Asked: asked, Limit: limit, Never: true}
	}
	all := max(1, claim.Sequences) * claim.Tokens
	switch capped := claim.Peer != c.cfg.Own; {
	case claim.Tokens < 1 || c.cfg.MaxTokens > 0 && claim.Tokens > c.cfg.MaxTokens:
		return no(ErrTooLong, claim.Tokens, int64(c.cfg.MaxTokens))
	case pages > c.cfg.Pages:
		return no(ErrNever, all, tokens(c.cfg.Pages))
	case capped && c.cfg.Peer.Pages > 0 && pages > c.cfg.Peer.Pages:
		return no(ErrShare, all, tokens(c.cfg.Peer.Pages))
	case capped && claim.Prefix != "" && c.cfg.Prefix.Pages > 0 && pages > c.cfg.Prefix.Pages:
		return no(ErrPrefixShare, all, tokens(c.cfg.Prefix.Pages))
	}
	return nil
}

func tokens(pages int) int64 { return int64(pages) * tensor.PageTokens }

// Decision is one thing to do: the first field that is set.
type Decision struct {
	Grant  ID       // the session has its pages now
	Park   []ID     // end these and Leave: the next decision grants their pages
	Refuse ID       // end this one
	Why    *Refusal // of Refuse
}

// Next decides about those that wait. Call it until it returns no decision: when a session
// asked, when one left, and now and then, since places become free by time too. IDs start
// at 1.
func (c *Controller) Next(now time.Time, doing func(ID) Activity) Decision {
	entitled := c.entitled()
	capped := map[string]lack{} // of those for whom their own kind has no room
	blocked := false
	for _, first := range []bool{true, false} {
		for _, e := range c.entries {
			if !e.waits() || entitled(e) != first {
				continue
			}
			needs, l := c.needs(e), lack{}
			var victims []*entry
			if own, ok := capped[e.claim.Peer]; ok && own.n <= e.pages {
				l = own // no need to look again
			} else if blocked {
				l = lack{ofAll, needs[1]}
			} else {
				victims, l = c.room(now, e, needs, doing)
			}
			wait := min(e.claim.Wait, c.cfg.Wait)
			if l.bound == ofAll && (first || e.owed.took > 0) {
				wait = max(wait, c.cfg.Patience)
			}
			switch {
			case len(victims) > 0:
				return Decision{Park: c.park(now, victims)}
			case l.bound == fits:
				e.granted = now
				c.changed()
				return Decision{Grant: e.id}
			case now.Sub(e.asked) >= wait:
				return Decision{Refuse: e.id, Why: c.refusal(now, e, &l)}
			case l.bound == ofPeer || l.bound == ofPrefix:
				// It waits for its own kind only.
				capped[e.claim.Peer] = l
			case first || now.Sub(e.asked) < c.cfg.Lease:
				// It is not overtaken, or a large session would never come in. One that
				// asks for more than its share keeps others out for no longer than a lease:
				// what waits holds nothing.
				blocked = true
			}
		}
	}
	return Decision{}
}

// entitled tells of a session that waits whether it would hold no more than its share.
func (c *Controller) entitled() func(*entry) bool {
	places, pages := c.placesOf(), c.pagesOf()
	ofPlaces, ofPages := c.tally(&places, nil, nil), c.tally(&pages, nil, nil)
	return func(e *entry) bool {
		return ofPlaces.entitled(e, 1, &places) && ofPages.entitled(e, e.pages, &pages)
	}
}

// refusal says what is lacking, with the numbers.
func (c *Controller) refusal(now time.Time, e *entry, l *lack) *Refusal {
	r := &Refusal{Asked: max(1, e.claim.Sequences) * e.claim.Tokens, Waited: now.Sub(e.asked)}
	limit := map[bound]int{ofPeer: l.peer, ofPrefix: l.prefix, ofAll: l.total}[l.bound]
	if l.of != pages {
		r.Reason = map[bound]error{ofPeer: ErrPeerSessions, ofPrefix: ErrPrefixSessions, ofAll: ErrSessions}[l.bound]
		r.Limit = int64(limit)
		return r
	}
	r.Reason = map[bound]error{ofPeer: ErrShare, ofPrefix: ErrPrefixShare, ofAll: ErrFull}[l.bound]
	if r.Limit = tokens(limit); l.bound == ofAll {
		t := c.tally(&l.resource, nil, nil)
		r.Limit = tokens(c.cfg.Pages - t.total)
	}
	return r
}

// Computed notes that rows of a session were computed, and how long that took. many says
// that they were many, as those of a prompt or a replay are: nobody waits for each.
func (c *Controller) Computed(now time.Time, id ID, took time.Duration, many bool) {
	if e := c.find(id); e != nil {
		e.last = now
		if e.took += took; many {
			e.replay += took
		}
	}
}

// Leave forgets a session: its pages and its place are free.
func (c *Controller) Leave(id ID) {
	if e := c.find(id); e != nil && e.owed.took > 0 && e.took == 0 {
		c.parked[e.key()] = e.owed // it will ask again: it got no further than asking
	}
	c.entries = slices.DeleteFunc(c.entries, func(e *entry) bool { return e.id == id })
	c.changed()
}

// changed forgets what was counted.
func (c *Controller) changed() { c.tallies = [resources]*tally{} }

// Waiting is how many sessions wait.
func (c *Controller) Waiting() int {
	n := 0
	for _, e := range c.entries {
		if e.waits() {
			n++
		}
	}
	return n
}

func (c *Controller) find(id ID) *entry {
	// IDs grow with time, so the book is sorted by them.
	i, ok := slices.BinarySearchFunc(c.entries, id, func(e *entry, id ID) int {
		return int(int64(e.id) - int64(id))
	})
	if !ok {
		return nil
	}
	return c.entries[i]
}

// parked is a session that was parked here.
type parked struct {
	at   time.Time
	took time.Duration // what was spent on its rows
}

// Memory of parked sessions: for so long, and of so many.
const (
	parkedFor  = 2 * time.Minute
	parkedMost = 1024
)

func (e *entry) key() string { return e.claim.Peer + " " + e.claim.Session }

// park notes what sessions lose, and lists them.
func (c *Controller) park(now time.Time, victims []*entry) []ID {
	var out []ID
	for _, e := range victims {
		out = append(out, e.id)
		if took := max(e.took, e.owed.took); took > 0 {
			if len(c.parked) >= parkedMost {
				maps.DeleteFunc(c.parked, func(_ string, p parked) bool { return now.Sub(p.at) > parkedFor })
			}
			if len(c.parked) < parkedMost {
				c.parked[e.key()] = parked{now, took}
			}
		}
	}
	return out
}

// comesBack is what was spent here on the rows of a session before it was parked, if it was.
func (c *Controller) comesBack(now time.Time, e *entry) parked {
	p, ok := c.parked[e.key()]
	delete(c.parked, e.key())
	if !ok || now.Sub(p.at) > parkedFor {
		return parked{}
	}
	return p
}
