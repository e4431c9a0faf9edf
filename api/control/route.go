package control

import (
	"fmt"
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm/route"
)

// defaultPositions is how long a session is if the caller does not say.
const defaultPositions = 512

// PlanRoute says which servers a session would use, and why not others.
func (a Dialect) PlanRoute(w http.ResponseWriter, r *http.Request, id gen.ModelID) {
	var req gen.RouteRequest
	if r.ContentLength != 0 {
		if err := a.ReadJSON(w, r, "RouteRequest", &req); err != nil {
			a.Fail(w, r, err)
			return
		}
	}
	v, err := a.view(id)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	e, err := a.Routes.Explain(r.Context(), v.Manifest.UID(), api.Value(req.Positions, defaultPositions))
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	out := gen.RoutePlan{Stages: []gen.RouteStage{}, Rejected: []gen.RouteRejected{}, BackMs: ms(e.Chain.Back), CostMs: ms(e.Chain.Cost)}
	for i, h := range e.Chain.Hops {
		l := e.Chain.Legs[i]
		out.Stages = append(out.Stages, gen.RouteStage{PeerId: string(h.Peer), Span: gen.Span{Start: h.Span.Start, End: h.Span.End}, LinkMs: ms(l.Link), EnterMs: ms(l.Enter), ComputeMs: ms(l.Compute), QueueMs: ms(l.Queue)})
	}
	for _, x := range e.Rejected {
		out.Rejected = append(out.Rejected, gen.RouteRejected{PeerId: string(x.Peer), Span: gen.Span{Start: x.Span.Start, End: x.Span.End}, Why: x.Why, CostMs: costOf(x)})
	}
	if wantsText(r) {
		routeText(w, out)
		return
	}
	api.Reply(w, out)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// costOf is the price of the best chain with a server, nil if no chain may have it.
func costOf(x route.Rejected) *float64 {
	if x.Cost == 0 {
		return nil
	}
	c := ms(x.Cost)
	return &c
}

// routeText shows the chain, what it costs, and then the others.
func routeText(w http.ResponseWriter, p gen.RoutePlan) {
	type row struct{ peer, blocks, link, compute, queue, why string }
	var rows []row
	for _, s := range p.Stages {
		rows = append(rows, row{s.PeerId, spansText([]gen.Span{s.Span}), fmt.Sprintf("%.1f", s.LinkMs+s.EnterMs), fmt.Sprintf("%.1f", s.ComputeMs), fmt.Sprintf("%.1f", s.QueueMs), "chosen"})
	}
	rows = append(rows, row{"(back to this node)", "", fmt.Sprintf("%.1f", p.BackMs), "", "", fmt.Sprintf("a token takes %.1f ms", p.CostMs)})
	for _, x := range p.Rejected {
		rows = append(rows, row{x.PeerId, spansText([]gen.Span{x.Span}), "", "", "", x.Why})
	}
	writeTable(w, []column[row]{
		{"PEER", func(r *row) string { return r.peer }}, {"BLOCKS", func(r *row) string { return r.blocks }}, {"LINK MS", func(r *row) string { return r.link }},
		{"COMPUTE MS", func(r *row) string { return r.compute }}, {"QUEUE MS", func(r *row) string { return r.queue }}, {"WHY", func(r *row) string { return r.why }},
	}, rows)
}
