package route

import (
	"fmt"
	"slices"

	"whorl/swarm"
)

// Disjoint finds n chains that share no server, each the cheapest of what the others leave. If
// it can, they share no network either, as network names it ("" for one that says nothing): many
// identities at one address are likely one owner. Chains exist where every block has n servers
// with room, and then they are found. The error names the blocks that have fewer.
func Disjoint(q Query, n int, network func(swarm.PeerID) string) ([]Chain, error) {
	if _, err := Plan(q); err != nil {
		return nil, err
	}
	if short := q.heldByFewer(n); len(short) > 0 {
		blocks := swarm.FormatSpans(short)
		return nil, &swarm.Error{Code: swarm.CodeBlocksMissing, Verdict: swarm.Elsewhere, Missing: short, Message: fmt.Sprintf(
			"No servers holding blocks %s of %s are left for %d chains that share none: each of these blocks needs %d servers with room for %d tokens",
			blocks, q.View.Manifest.Name, n, n, q.cache())}
	}
	for _, apart := range []bool{true, false} {
		if chains := q.inTurn(n, network, apart); chains != nil {
			return chains, nil
		}
	}
	return q.sweep(n), nil
}

// heldByFewer lists the blocks of the range that fewer than n servers with room hold.
func (q *Query) heldByFewer(n int) []swarm.Span {
	_, fitting := q.online()
	held := make([]int, q.Range.End)
	for _, r := range fitting {
		for b := max(0, r.Span.Start); b < min(r.Span.End, q.Range.End); b++ {
			held[b]++
		}
	}
	return swarm.SpansWhere(q.Range.End, func(b int) bool { return b >= q.Range.Start && held[b] < n })
}

// Without is the query over the servers that are not given.
func (q Query) Without(given func(swarm.PeerID) bool) Query {
	q.View.Servers = slices.DeleteFunc(slices.Clone(q.View.Servers), func(r swarm.Record) bool { return given(r.Peer) })
	return q
}

// inTurn plans chain after chain, each the cheapest of the servers that are left, of other
// networks alone if apart; nil if that ends before the last.
func (q *Query) inTurn(n int, network func(swarm.PeerID) string, apart bool) []Chain {
	var out []Chain
	left, taken := *q, map[swarm.PeerID]bool{}
	networks := map[string]bool{}
	for range n {
		c, err := Plan(left)
		if err != nil {
			return nil
		}
		out = append(out, c)
		for _, h := range c.Hops {
			taken[h.Peer] = true
			if at := network(h.Peer); apart && at != "" {
				networks[at] = true
			}
		}
		left = left.Without(func(p swarm.PeerID) bool { return taken[p] || apart && networks[network(p)] })
	}
	return out
}

// sweep makes n chains where each block has n servers: whichever chain ends first goes on with
// the unused server that reaches furthest. There always is one, since each of the others uses
// at most one of the n that hold the block where it ends. Servers that failed lately come last.
func (q *Query) sweep(n int) []Chain {
	_, fitting := q.online()
	chains := make([]Chain, n)
	at := make([]int, n)
	for i := range at {
		at[i] = q.Range.Start
	}
	used := map[swarm.PeerID]bool{}
	for {
		i := 0
		for k := range at {
			if at[k] < at[i] {
				i = k
			}
		}
		if at[i] == q.Range.End {
			return chains
		}
		best := q.furthest(fitting, at[i], used)
		used[best.Peer] = true
		end := min(best.Span.End, q.Range.End)
		chains[i].Hops = append(chains[i].Hops, swarm.Hop{Peer: best.Peer, Span: swarm.Span{Start: at[i], End: end}})
		at[i] = end
	}
}

// furthest is the unused server that holds a block and most of those behind it, healthy ones
// first.
func (q *Query) furthest(servers []*swarm.Record, block int, used map[swarm.PeerID]bool) *swarm.Record {
	var best *swarm.Record
	rank := func(r *swarm.Record) (healthy bool, end int) {
		_, failed := q.Avoid[r.Peer]
		return !failed, r.Span.End
	}
	for _, r := range servers {
		if used[r.Peer] || !r.Span.Holds(block) {
			continue
		}
		if best == nil {
			best = r
			continue
		}
		h, e := rank(r)
		bh, be := rank(best)
		if h != bh && h || h == bh && e > be {
			best = r
		}
	}
	return best
}
