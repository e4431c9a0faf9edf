package health

import (
	"slices"
	"time"

	"whorl/swarm"
)

// Past remembers how servers came and went, as one node saw it, and judges who is steady.
// The zero value is ready. It is not safe for concurrent use.
type Past struct {
	servers map[swarm.PeerID]*past
	at      time.Time // of the last view
}

// past is what is remembered of a server.
type past struct {
	seen  time.Time   // when it was last in a view
	state swarm.State // then
	falls []time.Time // when it went without a word, or came back from a restart
	busy  float64     // mean of what it told of its load, while it was online at one span
	since time.Time   // when that began; zero: it told nothing
	span  swarm.Span
}

const (
	// memory is how long a fall counts, and how long a server that is gone is remembered.
	memory = time.Hour
	// tolerated is how many falls in that time leave a server steady: everybody restarts once.
	tolerated = 1
	// maxFalls is how many are worth remembering.
	maxFalls = 8
	// maxPast is how many servers are remembered: above it those that are gone are forgotten.
	maxPast = 16384
	// loadOver is the time over which loads are averaged: which blocks have more to do is told from who happens
	// to read now by several answers of each server.
	loadOver = 10 * time.Minute
)

// See takes a view in: who was online and is gone, or joins again, has fallen. One that
// says that it drains or leaves, or moves, has not.
func (p *Past) See(v swarm.View, now time.Time) {
	if p.servers == nil {
		p.servers = map[swarm.PeerID]*past{}
	}
	for i := range v.Servers {
		r := &v.Servers[i]
		x := p.servers[r.Peer]
		if x == nil {
			x = &past{}
			p.servers[r.Peer] = x
		}
		gone := x.seen.Before(p.at) // it was missing from the view before
		back := !gone && x.state == swarm.Online && r.State == swarm.Joining && r.Next == nil
		if !x.seen.IsZero() && (back || gone && x.state == swarm.Online) {
			x.fall(now)
		}
		x.hear(r, now)
		x.seen, x.state = now, r.State
	}
	p.at = now
	for id, x := range p.servers {
		if now.Sub(x.seen) > memory || len(p.servers) > maxPast && x.seen.Before(now) {
			delete(p.servers, id)
		}
	}
}

// hear takes in the load that a server tells.
func (x *past) hear(r *swarm.Record, now time.Time) {
	switch {
	case r.State != swarm.Online || r.Load == nil:
		x.since = time.Time{}
	case x.since.IsZero() || x.span != r.Span:
		x.busy, x.since, x.span = r.Load.Busy, now, r.Span
	default: // the mean of all that it told, and of the last while once that is longer
		passed := now.Sub(x.seen)
		over := min(now.Sub(x.since), loadOver)
		x.busy += (r.Load.Busy - x.busy) * min(1, passed.Seconds()/max(over.Seconds(), 1))
	}
}

// Busy is the share of its time that a server had something to do, as it told over the last ten minutes or since it
// serves its span; false if it tells nothing.
func (p *Past) Busy(id swarm.PeerID) (float64, bool) {
	x := p.servers[id]
	if x == nil || x.since.IsZero() {
		return 0, false
	}
	return x.busy, true
}

// Loads gives a view in which records tell loads as Busy does; the view itself stays as it is.
func (p *Past) Loads(v swarm.View) swarm.View {
	v.Servers = slices.Clone(v.Servers)
	for i := range v.Servers {
		r := &v.Servers[i]
		if busy, ok := p.Busy(r.Peer); ok && r.Load != nil {
			load := *r.Load
			load.Busy = busy
			r.Load = &load
		}
	}
	return v
}

// Lost tells that sessions were lost at a server, which counts as a fall.
func (p *Past) Lost(id swarm.PeerID, now time.Time) {
	if x := p.servers[id]; x != nil {
		x.fall(now)
	}
}

// fall counts once within a minute: what happens to a server happens to all its sessions.
func (x *past) fall(now time.Time) {
	if n := len(x.falls); n > 0 && now.Sub(x.falls[n-1]) < time.Minute {
		return
	}
	if len(x.falls) == maxFalls {
		x.falls = x.falls[1:]
	}
	x.falls = append(x.falls, now)
}

// Unsteady tells whether a server fell more than once within the last hour.
func (p *Past) Unsteady(id swarm.PeerID, now time.Time) bool {
	x := p.servers[id]
	if x == nil {
		return false
	}
	n := 0
	for _, t := range x.falls {
		if now.Sub(t) <= memory {
			n++
		}
	}
	return n > tolerated
}
