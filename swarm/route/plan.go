package route

import (
	"fmt"
	"math"
	"slices"
	"time"

	"whorl/swarm"
)

// Query asks for a chain.
type Query struct {
	View   swarm.View
	Range  swarm.Span   // the blocks to cover: all, or what a lost stage held
	From   swarm.PeerID // the stage before the range; "" is the client
	To     swarm.PeerID // the stage behind it; "" is the client
	Tokens int          // positions the session reserves
	// Avoid holds peers that failed, with the time of the last failure.
	Avoid map[swarm.PeerID]time.Time
	// Digests are those of blocks that other stages of the session hold: whoever holds
	// one of them must agree.
	Digests map[int]string
	// RTT is the client's round trip to a peer, false if unknown; nil knows none.
	RTT    func(swarm.PeerID) (time.Duration, bool)
	Params Params
}

// Chain is the answer: hops in order, and what a token through them is expected to cost.
type Chain struct {
	Hops  []swarm.Hop
	Cost  time.Duration
	Parts []time.Duration // per hop: the message to it, its overhead and its compute; last: the way back
}

// Plan finds the cheapest chain. A server once entered is used to the end of its span or
// of the range. Servers that disagree with the session on a block's digest are out;
// where holders disagree among themselves the digest most of them have wins, the smaller
// text on a tie. The error names the blocks nobody holds.
func Plan(q Query) (Chain, error) {
	if err := q.Params.Validate(); err != nil {
		return Chain{}, err
	}
	if q.Range.Start < 0 || q.Range.Start >= q.Range.End || q.Range.End > q.View.Manifest.Blocks && q.View.Manifest.Blocks > 0 {
		return Chain{}, fmt.Errorf("route: blocks %v of a model with %d", q.Range, q.View.Manifest.Blocks)
	}
	servers := q.usable()
	if missing := uncovered(q.Range, servers); len(missing) > 0 {
		return Chain{}, q.missing(missing)
	}
	best := q.dijkstra(servers)
	return best, nil
}

// usable lists the servers a session may use: online, large enough, agreeing.
func (q *Query) usable() []*swarm.Record {
	var out []*swarm.Record
	for i := range q.View.Servers {
		r := &q.View.Servers[i]
		if r.State == swarm.Online && r.Span.Start < q.Range.End && q.Range.Start < r.Span.End &&
			r.CacheTotal >= int64(q.Tokens) && (r.MaxLength == 0 || r.MaxLength >= q.Tokens) {
			out = append(out, r)
		}
	}
	chosen := map[int]string{}
	for b := q.Range.Start; b < q.Range.End; b++ {
		chosen[b] = majority(out, b)
	}
	return slices.DeleteFunc(out, func(r *swarm.Record) bool {
		for b := max(r.Span.Start, q.Range.Start); b < min(r.Span.End, q.Range.End); b++ {
			want, fixed := q.Digests[b]
			if !fixed {
				want = chosen[b]
			}
			if r.Digest(b) != want {
				return true
			}
		}
		return false
	})
}

// majority is the digest of a block that most servers have.
func majority(servers []*swarm.Record, block int) string {
	votes := map[string]int{}
	for _, r := range servers {
		if r.Span.Holds(block) {
			votes[r.Digest(block)]++
		}
	}
	best := ""
	for d, n := range votes {
		if n > votes[best] || n == votes[best] && d < best {
			best = d
		}
	}
	return best
}

func uncovered(span swarm.Span, servers []*swarm.Record) []swarm.Span {
	count := make([]int, span.End)
	for i := range span.Start {
		count[i] = 1
	}
	for _, r := range servers {
		for b := r.Span.Start; b < min(r.Span.End, span.End); b++ {
			count[b]++
		}
	}
	return swarm.MissingSpans(count)
}

func (q *Query) missing(spans []swarm.Span) error {
	return &swarm.Error{
		Code: swarm.CodeBlocksMissing, Verdict: swarm.Elsewhere, Missing: spans,
		Message: fmt.Sprintf("No servers holding blocks %s of %s are online that fit a session of %d tokens: start one with `whorl serve %s --block-indices %v`, or try again when its servers are back",
			swarm.FormatSpans(spans), q.View.Manifest.Name, q.Tokens, q.View.Manifest.Name, spans[0]),
	}
}

// node is a state of the search: peer i of the list entered at a block.
type node struct{ server, block int }

// dijkstra searches the graph whose nodes are (server, block it is entered at). Costs are
// not negative and every edge goes to a later block, so that visiting blocks in order
// visits nodes in topological order.
func (q *Query) dijkstra(servers []*swarm.Record) Chain {
	type arrival struct {
		cost time.Duration
		prev node
	}
	const far = time.Duration(math.MaxInt64)
	reach := map[node]arrival{}
	at := func(n node) time.Duration {
		if a, ok := reach[n]; ok {
			return a.cost
		}
		return far
	}
	none := node{-1, -1}
	for i, r := range servers {
		if r.Span.Holds(q.Range.Start) {
			first := q.fromClient(r.Peer)
			if q.From != "" {
				first = q.link(q.From, r.Peer)
			}
			reach[node{i, q.Range.Start}] = arrival{first + q.enter(r), none}
		}
	}
	best, end := far, none
	for b := q.Range.Start; b < q.Range.End; b++ {
		for i, r := range servers {
			here := node{i, b}
			cost := at(here)
			if cost == far {
				continue
			}
			stop := min(r.Span.End, q.Range.End)
			cost += q.compute(r, stop-b)
			if stop == q.Range.End {
				last := q.fromClient(r.Peer)
				if q.To != "" {
					last = q.link(r.Peer, q.To)
				}
				if cost+last < best {
					best, end = cost+last, here
				}
				continue
			}
			for j, next := range servers {
				there := node{j, stop}
				if j == i || !next.Span.Holds(stop) {
					continue
				}
				if c := cost + q.link(r.Peer, next.Peer) + q.enter(next); c < at(there) {
					reach[there] = arrival{c, here}
				}
			}
		}
	}
	chain := Chain{Cost: best}
	for n := end; n != none; n = reach[n].prev {
		r := servers[n.server]
		stop := min(r.Span.End, q.Range.End)
		chain.Hops = append(chain.Hops, swarm.Hop{Peer: r.Peer, Span: swarm.Span{Start: n.block, End: stop}})
		before := time.Duration(0)
		if p := reach[n].prev; p != none {
			pr := servers[p.server]
			before = reach[p].cost + q.compute(pr, n.block-p.block)
		}
		chain.Parts = append(chain.Parts, reach[n].cost-before+q.compute(r, stop-n.block))
	}
	slices.Reverse(chain.Hops)
	slices.Reverse(chain.Parts)
	sum := time.Duration(0)
	for _, p := range chain.Parts {
		sum += p
	}
	chain.Parts = append(chain.Parts, best-sum)
	return chain
}
