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
	// Prompt is how many positions come with the first step, 0 if that is not known: their rows are
	// most of what passes the links.
	Prompt int
	// Avoid holds peers that failed, with the time of the last failure.
	Avoid map[swarm.PeerID]time.Time
	// Apart tells whether the link from one server to another is to be taken only where there is
	// no way around it; nil for no such link.
	Apart func(from, to swarm.PeerID) bool
	// Around tells whether one server cannot reach another, so that rows between the two go through
	// the client; nil for no such pair.
	Around func(from, to swarm.PeerID) bool
	// RTT is the client's round trip to a peer, false if unknown; nil knows none.
	RTT func(swarm.PeerID) (time.Duration, bool)
	// Observed is the rate at which the client saw a server compute, in tokens per second
	// through one block, false if it did not; nil saw none.
	Observed func(swarm.PeerID) (float64, bool)
	// Mine is how many sessions the client opened at a server beyond those that its record
	// counts, or is about to take away (below 0); nil is none.
	Mine func(swarm.PeerID) int
	// Most asks for the chain that has the most time left, instead of the one that answers
	// soonest: for training and scoring, where many sequences are under way at once.
	Most bool
	// Draw spreads clients over servers that serve about as well: a number of each session's
	// own. 0 takes the best of all.
	Draw   uint64
	Params Params
}

// Chain is the answer: hops in order, and what a token through them is expected to cost.
type Chain struct {
	Hops []swarm.Hop
	Legs []Leg         // per hop
	Back time.Duration // the message from the last hop to the client or to Query.To
	Cost time.Duration // sum of all legs and of Back
	// Spare is how many tokens per second the busiest of its servers has time for.
	Spare float64
}

// Leg is the price of one hop.
type Leg struct {
	Link    time.Duration // the message to the server
	Enter   time.Duration // its overhead, and penalties for its state
	Compute time.Duration // its blocks
	Queue   time.Duration // until it comes to compute them
}

func (l *Leg) total() time.Duration { return l.Link + l.Enter + l.Compute + l.Queue }

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
// holds, and of several such the least recently failed. The error is a *swarm.Error that
// names the blocks nobody can serve, or a plain one for a query that makes no sense.
func Plan(q Query) (Chain, error) {
	if err := q.Params.Validate(); err != nil {
		return Chain{}, err
	}
	if q.Range.Start < 0 || q.Range.Start >= q.Range.End || q.Range.End > q.View.Manifest.Blocks {
		return Chain{}, fmt.Errorf("route: blocks %v of a model with %d", q.Range, q.View.Manifest.Blocks)
	}
	online, fitting := q.online()
	if missing := q.uncovered(fitting); len(missing) > 0 {
		return Chain{}, q.missing(missing, online)
	}
	return q.cheapest(q.notBanned(fitting)), nil
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
func (q *Query) missing(spans []swarm.Span, online []*swarm.Record) error {
	model, blocks := q.View.Manifest.Name, swarm.FormatSpans(spans)
	var text string
	if len(q.uncovered(online)) > 0 {
		text = fmt.Sprintf("No servers holding blocks %s of %s are online: start one with `whorl serve %s --block-indices %v` in this swarm, or try again later",
			blocks, model, model, spans[0])
	} else {
		text = fmt.Sprintf("No servers holding blocks %s of %s have room for a session of %d tokens: ask for fewer, or start a server with a larger --attn-cache-tokens",
			blocks, model, q.cache())
	}
	return &swarm.Error{Code: swarm.CodeBlocksMissing, Verdict: swarm.Elsewhere, Missing: spans, Message: text}
}
