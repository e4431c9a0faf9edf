package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/route"
	"whorl/swarm/wire"
)

// take hands an event to the machine; mu is held. Rows are those of the event, from e.From
// on: what the machine accepts of them is copied at once, all else is left to drive.
func (s *Session) take(e chain.Event, rows []float32) {
	if s.why != nil {
		return
	}
	hidden := s.e.cfg.Manifest.Hidden
	for _, a := range s.machine.Step(e, time.Now()) {
		switch a.Kind {
		case chain.Take:
			taken := rows[(a.From-e.From)*hidden : (a.To-e.From)*hidden]
			copy(s.out[(a.From-s.want)*hidden:], taken)
			s.keepOutputs(a.From, taken)
		case chain.Keep:
			if s.journals[a.Block] == nil {
				s.journals[a.Block] = &journal{hidden: hidden}
			}
			s.journals[a.Block].put(a.From, rows[(a.From-e.From)*hidden:(a.To-e.From)*hidden])
		case chain.Finish:
			s.done, s.err = true, a.Err
			s.notify()
		default:
			s.todo = append(s.todo, a)
			s.notify()
		}
	}
}

// notify wakes the session's goroutine.
func (s *Session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drive runs a call that begins with an event: it carries out what the machine wants done,
// and waits, until the call is over. mu is held when it is called and when it returns.
func (s *Session) drive(ctx context.Context, begin chain.Event) error {
	s.done, s.err = false, nil
	s.take(begin, nil)
	for i, left := 0, false; ; {
		switch {
		case s.why != nil:
			for _, st := range s.stages {
				st.end() // nobody waits for a dial that nobody wants
			}
			s.mu.Unlock()
			s.tasks.Wait()
			s.mu.Lock()
			return s.why
		case i < len(s.todo):
			a := s.todo[i]
			i++
			st, failed := s.stages[a.Stage], s.done && s.err != nil
			s.mu.Unlock()
			e := s.do(ctx, &a, st, failed)
			s.mu.Lock()
			if e.Kind != 0 {
				s.take(e, nil)
			}
			continue
		case s.done:
			s.todo = s.todo[:0]
			s.mu.Unlock()
			s.tasks.Wait()
			s.mu.Lock()
			return s.err
		}
		s.todo, i = s.todo[:0], 0
		next := s.machine.Next()
		s.mu.Unlock()
		if !left && s.wait(ctx, next) != nil {
			left = true
		}
		s.mu.Lock()
		switch now := time.Now(); {
		case left && !s.done:
			s.take(chain.Event{Kind: chain.Gone, Err: s.ended(ctx)}, nil)
		case !next.IsZero() && !now.Before(next):
			s.take(chain.Event{Kind: chain.Tick}, nil)
		}
	}
}

// wait sleeps until there is something to do, the time has come, or the caller leaves.
func (s *Session) wait(ctx context.Context, next time.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var timer <-chan time.Time
	if !next.IsZero() {
		left := time.Until(next)
		if left <= 0 {
			return nil
		}
		s.timer.Reset(left)
		defer s.timer.Stop()
		timer = s.timer.C
	}
	select {
	case <-s.wake:
	case <-timer:
	case <-s.over:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// ended gives the reason why no work may be done any more.
func (s *Session) ended(ctx context.Context) error {
	select {
	case <-s.over:
		return s.why // written before over was closed, and never again
	default:
	}
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the deadline of the request passed: %w", context.Cause(ctx))
	default:
		return swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "cancelled: %w", context.Cause(ctx))
	}
}

// do carries out one action and returns what came of it, if that is known at once. When the
// call has failed only what ends things is done.
func (s *Session) do(ctx context.Context, a *chain.Action, st *stage, failed bool) chain.Event {
	log := s.e.cfg.Log
	switch a.Kind {
	case chain.Forget:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.why == nil {
			s.journals[a.Block].cut(a.From)
		}
		return chain.Event{}
	case chain.Drop:
		if st != nil {
			s.mu.Lock()
			delete(s.stages, a.Stage)
			s.mu.Unlock()
			st.close()
		}
		return chain.Event{}
	case chain.Observe:
		log.Warn("stage lost", "session", s.String(), "peer", a.Peer, "observed", a.What.String(), "reason", a.Err)
		s.e.observe(a.Peer, a.What, a.Err)
		return chain.Event{}
	case chain.Detour:
		log.Warn("rows between two servers go through this client", "session", s.String(), "from", a.Peer, "to", a.Next, "reason", a.Err)
		s.e.detour(a.Peer, a.Next)
		return chain.Event{}
	case chain.Report:
		log.Info("session re-routes again", "session", s.String(), "attempt", a.From, "reason", a.Err)
		return chain.Event{}
	}
	if failed {
		return chain.Event{}
	}
	switch a.Kind {
	case chain.Plan:
		return s.plan(ctx, a.Whole)
	case chain.Relieve:
		return s.relieve(ctx, a)
	case chain.Dial:
		s.dial(ctx, a)
		return chain.Event{}
	case chain.Compare:
		return chain.Event{Kind: chain.Compared, Stage: a.Stage, OK: st != nil && s.better(ctx, st, a.Took)}
	}
	if st == nil { // lost meanwhile
		return chain.Event{}
	}
	return s.tell(a, st)
}

// tell writes a frame to a stage.
func (s *Session) tell(a *chain.Action, st *stage) chain.Event {
	var err error
	switch a.Kind {
	case chain.Open:
		st.epoch = a.Place.Epoch
		open := s.opening()
		open.Span, open.Route = st.hop.Span, s.place(a.Place)
		err = st.send(wire.TypeOpen, open)
	case chain.Route:
		st.epoch = a.Place.Epoch
		err = st.send(wire.TypeRoute, s.place(a.Place))
	case chain.Commit:
		if err = s.sendPrompts(st); err == nil {
			err = st.bare(wire.TypeCommit)
		}
	case chain.Ask:
		err = st.bare(wire.TypeAsk)
	case chain.Send:
		var embedded error
		if embedded, err = s.send(st, a); embedded != nil {
			return chain.Event{Kind: chain.Gone, Err: embedded} // the head is ours: no server is to blame
		}
	}
	if err != nil {
		return st.lost(err)
	}
	return chain.Event{}
}

// opening is what all stages are asked for; span and route are each one's own.
func (s *Session) opening() wire.Open {
	return wire.Open{
		Version: wire.Version, Features: wire.Features, Session: s.id, UID: s.e.uid, Mode: s.mode, MaxLength: s.opt.MaxLength, Sequences: s.opt.Beams,
		Activations: s.opt.Activations.String(), Residual: s.e.residual(), WaitMillis: int(s.opt.Wait.Milliseconds()), Adapter: s.adapter, Receipts: s.nonce, Prompts: s.prompts,
	}
}

// place is a stage's place as the stage is told.
func (s *Session) place(p chain.Place) wire.Route {
	r := wire.Route{Around: p.Around, Epoch: p.Epoch, Truncate: p.Truncate, Prev: p.Prev, Next: p.Next, Resume: p.Resume, Skip: p.Skip, Journal: p.Journal}
	if p.Next != "" {
		r.NextRecord, _ = s.e.cfg.Directory.Signed(p.Next)
		r.Packed = s.e.packs(p.Next)
	}
	return r
}

// send sends a stage rows of its input: of the first one made from the ids, of others as
// the journal has them.
func (s *Session) send(st *stage, a *chain.Action) (embedded, sent error) {
	hidden := s.e.cfg.Manifest.Hidden
	s.mu.Lock()
	if s.why != nil { // a closed session has no journals
		s.mu.Unlock()
		return nil, nil
	}
	beams := s.beams.of(a.From)
	var ids []int32
	switch {
	case st.hop.Span.Start > s.span.Start:
		s.feed = s.journals[st.hop.Span.Start].rows(s.feed[:0], a.From, a.To)
	case s.inputs != nil:
		s.feed = s.inputs.rows(s.feed[:0], a.From, a.To)
	default:
		ids = s.ids[a.From:a.To]
	}
	s.mu.Unlock()
	if ids != nil {
		s.feed = slices.Grow(s.feed[:0], len(ids)*hidden)[:len(ids)*hidden]
		if err := s.e.embed(s.feed, ids, s.opt.Prompts); err != nil {
			return err, nil
		}
	}
	return nil, st.sendRows(a.From, a.Want, beams, s.feed)
}

// plan finds servers for the blocks that no living stage holds, or for all, and makes the
// whole chain.
func (s *Session) plan(ctx context.Context, whole bool) chain.Event {
	var kept []chain.Hop
	if !whole {
		s.mu.Lock()
		kept = s.machine.Alive()
		s.mu.Unlock()
	}
	var hops []chain.Hop
	var err error
	if s.group != nil {
		hops, err = s.group.plan(ctx, s, kept, whole)
	} else {
		hops, err = s.around(ctx, kept, onChain(kept))
	}
	switch {
	case err == nil:
		return chain.Event{Kind: chain.Planned, Hops: hops}
	case ctx.Err() != nil:
		return chain.Event{Kind: chain.Gone, Err: s.ended(ctx)}
	case errors.Is(err, errReshape):
		return chain.Event{Kind: chain.Gone, Err: err}
	}
	return chain.Event{Kind: chain.Unplanned, Err: err}
}

// onChain tells whether a server is on a chain already: it has one place.
func onChain(kept []chain.Hop) func(swarm.PeerID) bool {
	return func(p swarm.PeerID) bool {
		return slices.ContainsFunc(kept, func(h chain.Hop) bool { return h.Peer == p })
	}
}

// others finds servers for some blocks beside a chain; hold keeps them from other chains of the
// same group.
func (s *Session) others(ctx context.Context, q route.Query, kept []chain.Hop, hold bool) ([]chain.Hop, error) {
	if s.group != nil {
		return s.group.others(ctx, s, q, kept, hold)
	}
	return s.e.plan(ctx, q, s.adapter, s.fit(onChain(kept)))
}

// around makes a whole chain around the stages that are kept, of servers that are not without.
func (s *Session) around(ctx context.Context, kept []chain.Hop, without func(swarm.PeerID) bool) ([]chain.Hop, error) {
	s.mu.Lock()
	prompt := max(s.opt.Prompt, len(s.ids)) // what new servers must be given
	s.mu.Unlock()
	var hops []chain.Hop
	at, prev := s.span.Start, swarm.PeerID("")
	fill := func(end int, next swarm.PeerID) error {
		if at == end {
			return nil
		}
		more, err := s.e.plan(ctx, route.Query{
			Range: swarm.Span{Start: at, End: end}, From: prev, To: next,
			Tokens: s.opt.MaxLength, Prompt: prompt, Sequences: s.opt.Beams, Draw: s.draw(),
		}, s.adapter, s.fit(without))
		hops = append(hops, more...)
		return err
	}
	for _, h := range append(slices.Clip(kept), chain.Hop{Hop: swarm.Hop{Span: swarm.Span{Start: s.span.End}}}) {
		if err := fill(h.Span.Start, h.Peer); err != nil {
			return nil, err
		}
		if h.Peer != "" {
			hops = append(hops, h)
			at, prev = h.Span.End, h.Peer
		}
	}
	return hops, nil
}

// relieve finds servers that can take the place of stages which hold blocks a.From to a.To.
func (s *Session) relieve(ctx context.Context, a *chain.Action) chain.Event {
	s.mu.Lock()
	kept := s.machine.Alive()
	s.mu.Unlock()
	q := route.Query{Range: swarm.Span{Start: a.From, End: a.To}, Tokens: s.opt.MaxLength, Sequences: s.opt.Beams}
	for _, h := range kept {
		if h.Span.End == a.From {
			q.From = h.Peer
		}
		if h.Span.Start == a.To {
			q.To = h.Peer
		}
	}
	hops, err := s.others(ctx, q, kept, true)
	if err == nil && slices.ContainsFunc(hops, func(h chain.Hop) bool { return s.e.avoided(h.Peer) }) {
		hops = nil
	}
	return chain.Event{Kind: chain.Relieved, Hops: hops}
}

// better tells whether others would compute a late stage's blocks in half the time that it
// takes, as far as they say.
func (s *Session) better(ctx context.Context, late *stage, took time.Duration) bool {
	s.mu.Lock()
	kept := s.machine.Alive()
	s.mu.Unlock()
	q := route.Query{Range: late.hop.Span, Tokens: s.opt.MaxLength, Sequences: s.opt.Beams}
	hops, err := s.others(ctx, q, kept, false)
	if err != nil {
		return false
	}
	var row time.Duration
	for _, h := range hops {
		if s.e.avoided(h.Peer) {
			return false
		}
		row += h.Decode
	}
	return row < took/2
}
