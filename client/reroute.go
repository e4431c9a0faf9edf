package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/client/plan"
	"whorl/swarm"
	"whorl/swarm/route"
	"whorl/swarm/wire"
)

// reroute makes the chain whole again: it replaces lost stages, tells every stage its new
// place, and replays what the new ones lack. It is also how a session gets its first
// chain and how a cut (Truncate, a cancelled step) reaches the stages. It tries until it
// succeeds, the caller's context ends, or Timeouts.Recover passes; for a first chain
// Timeouts.First, unless the last attempt found out about another server that fails.
func (s *Session) reroute(ctx context.Context) error {
	begin, first := time.Now(), s.epoch == 0
	s.shunned = s.shunned[:0]
	back := map[*stage]bool{} // went back further than planned since the last other failure
	for attempt, lost := 0, 0; ; attempt++ {
		shunned := len(s.shunned)
		n, err := s.dropLost()
		if err != nil {
			return err
		}
		lost += n
		var next []*stage
		if next, err = s.replace(ctx); err == nil {
			err = s.install(ctx, next)
		}
		if err == nil {
			s.mu.Lock()
			s.reroutes += min(lost, 1)
			s.mu.Unlock()
			return nil
		}
		patience := s.e.cfg.Timeouts.Recover
		if first && len(s.shunned) == shunned {
			patience = s.e.cfg.Timeouts.First
		}
		if final := s.givenUp(ctx, begin.Add(patience), err); final != nil {
			return final
		}
		if s.wentBack(err, back) {
			continue
		}
		clear(back)
		s.e.cfg.Log.Info("session re-routes again", "session", s.String(), "attempt", attempt+1, "reason", err)
		s.pause(ctx, min(s.e.cfg.Timeouts.Backoff<<min(attempt, 5), 2*time.Second))
	}
}

// shun has the engine avoid a server that failed.
func (s *Session) shun(p swarm.PeerID, err error) {
	if !slices.Contains(s.shunned, p) {
		s.shunned = append(s.shunned, p)
	}
	s.e.failed(p, swarm.AsError(err))
}

// givenUp decides whether an error of a re-route ends the session's call.
func (s *Session) givenUp(ctx context.Context, limit time.Time, err error) error {
	if end := s.ended(ctx); end != nil {
		if swarm.CodeOf(end) == swarm.CodeTimeout && swarm.CodeOf(err) == swarm.CodeBlocksMissing {
			return err // says more than that time is over
		}
		return end
	}
	if swarm.AsError(err).Verdict == swarm.Caller || time.Now().After(limit) {
		return err
	}
	return nil
}

// pause waits before the next attempt, unless the call or the session ends.
func (s *Session) pause(ctx context.Context, d time.Duration) {
	s.timer.Reset(d)
	defer s.timer.Stop()
	select {
	case <-s.timer.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}

// dropLost bans and forgets the stages that were lost, and returns how many. An error
// that is the caller's fault is returned: no other server would take the request either.
func (s *Session) dropLost() (int, error) {
	s.mu.Lock()
	var lost, kept []*stage
	for _, st := range s.stages {
		if st.err != nil {
			lost = append(lost, st)
		} else {
			kept = append(kept, st)
		}
	}
	if len(lost) > 0 {
		s.stages, s.stale = kept, true
	}
	s.mu.Unlock()
	var refused error
	for _, st := range lost {
		st.stream.Reset()
		e := swarm.AsError(st.err)
		if e.Verdict == swarm.Caller {
			refused = st.err
			continue
		}
		s.shun(st.hop.Peer, e)
		s.e.cfg.Log.Warn("stage lost", "session", s.String(), "peer", st.hop.Peer, "blocks", st.hop.Span.String(), "reason", st.err)
	}
	if refused != nil {
		return 0, refused
	}
	return len(lost), nil
}

// replace plans servers for the blocks no living stage holds, opens control streams to
// them, and returns the whole chain in order. Nothing is installed yet.
func (s *Session) replace(ctx context.Context) ([]*stage, error) {
	s.mu.Lock()
	kept := slices.Clone(s.stages)
	s.mu.Unlock()
	var chain, fresh []*stage
	at, prev := 0, swarm.PeerID("")
	all := s.e.cfg.Manifest.Blocks
	fill := func(end int, next swarm.PeerID) error {
		if at == end {
			return nil
		}
		hops, err := s.e.plan(ctx, route.Query{
			Range: swarm.Span{Start: at, End: end}, From: prev, To: next,
			Tokens: s.opt.MaxLength, Sequences: s.opt.Beams, Digests: s.digests(kept),
		}, s.adapter)
		if err != nil {
			return err
		}
		for _, h := range hops {
			st, err := s.dial(ctx, h)
			if err != nil {
				s.shun(h.Peer, err)
				return err
			}
			fresh, chain = append(fresh, st), append(chain, st)
		}
		return nil
	}
	for _, st := range kept {
		if err := fill(st.hop.Span.Start, st.hop.Peer); err != nil {
			closeAll(fresh)
			return nil, err
		}
		chain = append(chain, st)
		at, prev = st.hop.Span.End, st.hop.Peer
	}
	if err := fill(all, ""); err != nil {
		closeAll(fresh)
		return nil, err
	}
	for _, st := range fresh {
		go st.listen()
	}
	return chain, nil
}

func closeAll(stages []*stage) {
	for _, st := range stages {
		st.stream.Reset()
	}
}

// digests are those of the blocks the kept stages hold: whoever joins must agree.
func (s *Session) digests(kept []*stage) map[int]string {
	out := map[int]string{}
	view := s.e.lastView()
	for _, st := range kept {
		if r, ok := view.Server(st.hop.Peer); ok {
			for b := st.hop.Span.Start; b < st.hop.Span.End; b++ {
				if d := r.Digest(b); d != "" {
					out[b] = d
				}
			}
		}
	}
	return out
}

// install gives every stage its place in a new epoch and replays into the new ones.
func (s *Session) install(ctx context.Context, chain []*stage) error {
	s.mu.Lock()
	if s.ctx.Err() != nil { // closed meanwhile: Close did not see the new streams
		s.mu.Unlock()
		closeAll(chain)
		return context.Cause(s.ctx)
	}
	old, moves, routes := s.nextEpoch(chain)
	s.mu.Unlock()

	if err := s.place(ctx, chain, old, routes); err != nil {
		return err
	}
	s.mu.Lock()
	var short rolledBack
	for i, st := range chain {
		if st.position < moves[i].Truncate {
			short = append(short, st)
		}
	}
	if len(short) > 0 {
		s.mu.Unlock()
		return short
	}
	s.stale = false
	s.mu.Unlock()
	for i := len(chain) - 1; i > 0; i-- {
		if err := s.replay(ctx, chain[i], moves[i].Feed); err != nil {
			s.mu.Lock()
			s.stale = true
			s.mu.Unlock()
			return err
		}
	}
	return nil
}

// nextEpoch makes a chain the present one and plans how it gets ready. old are the stages
// that were there before. mu is held.
func (s *Session) nextEpoch(chain []*stage) (old map[*stage]bool, moves []plan.Move, routes []wire.Route) {
	old = map[*stage]bool{}
	for _, st := range s.stages {
		old[st] = true
	}
	s.epoch++
	s.stages = chain
	target := s.sent
	for i, st := range chain {
		st.index, st.epoch = i, s.epoch
		if !old[st] {
			st.position = 0
		}
		if i > 0 && s.journals[st.hop.Span.Start] == nil {
			s.journals[st.hop.Span.Start] = &journal{hidden: s.e.cfg.Manifest.Hidden}
		}
	}
	s.dropJournals(chain)
	moves = plan.Recover(s.snapshot(), target, min(s.got, target))
	routes = make([]wire.Route, len(chain))
	for i, st := range chain {
		routes[i] = s.routeOf(i, moves[i])
		st.position = moves[i].Truncate
		for len(st.status) > 0 {
			<-st.status
		}
	}
	s.sent = moves[0].Truncate
	s.moved = time.Now()
	return old, moves, routes
}

// dropJournals forgets borders that the chain no longer has.
func (s *Session) dropJournals(chain []*stage) {
	for b := range s.journals {
		if !slices.ContainsFunc(chain, func(st *stage) bool { return st.hop.Span.Start == b }) {
			delete(s.journals, b)
		}
	}
}

// routeOf is the place of stage i in the present epoch.
func (s *Session) routeOf(i int, m plan.Move) wire.Route {
	r := wire.Route{Epoch: s.epoch, Truncate: m.Truncate, Skip: m.Skip, Journal: -1}
	if i > 0 {
		r.Prev = s.stages[i-1].hop.Peer
	}
	if i+1 < len(s.stages) {
		next := s.stages[i+1].hop
		r.Next = next.Peer
		r.NextRecord, _ = s.e.cfg.Directory.Signed(next.Peer)
		if s.e.cfg.JournalBytes > 0 {
			r.Journal = s.journals[next.Span.Start].known.KnownFrom(0)
		}
	}
	return r
}

// place opens the new stages and re-routes the old ones, all at once: reserve, then
// commit. One refusal releases all new ones.
func (s *Session) place(ctx context.Context, chain []*stage, old map[*stage]bool, routes []wire.Route) error {
	g, gctx := errgroup.WithContext(ctx)
	for i, st := range chain {
		g.Go(func() error {
			if old[st] {
				return s.ask(gctx, st, wire.TypeRoute, routes[i], s.e.cfg.Timeouts.Open)
			}
			open := s.opening()
			open.Span, open.Route = st.hop.Span, routes[i]
			return s.ask(gctx, st, wire.TypeOpen, open, s.e.cfg.Timeouts.Open+s.opt.Wait)
		})
	}
	if err := g.Wait(); err != nil {
		s.release(chain, old, err)
		return err
	}
	// All are committed, also where one cannot be: the others stay on the chain, and nobody
	// would commit them later.
	var failed error
	for _, st := range chain {
		if old[st] {
			continue
		}
		st.buf = wire.AppendFrame(st.buf[:0], wire.TypeCommit)
		if err := st.write(); err != nil {
			failed = s.fail(st, err)
		}
	}
	return failed
}

// opening is what all stages are asked for; span and route are each one's own.
func (s *Session) opening() wire.Open {
	return wire.Open{
		Version: wire.Version, Features: wire.Features, Session: s.id, UID: s.e.uid, Mode: s.mode, MaxLength: s.opt.MaxLength, Sequences: s.opt.Beams,
		Activations: s.opt.Activations.String(), WaitMillis: int(s.opt.Wait.Milliseconds()), Adapter: s.adapter,
	}
}

// release drops the stages that were opened for a chain that did not come about. Those
// that refused are banned for as long as the reason says; the others are blameless.
func (s *Session) release(chain []*stage, old map[*stage]bool, cause error) {
	s.mu.Lock()
	var kept, fresh []*stage
	var errs []error // of fresh
	for _, st := range chain {
		if old[st] {
			kept = append(kept, st)
		} else {
			fresh, errs = append(fresh, st), append(errs, st.err)
		}
	}
	s.stages, s.stale = kept, true
	s.mu.Unlock()
	closeAll(fresh)
	for i, st := range fresh {
		if err := errs[i]; err != nil && !errors.Is(err, context.Canceled) {
			s.shun(st.hop.Peer, err)
		}
	}
	s.e.cfg.Log.Info("route refused", "session", s.String(), "reason", cause)
}

// ask sends one control frame and waits for the stage's status of this epoch.
func (s *Session) ask(ctx context.Context, st *stage, t wire.Type, v any, limit time.Duration) error {
	if err := st.send(t, v); err != nil {
		return s.fail(st, err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case got := <-st.status:
			if got.Epoch == st.epoch {
				s.mu.Lock()
				st.position = min(st.position, got.Position)
				s.mu.Unlock()
				return nil
			}
		case <-timer.C:
			return s.fail(st, swarm.Errorf(swarm.CodeTimeout, swarm.Elsewhere, "server %s with blocks %v did not answer within %v", st.hop.Peer.Short(), st.hop.Span, limit))
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-st.dead:
			s.mu.Lock()
			defer s.mu.Unlock()
			return st.err
		}
	}
}

// replay feeds a stage rows the client knows and waits until it has computed them.
func (s *Session) replay(ctx context.Context, st *stage, feed plan.Range) error {
	var beams wire.Beams
	for sent := feed.From; ; {
		s.mu.Lock()
		position, j, broken, want := st.position, s.journals[st.hop.Span.Start], s.broken(), s.got
		to := s.beams.until(sent, min(sent+s.chunk, feed.To), feed.To)
		room := sent-position < window*s.chunk
		if sent < feed.To && room && !broken { // a closed session has no journals
			s.feed = j.rows(s.feed[:0], sent, to)
			beams = s.beams.of(sent)
		}
		s.mu.Unlock()
		switch {
		case broken:
			return fmt.Errorf("the chain broke while blocks %v were replayed", st.hop.Span)
		case position >= feed.To:
			return nil
		case sent < feed.To && room:
			if err := st.sendRows(sent, want, beams, s.feed); err != nil {
				return s.fail(st, err)
			}
			sent = to
			continue
		}
		if err := s.ended(ctx); err != nil {
			return err
		}
		s.wait(ctx)
	}
}
