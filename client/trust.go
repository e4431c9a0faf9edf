package client

import (
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/trust"
)

// Trust keeps what was observed of peers and decides whom to avoid. *trust.Book is one; all
// engines of a node share it. Safe for concurrent use.
type Trust interface {
	// Observe takes in what was seen of a peer.
	Observe(o trust.Observation, now time.Time)
	// Judge says whether to avoid a peer; prefix is the network of its address, "" if unknown.
	Judge(p swarm.PeerID, prefix string, now time.Time) (trust.Avoidance, bool)
	// Audit says whether a session of a peer is to be audited, and counts it.
	Audit(p swarm.PeerID, r trust.AuditRates, draw float64, now time.Time) bool
	// Better tells whether the first of two peers is the better known.
	Better(p, q swarm.PeerID, now time.Time) bool
	// Watch has the next sessions of a peer audited as if it were new.
	Watch(p swarm.PeerID, now time.Time)
}

// failures are the kinds that observations of sessions count as. No session proves a lie:
// audits do.
var failures = map[swarm.Observation]trust.Kind{
	swarm.Refused:     trust.Refused,
	swarm.Unreachable: trust.Lost, swarm.Vanished: trust.Lost, swarm.Mute: trust.Lost,
	swarm.Slow: trust.Late, swarm.Stuck: trust.Late, swarm.Withheld: trust.Late,
	swarm.Wrong: trust.Broke, swarm.Broke: trust.Broke,
	swarm.Accused: trust.Accused,
}

// observe passes on what a session saw of a peer. One that may be dead is hidden from
// everybody on this node until it is heard again; all others are merely avoided for a while.
func (e *Engine) observe(p swarm.PeerID, what swarm.Observation, err error) {
	if kind, ok := failures[what]; ok {
		e.note(trust.Observation{Peer: p, Kind: kind, Detail: fmt.Sprintf("%v: %v", what, err)})
	}
	if what.Silent() {
		e.cfg.Directory.Suspect(p)
	}
}

// note completes an observation and takes it in.
func (e *Engine) note(o trust.Observation) {
	o.Prefix = e.prefix(o.Peer)
	e.trust.Observe(o, time.Now())
}

// served notes the steps that the stages of the present chain have computed since this was
// last done; mu is held.
func (s *Session) served() {
	if s.chains != nil {
		s.chains.served()
		return
	}
	for _, h := range s.machine.Alive() {
		if st := s.stages[h.Stage]; st != nil && s.step > st.counted {
			s.e.note(trust.Observation{Peer: h.Peer, Kind: trust.Served, Count: int(s.step - st.counted)})
			st.counted = s.step
		}
	}
}

// prefix is the network that a peer's address lies in, "" if that is unknown or says nothing.
func (e *Engine) prefix(p swarm.PeerID) string {
	if e.cfg.Prefix == nil {
		return ""
	}
	return e.cfg.Prefix(p)
}

// avoided tells whether a peer is avoided now.
func (e *Engine) avoided(p swarm.PeerID) bool {
	_, ok := e.trust.Judge(p, e.prefix(p), time.Now())
	return ok
}

// barred is a server that must not be asked, and why.
type barred struct {
	swarm.Record
	trust.Avoidance
}

// trusted takes from a view the servers that must never be asked, and lists who of the others
// is to be asked only where nobody else holds a block, with the time of the last failure.
func (e *Engine) trusted(v swarm.View) (left swarm.View, avoid map[swarm.PeerID]time.Time, never []barred) {
	now := time.Now()
	avoid = map[swarm.PeerID]time.Time{}
	left = v
	left.Servers = make([]swarm.Record, 0, len(v.Servers))
	for _, r := range v.Servers {
		switch a, avoided := e.trust.Judge(r.Peer, e.prefix(r.Peer), now); {
		case avoided && a.Never:
			never = append(never, barred{r, a})
			continue
		case avoided:
			avoid[r.Peer] = a.Since
		}
		left.Servers = append(left.Servers, r)
	}
	return left, avoid, never
}

// ofAvoided adds to an error about blocks that nobody can serve that this node avoids servers
// which hold them.
func ofAvoided(err error, never []barred) error {
	e := swarm.AsError(err)
	if e.Code != swarm.CodeBlocksMissing {
		return err
	}
	var held []barred
	for _, r := range never {
		if slices.ContainsFunc(e.Missing, func(s swarm.Span) bool { return r.Span.Start < s.End && s.Start < r.Span.End }) {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return err
	}
	first := slices.MinFunc(held, func(a, b barred) int { return a.Until.Compare(b.Until) })
	more := *e
	more.Message += fmt.Sprintf(" (this node avoids %d that hold some of them, for rows that differ from those of others or by its operator's word: %s until %s, because %s)",
		len(held), first.Peer.Short(), first.Until.UTC().Format(time.DateTime+" MST"), first.Reason)
	return &more
}

// Leave has the running sessions of this engine give up a peer that must not be asked any more:
// what it made of rows is computed again by others.
func (e *Engine) Leave(p swarm.PeerID, why error) {
	e.mu.Lock()
	open := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	for _, s := range open {
		s.leave(p, why)
	}
}
