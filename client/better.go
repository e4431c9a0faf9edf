package client

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/route"
)

// improveEvery is how often a running session looks for a clearly better chain.
const improveEvery = 10 * time.Second

// fresh is how long a session that this node has opened may be missing from the load that its
// servers announce: the time between announcements, and that of a record to here.
const fresh = 5 * time.Second

// improve has the session change to a clearly better chain, if there is one. It goes on as it
// is until the new servers have the history, and nobody waits for that.
func (s *Session) improve(ctx context.Context) {
	now := time.Now()
	if s.e.cfg.Improve == nil || s.group != nil || s.chains != nil || now.Sub(s.improved) < improveEvery {
		return
	}
	s.improved = now
	s.mu.Lock()
	hops := s.route()
	run := route.Running{Hops: hops, Rows: len(s.ids), Left: s.opt.MaxLength - s.position(), Since: now.Sub(s.moved)}
	s.mu.Unlock()
	q, _, err := s.e.query(ctx, route.Query{
		Range: s.span, Tokens: s.opt.MaxLength, Sequences: s.opt.Beams, Draw: s.draw(),
	}, s.adapter)
	if err != nil {
		return
	}
	q.View = prompted(q.View, s.opt.Prompts)
	d, err := route.Better(q, run, *s.e.cfg.Improve)
	if err != nil || !d.Change {
		return
	}
	span, better := changed(hops, d.Chain.Hops)
	for _, h := range better {
		if s.e.avoided(h.Peer) || slices.ContainsFunc(hops, func(o swarm.Hop) bool { return o.Peer == h.Peer }) {
			return // a server has one place in a session
		}
	}
	if len(better) == 0 {
		return
	}
	s.e.cfg.Log.Info("session changes to a better chain", "session", s.String(), "why", d.Reason)
	s.moved = now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(chain.Event{Kind: chain.Better, From: span.Start, To: span.End, Hops: s.e.hops(q.View, route.Chain{Hops: better})}, nil)
}

// changed is the run of blocks in which two chains of the same blocks differ, and the hops of
// the second one there. Both have a border at each of its ends.
func changed(now, then []swarm.Hop) (swarm.Span, []swarm.Hop) {
	for len(now) > 0 && len(then) > 0 && now[0] == then[0] {
		now, then = now[1:], then[1:]
	}
	for len(now) > 0 && len(then) > 0 && now[len(now)-1] == then[len(then)-1] {
		now, then = now[:len(now)-1], then[:len(then)-1]
	}
	if len(now) == 0 || len(then) == 0 {
		return swarm.Span{}, nil
	}
	return swarm.Span{Start: now[0].Span.Start, End: now[len(now)-1].Span.End}, then
}

// draw is the session's own number, by which sessions spread over servers that serve alike;
// 0 for the best of all.
func (s *Session) draw() uint64 {
	if !s.e.cfg.Spread {
		return 0
	}
	return binary.LittleEndian.Uint64(s.id[:8]) | 1
}

// mine counts the sessions that this node opened at servers so lately that their records cannot
// count them yet.
func (e *Engine) mine() func(swarm.PeerID) int {
	if !e.cfg.Spread {
		return nil
	}
	e.mu.Lock()
	open := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	count, now := map[swarm.PeerID]int{}, time.Now()
	for _, s := range open {
		if now.Sub(s.opened) > fresh {
			continue
		}
		s.mu.Lock()
		for _, h := range s.route() {
			count[h.Peer]++
		}
		s.mu.Unlock()
	}
	return func(p swarm.PeerID) int { return count[p] }
}
