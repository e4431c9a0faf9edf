package client

import (
	"context"

	"whorl/swarm"
	"whorl/swarm/route"
)

// Explain says which chain a session of so many positions would get now, what it costs, and why
// the others were not chosen. It opens nothing.
func (e *Engine) Explain(ctx context.Context, positions int) (route.Explanation, error) {
	q, never, err := e.query(ctx, route.Query{Range: swarm.Span{Start: 0, End: e.cfg.Manifest.Blocks}, Tokens: positions}, nil)
	if err != nil {
		return route.Explanation{}, err
	}
	out, err := route.Explain(q)
	if err != nil {
		return out, ofAvoided(err, never)
	}
	for _, r := range never {
		out.Rejected = append(out.Rejected, route.Rejected{Peer: r.Peer, Span: r.Span, Why: "it must not be asked: GET /api/v1/peers/standings says why"})
	}
	return out, nil
}
