package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"whorl/client"
	"whorl/client/audit"
	"whorl/internal/wiring"
	"whorl/swarm"
)

// auditJSON is what an audit found of one server's part in an answer.
type auditJSON struct {
	Peer   swarm.PeerID `json:"peer"`
	Blocks string       `json:"blocks"`
	// Result is agreed (another holder gives the same bits), impossible (nobody else computed
	// it), judged (others agree who is wrong), suspected (nobody could judge) or disputed (the
	// server or the one before it lies).
	Result string         `json:"result"`
	Liars  []swarm.PeerID `json:"liars,omitempty"` // of judged
}

// auditsOf has others compute a session's rows again and says what came of it. The error says
// that the answer may be wrong.
func auditsOf(ctx context.Context, w *world, s *client.Session) ([]auditJSON, error) {
	list, err := s.Audit(ctx)
	if ctx.Err() != nil {
		return nil, wiring.ErrInterrupted
	}
	if err != nil {
		return nil, err
	}
	out := []auditJSON{}
	var said, wrong []string
	for _, a := range list {
		o := auditJSON{Peer: a.Hop.Peer, Blocks: a.Hop.Span.String(), Result: a.Result.String(), Liars: a.Liars}
		out = append(out, o)
		said = append(said, fmt.Sprintf("%s %s %s", a.Hop.Peer.Short(), o.Blocks, o.Result))
		if a.Result == audit.Suspected || a.Result == audit.Disputed || a.Result == audit.Judged && slices.Contains(a.Liars, a.Hop.Peer) {
			wrong = append(wrong, said[len(said)-1])
		}
	}
	if len(said) == 0 {
		said = []string{"nothing could be audited"}
	}
	fmt.Fprintf(w.err, "[audit: %s]\n", strings.Join(said, ", "))
	if len(wrong) > 0 {
		return out, fmt.Errorf("the answer may be wrong: others computed other rows than %s", strings.Join(wrong, ", "))
	}
	return out, nil
}
