package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/internal/backoff"
	"whorl/swarm"
	"whorl/swarm/route"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// part is some sequences of a batch, which go through servers together.
type part struct {
	r     *Remote
	f     *Forwarded
	first int // sequence
	n     int
	row   int // the first of them
	rowsN int
	draw  uint64

	stretches []stretch
	// Of a backward pass, for the whole batch.
	grads, rows, prompts []float32

	refused map[swarm.PeerID]swarm.Code // servers that are not asked again for this part
	shy     []swarm.PeerID              // of those, who computed what is not finite
	since   time.Time                   // of the first failure in a row; zero if the last pass was computed
	tries   int
}

// stretch is what one server computed of a part.
type stretch struct {
	hop swarm.Hop
	in  []float32 // in front of it
}

// errHalve says that no server takes a part, and that halves of it may be taken.
var errHalve = errors.New("too large a part")

// cut divides a batch into parts of at most so many rows, in the order of sequences.
func (r *Remote) cut(f *Forwarded) (parts []*part) {
	row := 0
	for i, n := range f.b.Lengths {
		if k := len(parts); k > 0 && parts[k-1].rowsN+n <= r.opt.Rows && parts[k-1].n < wire.MaxPassSequences {
			parts[k-1].n++
			parts[k-1].rowsN += n
		} else {
			parts = append(parts, &part{r: r, f: f, first: i, n: 1, row: row, rowsN: n, draw: r.e.passDraw(), refused: map[swarm.PeerID]swarm.Code{}})
		}
		row += n
	}
	return parts
}

// passDraw is a number of a part's own, by which parts take different routes.
func (e *Engine) passDraw() uint64 {
	if e.cfg.Draw != nil {
		return 1 + uint64(e.cfg.Draw()*(1<<53))
	}
	return rand.Uint64() | 1
}

// halve makes two parts of one that has several sequences.
func (p *part) halve() (a, b *part) {
	hidden := p.r.e.cfg.Manifest.Hidden
	x, y := *p, *p
	x.n = p.n / 2
	x.rowsN = 0
	for _, n := range p.f.b.Lengths[p.first : p.first+x.n] {
		x.rowsN += n
	}
	y.first, y.n, y.row, y.rowsN = p.first+x.n, p.n-x.n, p.row+x.rowsN, p.rowsN-x.rowsN
	x.stretches, y.stretches = nil, nil
	for _, s := range p.stretches {
		x.stretches = append(x.stretches, stretch{s.hop, s.in[:x.rowsN*hidden]})
		y.stretches = append(y.stretches, stretch{s.hop, s.in[x.rowsN*hidden:]})
	}
	x.refused, y.refused = map[swarm.PeerID]swarm.Code{}, map[swarm.PeerID]swarm.Code{}
	x.shy, y.shy = nil, nil
	return &x, &y
}

func (p *part) hops() (out []swarm.Hop) {
	for _, s := range p.stretches {
		out = append(out, s.hop)
	}
	return out
}

// of is this part's rows of the batch.
func (p *part) of(rows []float32) []float32 {
	hidden := p.r.e.cfg.Manifest.Hidden
	return rows[p.row*hidden : (p.row+p.rowsN)*hidden]
}

// forward computes the part and keeps what each server was given.
func (p *part) forward(ctx context.Context) error {
	p.stretches = nil
	last := p.f.why != forGradients
	rest, out, err := p.through(ctx, p.r.span, p.of(p.f.b.Rows), last)
	if err != nil {
		return err
	}
	p.stretches = rest
	if last {
		copy(p.of(p.f.Outputs), out)
	}
	return nil
}

// keep notes what a server was given and is to be given again on the way back.
func (p *part) keep(done []stretch, hop swarm.Hop, in []float32) ([]stretch, error) {
	if p.f.why == forOutputs {
		return append(done, stretch{hop: hop}), nil
	}
	if ask := p.r.opt.Keep; ask != nil && hop.Span.Start > p.r.span.Start { // the first ones are the batch's
		if err := ask(4 * int64(len(in))); err != nil {
			return nil, err
		}
	}
	return append(done, stretch{hop, in}), nil
}

// through computes rows through blocks, whoever holds them, and says who did. Without last the
// last server is chosen and not asked.
func (p *part) through(ctx context.Context, span swarm.Span, in []float32, last bool) (done []stretch, out []float32, err error) {
	var plan []swarm.Hop
	for at := span.Start; at < span.End; {
		if len(plan) == 0 {
			if plan, err = p.route(ctx, swarm.Span{Start: at, End: span.End}); err != nil {
				return nil, nil, err
			}
			if plan == nil {
				continue // after a while
			}
		}
		hop := plan[0]
		if hop.Span.End == span.End && !last {
			done, err = p.keep(done, hop, in)
			return done, nil, err
		}
		out, err := p.ask(ctx, hop, false, slices.Concat(in, p.tables(hop.Span)))
		if err != nil {
			return nil, nil, err
		}
		if out == nil {
			plan = nil
			continue
		}
		if done, err = p.keep(done, hop, in); err != nil {
			return nil, nil, err
		}
		in, plan, at = out, plan[1:], hop.Span.End
	}
	return done, in, nil
}

// backward computes the gradients of the part. A server that is lost is replaced: what its
// successors need is computed forward again, from what it was given.
func (p *part) backward(ctx context.Context) error {
	grads := slices.Clone(p.of(p.grads))
	for len(p.stretches) > 0 {
		s := p.stretches[len(p.stretches)-1]
		out, err := p.ask(ctx, s.hop, true, slices.Concat(s.in, grads, p.tables(s.hop.Span)))
		if err != nil {
			return err
		}
		p.stretches = p.stretches[:len(p.stretches)-1]
		if out == nil {
			again, _, err := p.through(ctx, s.hop.Span, s.in, false)
			if err == errHalve { // halves go on from here, with the gradients so far
				p.stretches = append(p.stretches, s)
				copy(p.of(p.rows), grads)
				p.grads = p.rows
			}
			if err != nil {
				return err
			}
			p.stretches = append(p.stretches, again...)
			continue
		}
		copy(grads, out)
		p.collect(s.hop.Span, out[len(grads):])
	}
	copy(p.of(p.rows), grads)
	return nil
}

// tables are the prompts of some blocks for this part, as they travel.
func (p *part) tables(span swarm.Span) []float32 {
	b, hidden := &p.f.b, p.r.e.cfg.Manifest.Hidden
	table := b.Prompt * hidden
	first := span.Start - p.r.span.Start
	if b.Shared || table == 0 {
		return b.Prompts[first*table : (first+span.Len())*table]
	}
	var out []float32
	for block := first; block < first+span.Len(); block++ {
		at := (block*len(b.Lengths) + p.first) * table
		out = append(out, b.Prompts[at:at+p.n*table]...)
	}
	return out
}

// collect puts the gradients of prompts of some blocks, [blocks][sequences of this part], where
// they belong.
func (p *part) collect(span swarm.Span, grads []float32) {
	table := p.f.b.Prompt * p.r.e.cfg.Manifest.Hidden
	for i := range span.Len() {
		at := ((span.Start-p.r.span.Start+i)*len(p.f.b.Lengths) + p.first) * table
		copy(p.prompts[at:], grads[i*p.n*table:(i+1)*p.n*table])
	}
}

// ask has one server compute. nil without an error: it did not, and another is to be found.
func (p *part) ask(ctx context.Context, hop swarm.Hop, backward bool, rows []float32) ([]float32, error) {
	e, b := p.r.e, &p.f.b
	ask := &wire.Pass{Backward: backward, Lengths: b.Lengths[p.first : p.first+p.n], Prompt: b.Prompt, Shared: b.Shared && b.Prompt > 0, Length: p.r.opt.Length, Adapter: p.f.adapter}
	e.passes(hop.Peer, 1)
	out, err := e.pass(ctx, hop, ask, rows, p.r.opt.Limit)
	e.passes(hop.Peer, -1)
	failed := new(passFailed)
	switch {
	case err == nil:
		p.since, p.tries = time.Time{}, 0
		e.note(trust.Observation{Peer: hop.Peer, Kind: trust.Served})
		for _, shy := range p.shy { // what it said of the rows was wrong
			e.observe(shy, swarm.Broke, errRows)
		}
		p.shy = nil
		return out, nil
	case !errors.As(err, &failed):
		return nil, err
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	e.cfg.Log.Debug("a pass failed", "peer", hop.Peer, "blocks", hop.Span.String(), "reason", failed.Error())
	switch {
	case failed.what != 0:
		e.observe(hop.Peer, failed.what, failed)
	case failed.code == swarm.CodeBadOutput:
		p.refused[hop.Peer] = failed.code
		if p.shy = append(p.shy, hop.Peer); len(p.shy) > 1 {
			return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "blocks %v make rows that are not finite of these: two servers say so. Smaller rows or gradients may help, such as a lower learning rate", hop.Span)
		}
	default:
		p.refused[hop.Peer] = failed.code
	}
	if p.tries++; p.tries > 1 {
		if err := p.pause(ctx, fmt.Errorf("server %s with blocks %v %w", hop.Peer.Short(), hop.Span, failed)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// longestPause is between two attempts to find servers.
const longestPause = 5 * time.Second

// pause waits before the next attempt; an error says that it was the last.
func (p *part) pause(ctx context.Context, why error) error {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if time.Since(p.since) > p.r.opt.Recover {
		e := *swarm.AsError(why)
		if e.Code == swarm.CodeInternal {
			e = swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere}
		}
		e.Message = fmt.Sprintf("no server computed blocks for %v: %v", p.r.opt.Recover, why)
		return &e
	}
	if wait := min(p.r.e.cfg.Timeouts.Backoff<<min(p.tries, 16), longestPause); !backoff.Wait(ctx, wait) {
		return ctx.Err()
	}
	return nil
}

// route finds servers for blocks; nil without an error: there are none now, and it has waited.
func (p *part) route(ctx context.Context, span swarm.Span) ([]swarm.Hop, error) {
	e := p.r.e
	q, never, err := e.query(ctx, route.Query{Range: span, Most: true, Draw: p.draw}, p.f.adapter)
	if err == nil {
		// Rows come back between servers, and what this client has under way counts.
		q.Around = func(_, _ swarm.PeerID) bool { return true }
		q.Mine = e.passing(q.Mine)
		takes := q.Without(func(id swarm.PeerID) bool {
			s, _ := q.View.Server(id)
			return s.Features&wire.FeaturePasses == 0
		})
		var found route.Chain
		found, err = route.Plan(takes.Without(func(id swarm.PeerID) bool { _, no := p.refused[id]; return no }))
		if err == nil {
			return found.Hops, nil
		}
		err = p.refusals(ofAvoided(ofAdapter(err, p.f.adapter), never), takes, q)
	}
	if err == errHalve || swarm.AsError(err).Verdict == swarm.Caller {
		return nil, err
	}
	p.tries++
	return nil, p.pause(ctx, err)
}

// refusals says why no servers are left, where some refused this part: takes are those that take
// passes, q all.
func (p *part) refusals(err error, takes, q route.Query) error {
	if _, all := route.Plan(takes); all != nil {
		if _, any := route.Plan(q); any == nil {
			return swarm.Errorf(swarm.CodeBlocksMissing, swarm.Elsewhere, "blocks %v of %s are held by servers that take no passes: start one with `whorl serve %s --block-indices %v` in this swarm", q.Range, p.r.e.cfg.Manifest.Name, p.r.e.cfg.Manifest.Name, q.Range)
		}
		return err
	}
	for _, code := range p.refused {
		switch {
		case code != swarm.CodeTooLong:
			continue
		case p.n > 1:
			return errHalve
		}
		return swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "no server of blocks %v takes a sequence of %d rows in a pass: send shorter ones, or start servers with a larger --max-pass-rows or --pass-memory", q.Range, p.rowsN)
	}
	clear(p.refused) // they may have changed their mind
	return err
}

// passes counts those under way at a server.
func (e *Engine) passes(peer swarm.PeerID, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underway[peer] += n; e.underway[peer] == 0 {
		delete(e.underway, peer)
	}
}

// passing adds them to what is counted of sessions.
func (e *Engine) passing(mine func(swarm.PeerID) int) func(swarm.PeerID) int {
	return func(peer swarm.PeerID) (n int) {
		if mine != nil {
			n = mine(peer)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return n + e.underway[peer]
	}
}
