package server

import (
	"fmt"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// prompts are those of a session: named by its Open, sent before its Commit.
type prompts struct {
	ask    *wire.Prompts
	engine prompter

	// Of the reader of the control stream.
	sent   *wire.Sections
	values []float32

	loaded *blocks.Prompts // nil until all have come; guarded by Server.mu
	bytes  int64           // that are taken from pool
	pool   *budget.Pool
	who    budget.Who
}

// promptsOf checks the prompts that a session asks for, and reserves memory for them: nil if it has
// none. give must be called when the session is over, or not taken.
func (s *Server) promptsOf(o *wire.Open, who budget.Who) (*prompts, error) {
	if o.Prompts == nil {
		return nil, nil
	}
	self := s.deps.Self.Short()
	if err := o.Prompts.Validate(s.cfg.Manifest.Blocks, o.MaxLength); err != nil {
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "%w", err)
	}
	s.mu.Lock()
	e, ok := s.engine.(prompter)
	s.mu.Unlock()
	if !ok || s.cfg.Passes.Off {
		return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "server %s takes no sessions with prompts in front of blocks", self)
	}
	p := &prompts{ask: o.Prompts, engine: e, sent: o.Prompts.Sent(o.Span.Len()), pool: s.passing.Load().rows, who: who}
	p.bytes = 4 * int64(o.Prompts.Rows) * int64(o.Span.Len()) * int64(s.cfg.Manifest.Hidden)
	if err := p.pool.Take(p.bytes, who); err != nil {
		return nil, err
	}
	return p, nil
}

// give frees the memory.
func (p *prompts) give() {
	if p != nil && p.bytes > 0 {
		p.pool.Give(p.bytes, p.who)
		p.bytes, p.loaded = 0, nil
	}
}

// takePrompts takes rows of prompts in. An error breaks the protocol.
func (x *session) takePrompts(b []byte) error {
	s, p := x.srv, x.prompts
	s.mu.Lock()
	phase := x.phase
	s.mu.Unlock()
	switch {
	case phase == ended:
		return nil
	case p == nil || phase != leased || p.sent.Done():
		return fmt.Errorf("%w: prompts that the session did not ask for, or not at their time", wire.ErrFrame)
	}
	h, data, err := wire.ParseChunk(b)
	if err != nil {
		return err
	}
	if err := p.sent.Take(&h); err != nil {
		return err
	}
	n := int(h.Count) * s.cfg.Manifest.Hidden
	have := len(p.values)
	if p.values, err = codec.Decode(p.values, h.Codec, data, n); err != nil || h.Codec != codec.F32 || !codec.Finite(p.values[have:]) {
		return fmt.Errorf("%w: prompts that are not %d finite values of codec %d", wire.ErrFrame, n, codec.F32)
	}
	if !p.sent.Done() {
		return nil
	}
	table := len(p.values) / x.span.Len()
	for i := range x.span.Len() {
		if got := wire.HashPrompts(p.values[i*table : (i+1)*table]); got != p.ask.Blocks[x.span.Start+i] {
			return fmt.Errorf("%w: the prompts of block %d are not those that the session names", wire.ErrFrame, x.span.Start+i)
		}
	}
	loaded, err := p.engine.LoadPrompts(p.values, x.span.Start, x.span.End, p.ask.Rows)
	if err != nil {
		s.log.Error("no room for prompts", "rows", p.ask.Rows, "reason", err)
		return swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to load the session's prompts", s.deps.Self.Short())
	}
	p.values = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.phase != ended {
		p.loaded = loaded
	}
	return nil
}

// lacksPrompts tells whether a session must be sent prompts yet; mu is held.
func (x *session) lacksPrompts() bool { return x.prompts != nil && x.prompts.loaded == nil }
