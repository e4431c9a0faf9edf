package route

import (
	"cmp"
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
	cost    time.Duration // of everything up to stop, as the search weighs it
	spare   float64       // of the busiest server up to stop, as the search weighs it
	prev    *visit        // nil: entered from the client or from Query.From
	reached bool
}

// cheapest is Dijkstra's search over servers. A server once entered is used to its stop,
// so that what follows depends only on the server and not on where it was entered: there
// is one node per server, edges lead to a later stop, and taking nodes by stop takes each
// when its cost is final. Servers must cover the range. Ties go to the chain found first.
func (q *Query) cheapest(servers []*swarm.Record) Chain {
	nodes := q.visits(servers)
	var best *visit
	var chain Chain
	for i := range nodes {
		if here := &nodes[i]; here.reached && here.stop == q.Range.End {
			back := q.back(here.server)
			if best == nil || q.first(here.spare, here.cost+back, best.spare, best.cost+chain.Back) {
				best, chain.Back = here, back
			}
		}
	}
	for v := best; v != nil; v = v.prev {
		chain.Hops = append(chain.Hops, swarm.Hop{Peer: v.server.Peer, Span: swarm.Span{Start: v.start, End: v.stop}})
		chain.Legs = append(chain.Legs, v.leg)
		chain.Cost += v.leg.total()
		if own := q.spare(v.server, v.stop-v.start); chain.Spare == 0 || own < chain.Spare {
			chain.Spare = own
		}
	}
	chain.Cost += chain.Back
	slices.Reverse(chain.Hops)
	slices.Reverse(chain.Legs)
	return chain
}

// visits finds the best way to the stop of every server that can be reached, in the order of
// stops and peers.
func (q *Query) visits(servers []*swarm.Record) []visit {
	nodes := make([]visit, len(servers))
	for i, r := range servers {
		nodes[i] = visit{server: r, stop: min(r.Span.End, q.Range.End)}
	}
	slices.SortFunc(nodes, func(a, b visit) int {
		return cmp.Or(a.stop-b.stop, cmp.Compare(a.server.Peer, b.server.Peer))
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
	for i := range nodes {
		here := &nodes[i]
		if !here.reached || here.stop == q.Range.End {
			continue
		}
		for j := i + 1; j < len(nodes); j++ {
			if next := &nodes[j]; next.stop > here.stop && next.server.Span.Holds(here.stop) {
				q.enterAt(next, here.stop, q.link(here.server, next.server.Peer), here)
			}
		}
	}
	return nodes
}

// back is the message from the last server to the client, or to Query.To.
func (q *Query) back(last *swarm.Record) time.Duration {
	if q.To != "" {
		return q.link(last, q.To)
	}
	return q.fromClient(last.Peer)
}

// enterAt keeps the way into v at a block if it is the best so far.
func (q *Query) enterAt(v *visit, block int, link time.Duration, prev *visit) {
	n := v.stop - block
	leg := Leg{Link: link, Enter: q.enter(v.server), Compute: q.compute(v.server, n), Queue: q.queue(v.server, n)}
	cost, spare := q.price(v.server, leg), q.room(v.server, n)
	if prev != nil {
		cost += prev.cost
		spare = min(spare, prev.spare)
	}
	if !v.reached || q.first(spare, cost, v.spare, v.cost) {
		v.start, v.leg, v.cost, v.spare, v.prev, v.reached = block, leg, cost, spare, prev, true
	}
}

// first tells which of two ways is taken. A server that failed, or that nobody reached, is
// no way to more throughput: its price decides.
func (q *Query) first(spare float64, cost time.Duration, than float64, dear time.Duration) bool {
	if p := &q.Params; q.Most && spare != than && cost/max(1, p.Hearsay) == dear/max(1, p.Hearsay) {
		return spare > than
	}
	return cost < dear
}
