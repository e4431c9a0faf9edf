package route

import (
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
)

// Running is a session that has a chain.
type Running struct {
	Hops   []swarm.Hop
	Rows   int           // computed so far: what a new server must be fed
	Left   int           // tokens that it is expected to take yet
	Since  time.Duration // its last change of chain
	Prompt bool          // rows of a prompt are under way
}

// Patience says how much better a chain must be before a running session changes to it.
type Patience struct {
	// Share of the time of a token that must be saved.
	Share float64
	// Repay is how many times as much as the replay costs must be saved until the end.
	Repay float64
	// Rest is how long a session stays on a chain at least.
	Rest time.Duration
	// ForwardTimes is how many times as fast as it decodes a server is believed to replay,
	// where it has not measured.
	ForwardTimes float64
}

// DefaultPatience is far from what views differ by from one exchange to the next.
func DefaultPatience() Patience {
	return Patience{Share: 0.3, Repay: 2, Rest: 30 * time.Second, ForwardTimes: 4}
}

// Switch is what a running session should do.
type Switch struct {
	Change bool
	Chain  Chain         // the better one, where there is one
	Now    time.Duration // price of a token through the present chain
	Saves  time.Duration // per token
	Replay time.Duration // what the change costs once
	Reason string
}

// Better decides whether another chain is clearly better for a running session. q is as for
// a new one; Range must be what the session's hops cover. The session's own load is taken
// off its servers, so that both chains are priced as if it were not there. It does not look
// for a chain in place of one that broke: that is Plan.
func Better(q Query, run Running, p Patience) (Switch, error) {
	stay := func(s Switch, format string, a ...any) (Switch, error) {
		s.Reason = fmt.Sprintf(format, a...)
		return s, nil
	}
	var s Switch
	switch {
	case run.Prompt:
		return stay(s, "rows of its prompt are under way")
	case run.Since < p.Rest:
		return stay(s, "it changed %v ago and stays for %v", run.Since.Round(time.Second), p.Rest)
	case run.Left <= 0:
		return stay(s, "it ends soon")
	}
	mine := q.Mine
	q.Mine = func(peer swarm.PeerID) (n int) {
		if mine != nil {
			n = mine(peer)
		}
		if slices.ContainsFunc(run.Hops, func(h swarm.Hop) bool { return h.Peer == peer }) {
			n--
		}
		return n
	}
	now, missing := q.Price(run.Hops)
	if missing != "" {
		return stay(s, "server %s is not in the view: its session says when it breaks", missing.Short())
	}
	s.Now = now.Cost
	best, err := Plan(q)
	if err != nil {
		return s, err
	}
	s.Chain, s.Saves = best, now.Cost-best.Cost
	if s.Saves < time.Duration(p.Share*float64(now.Cost)) {
		return stay(s, "a token takes %v and would take %v: not %.0f %% less", short(now.Cost), short(best.Cost), 100*p.Share)
	}
	s.Replay = q.replay(best, run, p)
	if gain := s.Saves * time.Duration(min(run.Left, 1<<20)); gain < time.Duration(p.Repay*float64(s.Replay)) {
		return stay(s, "%v a token saved until its end are %v, less than %g times the %v of a replay", short(s.Saves), short(gain), p.Repay, short(s.Replay))
	}
	s.Change = true
	return stay(s, "a token takes %v and would take %v through %v; the replay takes %v", short(now.Cost), short(best.Cost), best, short(s.Replay))
}

// Price is what a token through given hops is expected to cost now. missing is a server that
// is not online in the view, or does not hold its hop any more; "" if all are.
func (q *Query) Price(hops []swarm.Hop) (c Chain, missing swarm.PeerID) {
	from, _ := q.View.Server(q.From)
	var last *swarm.Record
	for i, h := range hops {
		r, ok := q.View.Server(h.Peer)
		if !ok || r.State != swarm.Online || !r.Span.Contains(h.Span) {
			return Chain{}, h.Peer
		}
		link := q.fromClient(h.Peer)
		if i > 0 {
			link = q.link(last, h.Peer)
		} else if q.From != "" {
			link = q.link(from, h.Peer)
		}
		enter := q.enter(r)
		if r.CacheLeft < q.cache() { // it has its cache there already
			enter -= q.Params.NoCache
		}
		n := h.Span.Len()
		leg := Leg{Link: link, Enter: enter, Compute: q.compute(r, n), Queue: q.queue(r, n)}
		c.Hops, c.Legs, c.Cost = append(c.Hops, h), append(c.Legs, leg), c.Cost+leg.total()
		if own := q.spare(r, n); i == 0 || own < c.Spare {
			c.Spare = own
		}
		last = r
	}
	if last != nil {
		c.Back = q.back(last)
		c.Cost += c.Back
	}
	return c, ""
}

// replay is what feeding the rows so far to the servers that are new costs. They are fed one
// after another at the worst.
func (q *Query) replay(c Chain, run Running, p Patience) (d time.Duration) {
	for i, h := range c.Hops {
		if slices.Contains(run.Hops, h) {
			continue
		}
		r, ok := q.View.Server(h.Peer)
		if !ok {
			continue
		}
		rate := p.ForwardTimes * q.believed(r)
		if f := r.Rates.ForwardRPS; f != nil && *f > 0 && !q.View.Hearsay(h.Peer) {
			rate = max(min(*f, p.ForwardTimes*q.Params.ClaimedRPS), q.Params.MinRPS)
		}
		d += c.Legs[i].Link + c.Legs[i].Enter + time.Duration(float64(run.Rows)*float64(h.Span.Len())/rate*float64(time.Second))
	}
	return d
}

// short rounds a time for people.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
