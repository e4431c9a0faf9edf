package route

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"whorl/swarm"
)

// Explanation is a chain with what was not chosen, and why: a dry run.
type Explanation struct {
	Chain    Chain
	Rejected []Rejected // cheapest first, then what cannot serve at all
}

// Rejected is a server that is not on the chain.
type Rejected struct {
	Peer swarm.PeerID
	Span swarm.Span
	// Cost of a token through the cheapest chain that has it; 0 if none may.
	Cost time.Duration
	Leg  Leg // its own part of that
	Why  string
}

// Explain plans as Plan does, without a draw, and says of every other server that holds a
// block of the range why it is not on the chain.
func Explain(q Query) (Explanation, error) {
	q.Draw = 0
	chain, err := Plan(q)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Chain: chain}
	_, fitting := q.online()
	through := q.through(q.notBanned(fitting))
	for i := range q.View.Servers {
		r := &q.View.Servers[i]
		if r.Span.Start >= q.Range.End || q.Range.Start >= r.Span.End || slices.ContainsFunc(chain.Hops, func(h swarm.Hop) bool { return h.Peer == r.Peer }) {
			continue
		}
		x := Rejected{Peer: r.Peer, Span: r.Span}
		if v, ok := through[r.Peer]; ok {
			x.Cost, x.Leg = v.cost, v.leg
		}
		x.Why = q.why(r, x, chain, slices.Contains(fitting, r))
		e.Rejected = append(e.Rejected, x)
	}
	slices.SortStableFunc(e.Rejected, func(a, b Rejected) int {
		return cmp.Compare(uint64(a.Cost-1), uint64(b.Cost-1)) // none comes last
	})
	return e, nil
}

// through is, of each server, the price of the cheapest chain that has it: the cheapest way
// to it, and from its stop on.
func (q *Query) through(servers []*swarm.Record) map[swarm.PeerID]visit {
	nodes := q.visits(servers)
	tail := make([]time.Duration, len(nodes))
	out := map[swarm.PeerID]visit{}
	for i := len(nodes) - 1; i >= 0; i-- {
		here := &nodes[i]
		tail[i] = math.MaxInt64
		if here.stop == q.Range.End {
			tail[i] = q.back(here.server)
		}
		for j := i + 1; j < len(nodes); j++ {
			next := &nodes[j]
			if next.stop <= here.stop || !next.server.Span.Holds(here.stop) || tail[j] == math.MaxInt64 {
				continue
			}
			n := next.stop - here.stop
			leg := Leg{Link: q.link(here.server, next.server.Peer), Enter: q.enter(next.server), Compute: q.compute(next.server, n), Queue: q.queue(next.server, n)}
			tail[i] = min(tail[i], leg.total()+tail[j])
		}
		if here.reached && tail[i] != math.MaxInt64 {
			v := *here
			v.cost += tail[i]
			out[here.server.Peer] = v
		}
	}
	return out
}

// why says why a server is not on the chain: the first reason that holds.
func (q *Query) why(r *swarm.Record, x Rejected, chosen Chain, fits bool) string {
	at, failed := q.Avoid[r.Peer]
	switch {
	case r.State != swarm.Online:
		return fmt.Sprintf("it is %v", r.State)
	case r.MaxLength > 0 && r.MaxLength < q.Tokens:
		return fmt.Sprintf("it takes sessions of %d tokens at most", r.MaxLength)
	case !fits:
		return fmt.Sprintf("its cache has room for %d tokens in all, and %d are asked", r.CacheTotal, q.cache())
	case failed && !at.IsZero():
		return "it failed at " + at.UTC().Format("15:04:05")
	case failed:
		return "it is avoided"
	case x.Cost == 0:
		return "no chain leads through it"
	}
	why := fmt.Sprintf("the best chain through it costs %v, %v more", short(x.Cost), short(x.Cost-chosen.Cost))
	switch {
	case len(q.View.Reached) > 0 && q.View.Hearsay(r.Peer):
		why += ": nobody here has reached it"
	case r.CacheLeft < q.cache():
		why += fmt.Sprintf(": its cache has room for %d tokens now", r.CacheLeft)
	case q.busy(r) >= 0.5:
		why += fmt.Sprintf(": it is busy for %.0f %% of the time", 100*q.busy(r))
	}
	return why
}
