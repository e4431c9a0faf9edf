package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"whorl/client/audit"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/route"
	"whorl/swarm/trust"
)

// maxAudits bounds the sessions that wait for their audit; their journals are within
// Config.JournalBytes together.
const maxAudits = 32

// AuditCounts say how many stages of sessions were audited, by result, and how many were not
// because others waited already.
type AuditCounts struct {
	Results [audit.NumResults]uint64
	Skipped uint64
	// Differences are the steps of verified sessions that their chains gave different rows for.
	Differences uint64
}

// audits is what an engine knows of audits.
type audits struct {
	more chan struct{} // there is another case

	mu       sync.Mutex // guards all below
	on       bool       // Audit runs
	waiting  []*evidence
	bytes    int64
	proven   []swarm.Hop // whose lies are to be shown to others
	counts   AuditCounts
	disputes audit.Disputes
}

// evidence is what is left of a session for its audit.
type evidence struct {
	uid      swarm.UID
	mode     content.Hash
	opt      SessionOptions
	adapter  *swarm.Adapter
	ids      []int32
	journals []*journal
	outputs  []content.Hash
	cases    []givenRows
	bytes    int64
	urgent   bool          // somebody waits for it, or it must look so
	canary   *proof.Canary // instead of all but uid, mode and opt
}

// givenRows are the rows that one server gave, and how many in front of its span are known.
type givenRows struct {
	peer   swarm.PeerID
	span   swarm.Span
	sender swarm.PeerID
	runs   [][2]int // of rows
	known  int
}

// auditing tells whether sessions leave evidence.
func (e *Engine) auditing() bool {
	e.audits.mu.Lock()
	defer e.audits.mu.Unlock()
	return e.audits.on
}

// Audits counts the audits so far.
func (e *Engine) Audits() AuditCounts {
	e.audits.mu.Lock()
	defer e.audits.mu.Unlock()
	return e.audits.counts
}

// Audit audits sessions that end while it runs, one after the other, until ctx ends, whose
// error it returns. It delays no session.
func (e *Engine) Audit(ctx context.Context) error {
	a := &e.audits
	a.mu.Lock()
	a.on = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.on, a.waiting, a.proven, a.bytes = false, nil, nil, 0
	}()
	for {
		a.mu.Lock()
		var next *evidence
		var liar *swarm.Hop
		switch {
		case len(a.proven) > 0: // others may be asking it
			liar = &a.proven[0]
			a.proven = a.proven[1:]
		case len(a.waiting) > 0:
			next = a.waiting[0]
		}
		a.mu.Unlock()
		if liar != nil {
			e.expose(ctx, *liar)
			continue
		}
		if next == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-a.more:
			}
			continue
		}
		for i := range next.cases {
			e.auditCase(ctx, next, &next.cases[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		a.mu.Lock()
		a.waiting = slices.Delete(a.waiting, 0, 1)
		a.bytes -= next.bytes
		a.mu.Unlock()
	}
}

// bequeath leaves what a session that ends is audited by; mu is held. Searches are not
// audited: their rows belong to several sequences.
func (s *Session) bequeath() {
	if !s.audited {
		return
	}
	now := time.Now()
	ev := s.evidence(func(g *givenRows) bool {
		return g.peer != s.e.cfg.Self && s.e.trust.Audit(g.peer, s.e.cfg.Audits, s.e.draw(), now)
	})
	if ev == nil {
		return
	}
	a := &s.e.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on || len(a.waiting) >= maxAudits || a.bytes+ev.bytes > s.e.cfg.JournalBytes {
		a.counts.Skipped += uint64(len(ev.cases))
		return
	}
	a.waiting = append(a.waiting, ev)
	a.bytes += ev.bytes
	a.poke()
}

// poke tells that there is another case.
func (a *audits) poke() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// evidence is what the servers of a session that are wanted can be audited by; nil if there is
// nothing. Rows that are known stay what they are, so the session may go on meanwhile; mu is held.
func (s *Session) evidence(wanted func(*givenRows) bool) *evidence {
	if s.beams.width > 0 || s.journals == nil {
		return nil
	}
	ev := &evidence{
		uid: s.e.uid, mode: s.mode, opt: s.opt, adapter: s.adapter, ids: slices.Clone(s.ids), journals: make([]*journal, len(s.journals)),
		outputs: slices.Clone(s.outputs),
	}
	for _, g := range s.given() {
		if !wanted(&g) {
			continue
		}
		ev.cases = append(ev.cases, g)
		for _, b := range []int{g.span.Start, g.span.End} {
			if b == 0 || b == len(s.journals) || ev.journals[b] != nil || s.journals[b] == nil {
				continue
			}
			ev.journals[b] = &journal{hidden: s.journals[b].hidden, pages: slices.Clone(s.journals[b].pages)}
			for _, page := range s.journals[b].pages {
				ev.bytes += int64(4 * len(page))
			}
		}
	}
	if len(ev.cases) == 0 {
		return nil
	}
	return ev
}

// given lists by server and span which rows the client knows before and behind it.
func (s *Session) given() []givenRows {
	var out []givenRows
	blocks := s.e.cfg.Manifest.Blocks
	for b := 1; b <= blocks; b++ {
		for _, g := range s.machine.Given(b) {
			known := len(s.ids)
			if g.Span.Start > 0 {
				known = s.machine.Known(g.Span.Start).KnownFrom(0)
			}
			to := min(g.To, known)
			if g.From >= to {
				continue
			}
			i := slices.IndexFunc(out, func(x givenRows) bool { return x.peer == g.Peer && x.span == g.Span && x.sender == g.Sender })
			if i < 0 {
				i = len(out)
				out = append(out, givenRows{peer: g.Peer, span: g.Span, sender: g.Sender, known: known})
			}
			out[i].runs = append(out[i].runs, [2]int{g.From, to})
		}
	}
	return out
}

// keepOutputs names outputs of the last stage from a row on, which no journal has; mu is held.
func (s *Session) keepOutputs(from int, rows []float32) {
	if !s.audited && s.group == nil && !s.opt.Audit {
		return
	}
	hidden := s.e.cfg.Manifest.Hidden
	if n := from + len(rows)/hidden; n > len(s.outputs) {
		s.outputs = append(s.outputs, make([]content.Hash, n-len(s.outputs))...)
	}
	for i := 0; i < len(rows)/hidden; i++ {
		s.outputs[from+i] = proof.HashRow(rows[i*hidden : (i+1)*hidden])
	}
}

// claim is what a server gave, by the hashes of rows.
func (ev *evidence) claim(g *givenRows, hidden int) audit.Claim {
	c := audit.Claim{Peer: g.peer, Span: g.span, Sender: g.sender}
	for _, r := range g.runs {
		c.Out = append(c.Out, make([]content.Hash, max(0, r[1]-len(c.Out)))...)
		if g.span.End == len(ev.journals) {
			copy(c.Out[r[0]:r[1]], ev.outputs[r[0]:r[1]])
			continue
		}
		rows := ev.journals[g.span.End].rows(nil, r[0], r[1])
		for i := r[0]; i < r[1]; i++ {
			c.Out[i] = proof.HashRow(rows[(i-r[0])*hidden : (i-r[0]+1)*hidden])
		}
	}
	return c
}

// draw is a number from [0, 1).
func (e *Engine) draw() float64 {
	if e.cfg.Draw == nil {
		return rand.Float64()
	}
	return e.cfg.Draw()
}

// auditCase audits what one server gave.
func (e *Engine) auditCase(ctx context.Context, ev *evidence, g *givenRows) audit.Verdict {
	if a, avoided := e.trust.Judge(g.peer, e.prefix(g.peer), time.Now()); avoided && a.Never {
		return audit.Verdict{Result: audit.Judged, Liars: []swarm.PeerID{g.peer}} // it was judged meanwhile
	}
	v := audit.Judge(ev.claim(g, e.cfg.Manifest.Hidden), e.cfg.Self, &asker{ctx: ctx, e: e, ev: ev, span: g.span})
	if ctx.Err() != nil {
		return audit.Verdict{} // what was not answered says nothing
	}
	e.audits.mu.Lock()
	e.audits.counts.Results[v.Result]++
	if v.Result == audit.Disputed {
		e.audits.disputes.Add(audit.Link{From: v.Who[0], To: v.Who[1]})
	}
	e.audits.mu.Unlock()
	row := fmt.Sprintf("row %d of blocks %v", v.Row, g.span)
	log := e.cfg.Log.With("peer", g.peer, "blocks", g.span.String())
	switch v.Result {
	case audit.Impossible:
		log.Debug("a session could not be audited: nobody else computed its rows")
	case audit.Agreed:
		log.Debug("an audit found the rows of a session right")
		e.note(trust.Observation{Peer: g.peer, Kind: trust.Agreed})
		for _, p := range v.By {
			if e.suspected(p) { // of two the audit shows one not to be the one that lies
				e.note(trust.Observation{Peer: p, Kind: trust.Agreed})
			}
		}
	case audit.Judged:
		log.Warn("an audit found rows that differ, and others agree against who gave them", "row", v.Row, "liars", v.Liars, "by", v.By)
		for _, p := range v.Liars {
			e.proved(swarm.Hop{Peer: p, Span: g.span}, row+" are others at "+short(v.By))
		}
	case audit.Suspected:
		kept := e.suspect(v, row)
		log.Warn("an audit found rows that differ, and nobody is left to judge: what these blocks compute is not verified", "row", v.Row, "suspects", v.Who, "asked where nobody else holds them", kept)
	case audit.Disputed:
		log.Warn("an audit found rows that differ, of a server that computes them right when asked directly: it or its sender is to blame, and routes keep them apart", "row", v.Row, "sender", g.sender)
	}
	return v
}

// suspect notes those that gave different rows which nobody could judge. One of them may be all that
// holds a block: the side that is the best known is asked where nobody else does.
func (e *Engine) suspect(v audit.Verdict, row string) (kept []swarm.PeerID) {
	now := time.Now()
	worst := func(side []swarm.PeerID) swarm.PeerID {
		return slices.MaxFunc(side, func(p, q swarm.PeerID) int {
			if p == q {
				return 0
			}
			if e.trust.Better(p, q, now) {
				return -1
			}
			return 1
		})
	}
	for _, side := range v.Sides {
		if kept == nil || e.trust.Better(worst(side), worst(kept), now) {
			kept = side
		}
	}
	for _, p := range v.Who {
		kind := trust.Wrong
		if slices.Contains(kept, p) {
			kind = trust.Doubted
		}
		e.note(trust.Observation{Peer: p, Kind: kind, Detail: row + ", " + short(v.Who)})
	}
	return kept
}

// suspected tells whether a peer's rows differ from others', and nobody has judged yet.
func (e *Engine) suspected(p swarm.PeerID) bool {
	a, ok := e.trust.Judge(p, e.prefix(p), time.Now())
	return ok && (a.Kind == trust.Wrong || a.Kind == trust.Doubted)
}

// short lists peers for people.
func short(peers []swarm.PeerID) string {
	text := ""
	for i, p := range peers {
		if i > 0 {
			text += ", "
		}
		text += p.Short()
	}
	return text
}

// asker has servers compute the rows in front of a span again.
type asker struct {
	ctx  context.Context
	e    *Engine
	ev   *evidence
	span swarm.Span
}

// Others is this node itself if it holds the span, else one of those that do, else a chain; from
// networks of which nobody was asked yet, if there are such.
func (a *asker) Others(without []swarm.PeerID) []swarm.Hop {
	view, err := a.e.cfg.Directory.View(a.ctx, a.ev.uid)
	if err != nil {
		return nil
	}
	left, avoid, _ := a.e.trusted(holding(view, a.ev.adapter))
	left.Servers = slices.DeleteFunc(left.Servers, func(r swarm.Record) bool {
		_, failed := avoid[r.Peer]
		return failed || slices.Contains(without, r.Peer)
	})
	near := func(p swarm.PeerID) bool { // to somebody who was asked already
		at := a.e.prefix(p)
		return at != "" && slices.ContainsFunc(without, func(w swarm.PeerID) bool { return a.e.prefix(w) == at })
	}
	var holders, far []swarm.PeerID
	take := func(r swarm.Record) {
		if r.State == swarm.Online && r.Span.Contains(a.span) {
			holders = append(holders, r.Peer)
			if !near(r.Peer) {
				far = append(far, r.Peer)
			}
		}
	}
	for _, r := range left.Servers {
		take(r)
	}
	if len(holders) == 0 { // those that nobody has judged yet: a third that came meanwhile is judged with them
		for _, r := range view.Servers {
			if a.e.suspected(r.Peer) && !slices.Contains(without, r.Peer) {
				take(r)
			}
		}
	}
	if slices.Contains(holders, a.e.cfg.Self) {
		return []swarm.Hop{{Peer: a.e.cfg.Self, Span: a.span}}
	}
	if len(far) > 0 {
		holders = far
	}
	if len(holders) > 0 {
		return []swarm.Hop{{Peer: holders[int(a.e.draw()*float64(len(holders)))], Span: a.span}}
	}
	if left.Manifest.Blocks == 0 {
		left.Manifest = a.e.cfg.Manifest
	}
	q := route.Query{View: left, Range: a.span, Tokens: a.ev.opt.MaxLength, RTT: a.e.cfg.RTT, Params: a.e.cfg.Routing}
	for _, q := range []route.Query{q.Without(near), q} {
		if found, err := route.Plan(q); err == nil {
			return found.Hops
		}
	}
	return nil
}

// Network is where a peer's address lies.
func (a *asker) Network(p swarm.PeerID) string { return a.e.prefix(p) }

// Replay feeds a chain the rows that went into the span.
func (a *asker) Replay(hops []swarm.Hop, rows int) ([]content.Hash, error) {
	return a.e.replay(a.ctx, a.ev, hops, rows)
}

var _ audit.Asker = (*asker)(nil)
