package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"whorl/client/chain"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Session is a user's generation context: a chain of stages, each holding KV cache for
// it. What it does when is decided by its machine (package chain); run.go carries that out.
// It survives the loss of stages. One goroutine uses it at a time; ID, Status, Route and
// Close may be called from anywhere.
type Session struct {
	e               *Engine
	id              wire.SessionID
	opt             SessionOptions
	adapter         *swarm.Adapter // nil for none
	prompts         *wire.Prompts  // in front of blocks, as stages are told of them; nil for none
	span            swarm.Span     // the blocks that it goes through
	mode            content.Hash   // of all that alters results: proof.Mode
	nonce           content.Hash   // of its receipts; zero if none are asked for
	opened          time.Time
	improved, moved time.Time     // when a better chain was last looked for, and taken; the session's goroutine only
	audited         bool          // it may be, once it has ended
	wake            chan struct{} // there is something to do
	timer           *time.Timer
	over            chan struct{} // closed when the session is closed or killed
	feed            []float32
	tasks           sync.WaitGroup // dials of the present call
	aside           sync.WaitGroup // dials that no call waits for
	group           *group         // of whose chains it is one; nil for none
	first           []chain.Hop    // the chain that was planned for it with others; guarded by group.planning
	chains          *group         // that compute for it, which has none of its own; nil for none

	mu       sync.Mutex // guards all below, and the guarded fields of stages
	why      error      // the session is over; nil while it lives
	machine  *chain.Machine
	todo     []chain.Action
	done     bool  // the present call is over
	err      error // and how
	stages   map[int]*stage
	journals []*journal // inputs of stages, by the first block of the stage
	ids      []int32    // ids whose rows were computed or are on their way; of a session of rows only their number counts
	inputs   *journal   // rows that the user gives in place of ids (OpenRows); nil for none
	pending  []int32    // emitted to the user, not yet computed
	beams    parting    // how ids belong to sequences
	step     uint64     // advances so far
	receipts []StageReceipt
	want     int // the outputs from this row on are in out
	out      []float32
	outputs  []content.Hash // of the last stage, by row; zero for those that were not wanted
}

// ID names the session in logs and APIs.
func (s *Session) ID() string { return s.id.String() }

// MaxLength is the session's budget in positions.
func (s *Session) MaxLength() int { return s.opt.MaxLength - s.opt.Prompts.rows() }

// maxRows bounds the rows of the session's log.
func (s *Session) maxRows() int { return s.opt.MaxLength * s.opt.sequences() }

// Position is the number of ids in the session, emitted ones included.
func (s *Session) Position() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position() - s.lead()
}

// position counts rows of prompts too; mu is held.
func (s *Session) position() int { return s.beams.positions(len(s.ids)) + len(s.pending) }

// IDs are the ids in the session, emitted ones included.
func (s *Session) IDs() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.ids[s.lead():], s.pending)
}

// Route is the present chain.
func (s *Session) Route() []swarm.Hop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.route()
}

func (s *Session) route() []swarm.Hop {
	if s.chains != nil {
		return s.chains.route()
	}
	alive := s.machine.Alive()
	hops := make([]swarm.Hop, len(alive))
	for i, h := range alive {
		hops[i] = h.Hop
	}
	return hops
}

// Status is the session as an operator sees it.
func (s *Session) Status() swarm.SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := swarm.SessionStatus{
		ID: s.id.String(), Role: "gateway", Model: s.e.cfg.Manifest.Name, Route: s.route(), Epoch: s.machine.Epoch(),
		Position: s.position(), MaxLength: s.opt.MaxLength, Bytes: int64(s.machine.Pages()) * s.e.pageBytes(), Opened: s.opened, Steps: s.step,
	}
	if s.chains != nil {
		st.Epoch, st.Bytes = s.chains.sums()
		return st
	}
	for _, h := range s.machine.Alive() {
		if took := s.machine.Pace(h.Stage); took > 0 {
			st.Stages = append(st.Stages, swarm.StageTime{Peer: h.Peer, Span: h.Span, Step: swarm.Millis(took)})
		}
	}
	return st
}

// Truncate cuts the session back to the given number of ids, at most Position; what comes
// next continues from there.
func (s *Session) Truncate(pos int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.ids) + len(s.pending) - s.lead()
	if pos < 0 || pos > all {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "cannot cut the session to position %d: it has %d", pos, all)
	}
	pos += s.lead()
	if pos >= len(s.ids) {
		s.pending = s.pending[:pos-len(s.ids)]
		return nil
	}
	s.pending = nil
	s.cut(pos)
	return nil
}

// cut forgets computed rows from pos on; the chain learns of it before the next rows.
func (s *Session) cut(pos int) {
	s.ids = s.ids[:pos]
	s.inputs.cut(pos)
	s.beams.cut(pos)
	if s.chains != nil {
		s.chains.cut(pos)
		return
	}
	s.take(chain.Event{Kind: chain.Cut, To: pos}, nil)
}

// Close ends the session: every stage frees what it holds. It is safe to call twice.
func (s *Session) Close() error {
	s.end(errClosed)
	s.mu.Lock()
	stages := s.stages
	s.bequeath()
	s.stages, s.journals, s.todo = nil, nil, nil
	s.mu.Unlock()
	for _, st := range stages {
		st.close()
	}
	s.aside.Wait()
	if s.chains != nil {
		s.chains.close()
	}
	s.e.forget(s)
	return nil
}

// end has every call of the session fail from now on.
func (s *Session) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.why = why
		close(s.over)
	}
	if s.chains != nil {
		s.chains.end(why)
	}
}

var errClosed = swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "Session is closed and does not exist any more")

// advance appends ids to the session, runs them through the chain and returns the hidden
// rows of the last stage for all but the first skip of them, [len-skip][hidden]. Rows of prompts
// go before the first id. The result is valid until the next call. On a cancelled context the session stays usable at its old length.
func (s *Session) advance(ctx context.Context, ids []int32, skip int) ([]float32, error) {
	hidden := s.e.cfg.Manifest.Hidden
	if len(ids) == 1 { // rows of a prompt are better not held up
		s.improve(ctx)
	}
	s.mu.Lock()
	before := len(s.ids)
	if n := s.opt.Prompts.rows(); n > 0 && before == 0 && s.group == nil { // chains of a group are given them
		ids, skip = append(virtual(n), ids...), skip+n
	}
	want := before + skip
	if s.beams.positions(before+len(ids)) > s.opt.MaxLength {
		s.mu.Unlock()
		return nil, errTooLong(before, len(ids), s.opt.MaxLength) // rows of prompts count here
	}
	s.ids = append(s.ids, ids...)
	target := len(s.ids)
	s.want = want
	s.out = slices.Grow(s.out[:0], (target-want)*hidden)[:(target-want)*hidden]
	s.step++
	chunk := s.e.largestChunk() // one row or one step of beams is one frame
	if len(ids) > 1 && s.beams.width == 0 {
		chunk = s.chunkRows(len(ids))
	}
	var err error
	if s.chains != nil {
		s.mu.Unlock()
		err = s.chains.advance(ctx, before, want)
		s.mu.Lock()
	} else {
		err = s.drive(ctx, chain.Event{Kind: chain.Advance, From: want, To: target, Chunk: chunk})
	}
	defer s.mu.Unlock()
	if err != nil {
		s.cut(before)
		return nil, err
	}
	return s.out, nil
}

func errTooLong(prefix, n, limit int) error {
	return swarm.Errorf(swarm.CodeTooLong, swarm.Caller,
		"Maximum length exceeded: prefix %d + current %d exceeds pre-allocated maximum %d", prefix, n, limit)
}

// chunkRows chooses the rows per frame for n new rows.
func (s *Session) chunkRows(n int) int {
	if s.opt.PrefillChunk > 0 {
		return min(s.opt.PrefillChunk, s.e.largestChunk())
	}
	hops := s.route()
	rate, stages := s.e.forwardRate(hops), max(1, len(hops))
	stage := time.Duration(float64(n) / rate * float64(time.Second))
	return s.e.cfg.Chunks.Chunk(n, stages, 4*s.e.cfg.Manifest.Hidden, stage, s.e.cfg.HopCost)
}

// String names the session in logs.
func (s *Session) String() string { return fmt.Sprintf("session %.8s", s.id) }
