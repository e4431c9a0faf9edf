package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"whorl/client/plan"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Session is a user's generation context: a chain of stages, each holding KV cache for
// it. It survives the loss of stages (reroute.go). One goroutine uses it at a time; ID,
// Status, Route and Close may be called from anywhere.
type Session struct {
	e       *Engine
	id      wire.SessionID
	opt     SessionOptions
	adapter *swarm.Adapter // nil for none
	mode    content.Hash   // of all that alters results: proof.Mode
	opened  time.Time
	wake    chan struct{} // something changed under mu
	timer   *time.Timer
	ctx     context.Context // ends when the session is closed or killed
	kill    context.CancelCauseFunc
	chunk   int // rows per frame
	feed    []float32
	shunned []swarm.PeerID // servers that failed in the present re-route; its goroutine only

	mu       sync.Mutex // guards all below, and the guarded fields of stages
	epoch    uint32
	stages   []*stage
	journals map[int]*journal // inputs of stages, by the first block of the stage
	ids      []int32          // ids whose rows were computed or are on their way
	pending  []int32          // emitted to the user, not yet computed
	beams    parting          // how ids belong to sequences
	stale    bool             // the chain holds rows that ids no longer has
	step     uint64           // advances so far
	sent     int              // rows given to stage 0 on the present route
	want     int              // first position whose output the present advance returns
	got      int              // first such position that has not arrived
	out      []float32
	moved    time.Time // when anything last moved forward
	reroutes int
}

// ID names the session in logs and APIs.
func (s *Session) ID() string { return s.id.String() }

// MaxLength is the session's budget in positions.
func (s *Session) MaxLength() int { return s.opt.MaxLength }

// maxRows bounds the rows of the session's log.
func (s *Session) maxRows() int { return s.opt.MaxLength * s.opt.sequences() }

// Position is the number of ids in the session, emitted ones included.
func (s *Session) Position() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position()
}

func (s *Session) position() int { return s.beams.positions(len(s.ids)) + len(s.pending) }

// IDs are the ids in the session, emitted ones included.
func (s *Session) IDs() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.ids, s.pending)
}

// Route is the present chain.
func (s *Session) Route() []swarm.Hop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.route()
}

func (s *Session) route() []swarm.Hop {
	hops := make([]swarm.Hop, len(s.stages))
	for i, st := range s.stages {
		hops[i] = st.hop
	}
	return hops
}

// Status is the session as an operator sees it.
func (s *Session) Status() swarm.SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return swarm.SessionStatus{
		ID: s.id.String(), Role: "gateway", Model: s.e.cfg.Manifest.Name, Route: s.route(), Epoch: s.epoch,
		Position: s.position(), MaxLength: s.opt.MaxLength, Bytes: s.journalBytes(), Opened: s.opened, Steps: s.step,
	}
}

// Truncate cuts the session back to the given number of ids, at most Position; what comes
// next continues from there.
func (s *Session) Truncate(pos int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.ids) + len(s.pending)
	if pos < 0 || pos > all {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "cannot cut the session to position %d: it has %d", pos, all)
	}
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
	s.beams.cut(pos)
	s.sent = min(s.sent, pos)
	s.stale = true
	for _, j := range s.journals {
		j.cut(pos)
	}
}

// Close ends the session: every stage frees what it holds. It is safe to call twice.
func (s *Session) Close() error {
	s.kill(errClosed)
	s.mu.Lock()
	stages := s.stages
	s.stages, s.journals = nil, nil
	s.mu.Unlock()
	closeAll(stages)
	s.e.forget(s)
	return nil
}

var errClosed = swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "Session is closed and does not exist any more")

// advance appends ids to the session, runs them through the chain and returns the hidden
// rows of the last stage from position want on, [len-want][hidden]. The result is valid
// until the next call. On a cancelled context the session stays usable at its old length.
func (s *Session) advance(ctx context.Context, ids []int32, want int) ([]float32, error) {
	hidden := s.e.cfg.Manifest.Hidden
	s.mu.Lock()
	before := len(s.ids)
	if s.beams.positions(before+len(ids)) > s.opt.MaxLength {
		s.mu.Unlock()
		return nil, errTooLong(before, len(ids), s.opt.MaxLength)
	}
	s.ids = append(s.ids, ids...)
	target := len(s.ids)
	s.want, s.got = want, want
	s.out = slices.Grow(s.out[:0], (target-want)*hidden)[:(target-want)*hidden]
	s.step++
	s.moved = time.Now()
	if len(ids) > 1 && s.beams.width == 0 { // one row or one step of beams is one frame
		s.chunk = s.chunkRows(len(ids))
	}
	s.mu.Unlock()

	err := s.drive(ctx, func() bool { return s.got == target && s.computed(target) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.cut(before)
		return nil, err
	}
	return s.out, nil
}

// computed tells whether the chain is through with the rows before target. Where outputs
// are wanted their arrival says so already.
func (s *Session) computed(target int) bool {
	return s.want < target || len(s.stages) > 0 && s.stages[len(s.stages)-1].position >= target
}

// drive sends what credit allows, waits, and repairs the chain, until finished says so
// (it is called with mu held).
func (s *Session) drive(ctx context.Context, finished func() bool) error {
	stuck := stall{most: -1}
	for {
		if err := s.ended(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		ok, broken := finished(), s.stale || s.broken()
		s.mu.Unlock()
		if ok && !broken {
			return nil
		}
		if broken {
			if err := s.patience(ctx, &stuck); err != nil {
				return err
			}
			if err := s.reroute(ctx); err != nil {
				return err
			}
			continue
		}
		if err := s.pump(); err != nil {
			continue // the stage is marked lost: the next turn repairs
		}
		s.mu.Lock()
		ok = finished()
		s.mu.Unlock()
		if !ok {
			s.wait(ctx)
		}
	}
}

// ended gives the reason why no work may be done any more.
func (s *Session) ended(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
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

// broken tells whether a stage is lost, or none was opened yet.
func (s *Session) broken() bool {
	return len(s.stages) == 0 || slices.ContainsFunc(s.stages, func(st *stage) bool { return st.err != nil })
}

// window is how many chunks may be on their way to stage 0 without its Done: one in work,
// one queued behind it.
const window = 2

// pump sends rows to stage 0 as long as credit allows.
func (s *Session) pump() error {
	hidden := s.e.cfg.Manifest.Hidden
	for {
		s.mu.Lock()
		if len(s.stages) == 0 { // closed meanwhile
			s.mu.Unlock()
			return errClosed
		}
		first := s.stages[0]
		from := s.sent
		to := s.beams.until(from, min(from+s.chunk, len(s.ids)), len(s.ids))
		if from == to || from-first.position >= window*s.chunk || first.err != nil {
			err := first.err
			s.mu.Unlock()
			return err
		}
		ids, want, beams := s.ids[from:to], s.got, s.beams.of(from)
		s.sent = to
		s.mu.Unlock()
		s.feed = slices.Grow(s.feed[:0], len(ids)*hidden)[:len(ids)*hidden]
		if err := s.e.cfg.Head.Embed(s.feed, ids); err != nil {
			return s.fail(first, err)
		}
		if err := first.sendRows(from, want, beams, s.feed); err != nil {
			return s.fail(first, err)
		}
	}
}

// fail marks a stage lost.
func (s *Session) fail(st *stage, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.mark(err)
	return err
}

// notify wakes the session's goroutine.
func (s *Session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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
	rate, stages := s.e.forwardRate(s.route()), max(1, len(s.stages))
	stage := time.Duration(float64(n) / rate * float64(time.Second))
	return s.e.cfg.Chunks.Chunk(n, stages, 4*s.e.cfg.Manifest.Hidden, stage, s.e.cfg.HopCost)
}

// snapshot lists the chain for the planner.
func (s *Session) snapshot() []plan.Stage {
	out := make([]plan.Stage, len(s.stages))
	for i, st := range s.stages {
		out[i].Position = st.position
		if j := s.journals[st.hop.Span.Start]; i > 0 && j != nil {
			out[i].Known = j.known
		}
	}
	return out
}

// String names the session in logs.
func (s *Session) String() string { return fmt.Sprintf("session %.8s", s.id) }
