package health

import (
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
		x.seen, x.state = now, r.State
	}
	p.at = now
	for id, x := range p.servers {
		if now.Sub(x.seen) > memory || len(p.servers) > maxPast && x.seen.Before(now) {
			delete(p.servers, id)
		}
	}
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
