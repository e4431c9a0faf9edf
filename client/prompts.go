package client

import (
	"errors"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// Prompts are trained rows that a session begins with. To everything but the blocks they are not
// there: ids, positions and lengths of a session do not count them.
type Prompts struct {
	Tokens int
	// Shallow is [Tokens][hidden]: rows in front of the first id.
	Shallow []float32
	// Deep is [blocks][Tokens][hidden], added to those rows in front of each block; nil for none.
	Deep []float32
	// rowless are the blocks of Deep where there are no rows in front of the first id: those that
	// the user gives are what is added to. Empty elsewhere.
	rowless swarm.Span
}

// rows is how many positions prompts take.
func (p *Prompts) rows() int {
	if p == nil || p.rowless.Len() > 0 {
		return 0
	}
	return p.Tokens
}

// validate checks prompts for a model.
func (p *Prompts) validate(m *swarm.Manifest) error {
	if p == nil {
		return nil
	}
	bad := swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts of %d rows with %d values, and %d in front of blocks: they are not for %s, of %d blocks and %d columns",
		p.Tokens, len(p.Shallow), len(p.Deep), m.Name, m.Blocks, m.Hidden)
	switch {
	case p.Tokens < 1 || p.Tokens > wire.MaxPrompt || len(p.Shallow) != p.Tokens*m.Hidden:
		return bad
	case p.Deep != nil && len(p.Deep) != m.Blocks*p.Tokens*m.Hidden:
		return bad
	case !codec.Finite(p.Shallow) || !codec.Finite(p.Deep):
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "prompts with values that are not finite")
	}
	return nil
}

// of are the deep prompts of some blocks.
func (p *Prompts) of(span swarm.Span) []float32 {
	table, first := len(p.Shallow), 0
	if n := p.rowless.Len(); n > 0 {
		table, first = len(p.Deep)/n, p.rowless.Start
	}
	return p.Deep[(span.Start-first)*table : (span.End-first)*table]
}

// named are the deep prompts as stages are told of them; nil for none.
func (p *Prompts) named(blocks int) *wire.Prompts {
	if p == nil || p.Deep == nil {
		return nil
	}
	w := &wire.Prompts{Rows: p.Tokens, Blocks: make([]content.Hash, blocks)}
	span := swarm.Span{Start: 0, End: blocks}
	if p.rowless.Len() > 0 {
		span = p.rowless // others are in front of no block of the session
	}
	for b := span.Start; b < span.End; b++ {
		w.Blocks[b] = wire.HashPrompts(p.of(swarm.Span{Start: b, End: b + 1}))
	}
	return w
}

// Rows of prompts stand among a session's ids as numbers below 0: -1 is the first.
func virtual(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(-1 - i)
	}
	return ids
}

// embed writes the rows of ids as the first block takes them; those below 0 are of prompts.
func (e *Engine) embed(dst []float32, ids []int32, p *Prompts) error {
	hidden, at := e.cfg.Manifest.Hidden, 0
	for at < len(ids) && ids[at] < 0 {
		i := int(-1 - ids[at])
		copy(dst[at*hidden:(at+1)*hidden], p.Shallow[i*hidden:])
		at++
	}
	if err := e.cfg.Head.Embed(dst[at*hidden:], ids[at:]); err != nil || e.cfg.Residual != tensor.ResidualBF16 {
		return err
	}
	codec.Round(dst)
	if !codec.Finite(dst) {
		return errors.New("an embedding is beyond what bfloat16 holds: this model needs sessions with f32 rows")
	}
	return nil
}

// lead is how many rows of prompts the session's ids begin with; mu is held.
func (s *Session) lead() int { return min(s.opt.Prompts.rows(), len(s.ids)) }

// sendPrompts sends a stage the prompts of its blocks, if the session has any.
func (s *Session) sendPrompts(st *stage) error {
	if s.prompts == nil {
		return nil
	}
	return chunks(s.prompts, s.opt.Prompts.of(st.hop.Span), st.hop.Span.Len(), s.e.cfg.Manifest.Hidden, func(frame []byte) error {
		st.buf = append(st.buf[:0], frame...)
		return st.write()
	})
}

// chunks gives the frames of prompts for a stage of so many blocks.
func chunks(p *wire.Prompts, values []float32, blocks, hidden int, write func([]byte) error) error {
	var buf []byte
	return p.Sent(blocks).Each(wire.ChunkRows(4*hidden), func(h wire.ChunkHeader, at int) error {
		h.Codec = codec.F32
		v := values[at*hidden:][:int(h.Count)*hidden]
		buf = wire.BeginChunk(buf[:0], &h, codec.Size(h.Codec, len(v)))
		buf = codec.Append(buf, h.Codec, v)
		return write(buf)
	})
}

// fit adds to the servers that a session does not want those that take no prompts, if it has some.
func (s *Session) fit(without func(swarm.PeerID) bool) func(swarm.PeerID) bool {
	if s.prompts == nil {
		return without
	}
	return func(p swarm.PeerID) bool {
		if without != nil && without(p) {
			return true
		}
		r, ok := s.e.lastView().Server(p)
		return ok && r.Features&wire.FeaturePrompts == 0
	}
}

// prompted keeps the servers that take prompts in front of blocks, where a session has some.
func prompted(v swarm.View, p *Prompts) swarm.View {
	if p == nil || p.Deep == nil {
		return v
	}
	left := v
	left.Servers = nil
	for _, r := range v.Servers {
		if r.Features&wire.FeaturePrompts != 0 {
			left.Servers = append(left.Servers, r)
		}
	}
	return left
}
