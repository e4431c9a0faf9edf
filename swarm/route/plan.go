package route

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"whorl/swarm"
)

// Query asks for a chain.
type Query struct {
	View   swarm.View
	Range  swarm.Span   // the blocks to cover: all, or what a lost stage held
	From   swarm.PeerID // the stage before the range; "" is the client
	To     swarm.PeerID // the stage behind it; "" is the client
	Tokens int          // positions of the session
	// Sequences is how many sequences of so many positions it reserves; 0 counts as 1.
	Sequences int
	// Avoid holds peers that failed, with the time of the last failure.
	Avoid map[swarm.PeerID]time.Time
	// Digests are those of blocks that the session has used: whoever holds one of them
	// must agree.
	Digests map[int]string
	// RTT is the client's round trip to a peer, false if unknown; nil knows none.
	RTT func(swarm.PeerID) (time.Duration, bool)
	// Observed is the rate at which the client saw a server compute, in tokens per second
	// through one block, false if it did not; nil saw none.
	Observed func(swarm.PeerID) (float64, bool)
	Params   Params
}

// Chain is the answer: hops in order, and what a token through them is expected to cost.
type Chain struct {
	Hops []swarm.Hop
	Legs []Leg         // per hop
	Back time.Duration // the message from the last hop to the client or to Query.To
	Cost time.Duration // sum of all legs and of Back
}

// Leg is the price of one hop.
type Leg struct {
	Link    time.Duration // the message to the server
	Enter   time.Duration // its overhead, and penalties for its state
	Compute time.Duration // its blocks
}

// String is the chain for logs: "0:40 via …abc123 => 40:80 via …def456".
func (c Chain) String() string {
	parts := make([]string, len(c.Hops))
	for i, h := range c.Hops {
		parts[i] = h.Span.String() + " via " + h.Peer.Short()
	}
	return strings.Join(parts, " => ")
}

// Plan finds the cheapest chain. A server once entered is used to the end of its span or
// of the range. Servers that failed lately are considered only for blocks that nobody else
// holds, and of several such the least recently failed. Servers that disagree on a block's
// digest are never mixed (see agreeing). The error is a *swarm.Error that names the blocks
// nobody can serve, or a plain one for a query that makes no sense.
func Plan(q Query) (Chain, error) {
	if err := q.Params.Validate(); err != nil {
		return Chain{}, err
	}
	if q.Range.Start < 0 || q.Range.Start >= q.Range.End || q.Range.End > q.View.Manifest.Blocks {
		return Chain{}, fmt.Errorf("route: blocks %v of a model with %d", q.Range, q.View.Manifest.Blocks)
	}
	online, fitting := q.online()
	agreed := q.agreeing(fitting)
	if missing := q.uncovered(agreed); len(missing) > 0 {
		return Chain{}, q.missing(missing, online, fitting)
	}
	return q.cheapest(q.notBanned(agreed)), nil
}

// cache is how many tokens of cache the session reserves.
func (q *Query) cache() int64 { return int64(q.Tokens) * int64(max(1, q.Sequences)) }

// online lists the servers of the range, and those of them that a session of this size
// fits into once others have ended.
func (q *Query) online() (online, fitting []*swarm.Record) {
	for i := range q.View.Servers {
		r := &q.View.Servers[i]
		if r.State != swarm.Online || r.Span.Start >= q.Range.End || q.Range.Start >= r.Span.End {
			continue
		}
		online = append(online, r)
		if r.CacheTotal >= q.cache() && (r.MaxLength == 0 || r.MaxLength >= q.Tokens) {
			fitting = append(fitting, r)
		}
	}
	return online, fitting
}

// agreeing drops servers until no two of the rest disagree on a block. Blocks are looked
// at in order; a digest that the session has used stands. Otherwise the digest with the
// most holders wins, the smaller text on a tie, unless choosing it would leave blocks
// uncovered that another choice covers. (The best choice over all blocks at once is a hard
// problem; disagreement is rare, and this answer is good and the same for everybody.)
func (q *Query) agreeing(servers []*swarm.Record) []*swarm.Record {
	for b := q.Range.Start; b < q.Range.End; b++ {
		if fixed, ok := q.Digests[b]; ok {
			servers = holding(servers, b, fixed)
			continue
		}
		digests := digestsOf(servers, b)
		if len(digests) < 2 {
			continue
		}
		var best []*swarm.Record
		fewest := q.Range.End
		for _, d := range digests {
			rest := holding(servers, b, d)
			if n := swarm.Total(q.uncovered(rest)); n < fewest {
				best, fewest = rest, n
			}
		}
		servers = best
	}
	return servers
}

// holding keeps the servers that have this digest of a block, or not the block.
func holding(servers []*swarm.Record, block int, digest string) []*swarm.Record {
	var out []*swarm.Record
	for _, r := range servers {
		if !r.Span.Holds(block) || r.Digest(block) == digest {
			out = append(out, r)
		}
	}
	return out
}

// digestsOf lists the digests of a block, those with the most holders first.
func digestsOf(servers []*swarm.Record, block int) []string {
	var out []string
	holders := map[string]int{}
	for _, r := range servers {
		if !r.Span.Holds(block) {
			continue
		}
		d := r.Digest(block)
		if holders[d]++; holders[d] == 1 {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if holders[a] != holders[b] {
			return holders[b] - holders[a]
		}
		return strings.Compare(a, b)
	})
	return out
}

// notBanned drops servers that failed lately, but for those that blocks depend on.
func (q *Query) notBanned(servers []*swarm.Record) []*swarm.Record {
	var healthy, banned []*swarm.Record
	for _, r := range servers {
		if _, ok := q.Avoid[r.Peer]; ok {
			banned = append(banned, r)
		} else {
			healthy = append(healthy, r)
		}
	}
	slices.SortStableFunc(banned, func(a, b *swarm.Record) int { return q.Avoid[a.Peer].Compare(q.Avoid[b.Peer]) })
	missing := q.uncovered(healthy)
	for _, r := range banned {
		if !slices.ContainsFunc(missing, func(s swarm.Span) bool { return r.Span.Start < s.End && s.Start < r.Span.End }) {
			continue
		}
		healthy = append(healthy, r)
		missing = q.uncovered(healthy)
	}
	return healthy
}

// uncovered lists the blocks of the range that no server holds.
func (q *Query) uncovered(servers []*swarm.Record) []swarm.Span {
	held := make([]bool, q.Range.End)
	for _, r := range servers {
		for b := max(0, r.Span.Start); b < min(r.Span.End, q.Range.End); b++ {
			held[b] = true
		}
	}
	return swarm.SpansWhere(q.Range.End, func(b int) bool { return b >= q.Range.Start && !held[b] })
}

// missing says which blocks nobody can serve, why, and what helps. Chat clients of Petals
// look for the first four words.
func (q *Query) missing(spans []swarm.Span, online, fitting []*swarm.Record) error {
	model, blocks := q.View.Manifest.Name, swarm.FormatSpans(spans)
	all := func(servers []*swarm.Record) bool { return len(q.uncovered(servers)) == 0 }
	var text string
	switch {
	case !all(online):
		text = fmt.Sprintf("No servers holding blocks %s of %s are online: start one with `whorl serve %s --block-indices %v` in this swarm, or try again later",
			blocks, model, model, spans[0])
	case !all(fitting):
		text = fmt.Sprintf("No servers holding blocks %s of %s have room for a session of %d tokens: ask for fewer, or start a server with a larger --attn-cache-tokens",
			blocks, model, q.cache())
	default:
		text = fmt.Sprintf("No servers holding blocks %s of %s agree with the session's other servers on the weights: start one with the same files, or begin a new session",
			blocks, model)
	}
	return &swarm.Error{Code: swarm.CodeBlocksMissing, Verdict: swarm.Elsewhere, Missing: spans, Message: text}
}
