package route

import (
	"slices"
	"time"

	"whorl/swarm"
)

// visit is the cheapest way found to the end of one server's span.
type visit struct {
	server  *swarm.Record
	start   int // the block it is entered at
	stop    int // the block after the last it computes
	leg     Leg
	cost    time.Duration // of everything up to stop
	prev    *visit        // nil: entered from the client or from Query.From
	reached bool
}

// cheapest is Dijkstra's search over servers. A server once entered is used to its stop,
// so that what follows depends only on the server and not on where it was entered: there
// is one node per server, edges lead to a later stop, and taking nodes by stop takes each
// when its cost is final. Servers must cover the range. Ties go to the chain found first,
// in the order of stops and peers.
func (q *Query) cheapest(servers []*swarm.Record) Chain {
	nodes := make([]visit, len(servers))
	for i, r := range servers {
		nodes[i] = visit{server: r, stop: min(r.Span.End, q.Range.End)}
	}
	slices.SortFunc(nodes, func(a, b visit) int {
		if a.stop != b.stop {
			return a.stop - b.stop
		}
		if a.server.Peer < b.server.Peer {
			return -1
		}
		return 1
	})
	from, _ := q.View.Server(q.From)
	for i := range nodes {
		if r := nodes[i].server; r.Span.Holds(q.Range.Start) {
			link := q.fromClient(r.Peer)
			if q.From != "" {
				link = q.link(from, r.Peer)
			}
			q.enterAt(&nodes[i], q.Range.Start, link, nil)
		}
	}
	var best *visit
	var chain Chain
	for i := range nodes {
		here := &nodes[i]
		if !here.reached {
			continue
		}
		if here.stop == q.Range.End {
			back := q.fromClient(here.server.Peer)
			if q.To != "" {
				back = q.link(here.server, q.To)
			}
			if best == nil || here.cost+back < chain.Cost {
				best, chain.Back, chain.Cost = here, back, here.cost+back
			}
			continue
		}
		for j := i + 1; j < len(nodes); j++ {
			if next := &nodes[j]; next.stop > here.stop && next.server.Span.Holds(here.stop) {
				q.enterAt(next, here.stop, q.link(here.server, next.server.Peer), here)
			}
		}
	}
	for v := best; v != nil; v = v.prev {
		chain.Hops = append(chain.Hops, swarm.Hop{Peer: v.server.Peer, Span: swarm.Span{Start: v.start, End: v.stop}})
		chain.Legs = append(chain.Legs, v.leg)
	}
	slices.Reverse(chain.Hops)
	slices.Reverse(chain.Legs)
	return chain
}

// enterAt keeps the way into v at a block if it is the cheapest so far.
func (q *Query) enterAt(v *visit, block int, link time.Duration, prev *visit) {
	leg := Leg{Link: link, Enter: q.enter(v.server), Compute: q.compute(v.server, v.stop-block)}
	cost := leg.Link + leg.Enter + leg.Compute
	if prev != nil {
		cost += prev.cost
	}
	if !v.reached || cost < v.cost {
		v.start, v.leg, v.cost, v.prev, v.reached = block, leg, cost, prev, true
	}
}
