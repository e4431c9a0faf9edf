package client

import (
	"context"

	"whorl/client/audit"
	"whorl/swarm"
)

// StageAudit is what an audit found of one server's part in a session.
type StageAudit struct {
	Hop swarm.Hop
	audit.Verdict
}

// Audit has others compute again what the servers of the session gave, and compares it bit by bit:
// what Engine.Audit does later to some sessions, at once and to all of this one. The session must
// be open with SessionOptions.Audit; as in a turn, no other call may run. Of a search, and of what
// this node computed itself, there is nothing to audit.
func (s *Session) Audit(ctx context.Context) ([]StageAudit, error) {
	if s.chains != nil {
		var out []StageAudit
		for _, m := range s.chains.list() {
			more, err := m.Audit(ctx)
			out = append(out, more...)
			if err != nil {
				return out, err
			}
		}
		return out, nil
	}
	s.recorded(ctx)
	s.mu.Lock()
	ev := s.evidence(func(g *givenRows) bool { return g.peer != s.e.cfg.Self })
	s.mu.Unlock()
	if ev == nil {
		return nil, s.ended(ctx)
	}
	ev.urgent = true
	var out []StageAudit
	for i := range ev.cases {
		g := &ev.cases[i]
		v := s.e.auditCase(ctx, ev, g)
		if err := s.ended(ctx); err != nil {
			return out, err
		}
		out = append(out, StageAudit{Hop: swarm.Hop{Peer: g.peer, Span: g.span}, Verdict: v})
	}
	return out, nil
}
