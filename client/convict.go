package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"whorl/client/audit"
	"whorl/client/chain"
	"whorl/swarm"
)

// When chains of a verified session gave different rows, one of their servers lies, or hands on
// other rows than it shows. Each stage of the chains is audited then, as after a session, and a
// proven liar is avoided by the whole node. The chains that no majority agrees with come first; the
// majority may consist of liars. Of a dispute between neighbours the first is left, as it is when
// a session complains of its sender, and the second if it has another one. Where the audits find
// nobody, since a lie was not repeated or a witness tells the same, the chains that no majority
// agrees with leave all their servers. The session then computes the step again; it never shows
// what its chains did not agree about.

// settle finds out who is to blame for a row, of the chains that are odd, and leaves them. The
// error says that too few servers are left.
func (g *group) settle(ctx context.Context, row int, odd []int) error {
	a := &g.lead.e.audits
	a.mu.Lock()
	a.counts.Differences++
	a.mu.Unlock()
	members, rest := g.list(), []int(nil)
	var guilty, suspects []swarm.PeerID
	on := map[swarm.PeerID]bool{} // before any of them is left
	for _, h := range g.route() {
		on[h.Peer] = true
	}
	for i, m := range members {
		if !slices.Contains(odd, i) {
			rest = append(rest, i)
			continue
		}
		for _, h := range m.Route() {
			if h.Peer != g.lead.e.cfg.Self {
				suspects = append(suspects, h.Peer)
			}
		}
	}
	found, dispute := false, ""
	for _, some := range [][]int{odd, rest, odd, rest} { // witnesses are drawn by lot, and one may tell the same lie
		for _, i := range some {
			verdicts := members[i].convict(ctx)
			guilty = append(guilty, g.blamed(verdicts)...)
			for _, v := range verdicts {
				if v.Result == audit.Suspected {
					dispute = "; rows of " + short(v.Who) + " differ, and nobody else is there to judge"
				}
			}
		}
		if err := g.lead.ended(ctx); err != nil {
			return err
		}
		if found = slices.ContainsFunc(guilty, func(p swarm.PeerID) bool { return on[p] }); found {
			break
		}
	}
	if !found {
		guilty = append(guilty, suspects...)
	}
	g.lead.e.cfg.Log.Warn("chains of a verified session gave different rows", "session", g.lead.String(), "row", row, "found", found, "left", guilty)
	g.leave(guilty)
	if _, err := g.disjoint(ctx); err != nil {
		e := *swarm.AsError(err)
		e.Message = "the chains of servers gave different rows, and too few servers are left to compute them again: " + e.Message + dispute
		return &e
	}
	return nil
}

// blamed lists whom the session leaves for what audits found.
func (g *group) blamed(verdicts []audit.Verdict) []swarm.PeerID {
	var out []swarm.PeerID
	for _, v := range verdicts {
		switch v.Result {
		case audit.Judged:
			out = append(out, v.Liars...)
		case audit.Suspected:
			out = append(out, v.Who...)
		case audit.Disputed:
			sender, receiver := v.Who[0], v.Who[1]
			out = append(out, sender)
			if g.disputed[receiver] {
				out = append(out, receiver)
			}
			g.disputed[receiver] = true
		}
	}
	return out
}

// leave has no chain use some servers any more; what they made of rows is computed again.
func (g *group) leave(peers []swarm.PeerID) {
	g.mu.Lock()
	for _, p := range peers {
		g.left[p] = true
	}
	g.mu.Unlock()
	why := errors.New("it may have sent wrong rows")
	for _, m := range g.list() {
		for _, p := range peers {
			m.leave(p, why)
		}
	}
}

// leave gives up the stages of a server.
func (s *Session) leave(p swarm.PeerID, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, st := range s.stages {
		if st.hop.Peer == p {
			s.take(chain.Event{Kind: chain.Lost, Stage: id, What: swarm.Lied, Err: why}, nil)
		}
	}
}

// convict audits what the servers of a chain gave until it finds one that may be to blame. Rows of
// searches belong to several sequences and are not audited.
func (s *Session) convict(ctx context.Context) []audit.Verdict {
	s.recorded(ctx)
	s.mu.Lock()
	ev := s.evidence(func(g *givenRows) bool { return g.peer != s.e.cfg.Self })
	s.mu.Unlock()
	if ev == nil {
		return nil
	}
	ev.urgent = true
	var out []audit.Verdict
	for i := range ev.cases {
		v := s.e.auditCase(ctx, ev, &ev.cases[i])
		out = append(out, v)
		if peer := ev.cases[i].peer; ctx.Err() != nil || slices.Contains(v.Liars, peer) || slices.Contains(v.Who, peer) {
			break
		}
	}
	return out
}

// recordedEvery is how often it is looked whether the journal is there.
const recordedEvery = 20 * time.Millisecond

// recorded waits until the journal has all rows in front of the stages, for it comes behind the
// results; not longer than a mute server is waited for.
func (s *Session) recorded(ctx context.Context) {
	for until := time.Now().Add(s.e.cfg.Timeouts.Probe); time.Now().Before(until) && ctx.Err() == nil; {
		s.mu.Lock()
		lacks := slices.ContainsFunc(s.route(), func(h swarm.Hop) bool {
			return h.Span.Start > 0 && s.machine.Known(h.Span.Start).KnownFrom(0) < len(s.ids)
		})
		s.mu.Unlock()
		if !lacks {
			return
		}
		select {
		case <-time.After(recordedEvery):
		case <-s.over:
			return
		case <-ctx.Done():
		}
	}
}
