package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"whorl/content"
	"whorl/server/admission"
	"whorl/server/kvcache"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// phase is how far a session has come.
type phase uint8

const (
	opening   phase = iota // waits for cache
	leased                 // accepted, not committed
	committed              // runs
	ended                  // everything is freed; its client may still be told why
)

// session is this server's part in somebody's session: one stage. Fields after the first
// group are guarded by Server.mu.
type session struct {
	srv       *Server
	home      *container
	key       sched.Session
	id        wire.SessionID
	client    swarm.PeerID
	span      swarm.Span
	mode      tensor.Mode
	codec     uint8        // of its rows, by the mode
	packs     bool         // its client reads packed rows
	modeHash  content.Hash // of all that alters results: proof.Mode
	adapter   int          // -1 for none
	ledger    *ledger      // for receipts; nil if none were asked for
	prompts   *prompts     // in front of blocks; nil for none
	maxLength int          // positions of each sequence
	sequences int
	hands     bool // its client can be told to go elsewhere
	tells     bool // its client reads loads
	// Nobody waits for its results.
	background bool
	opened     time.Time
	control    wire.Stream
	out        *outbox
	tasks      sync.WaitGroup // writers; the reader of the control stream waits for them

	phase   phase
	wait    time.Duration // for cache, as asked
	expires time.Time     // without a Commit; once leased
	pages   []int32       // nil unless leased or committed
	view    tensor.KVView
	route   wire.Route
	unroute context.CancelFunc // ends what belongs to the present epoch
	push    *pusher            // nil for the last stage
	pushed  context.CancelFunc // ends the push stream that is being read; nil if none

	length int // rows computed: the KV cache holds them
	branch branch
	tables *kvcache.Tables // nil until the sequences part
	next   int             // the next row to arrive
	comes  branch          // where the sequences stand after the rows that came last
	step   uint64          // of the last rows computed
	frames []*frame        // rows to compute, in order
	queued [numSources]int
	run    *frame // in the present iteration
	room   broadcast
	active time.Time
	served time.Time // when the first row after its prompt or replay was computed
	steps  uint64
	stride stride
	failed swarm.Code // last failure reported and not made good since
}

// source is where rows came from.
type source uint8

const (
	fromClient source = iota
	fromPrev
	numSources
)

// frame is rows that wait to be computed.
type frame struct {
	id    uint64
	src   source
	step  uint64
	start int
	count int
	done  int // rows already computed
	want  int
	beams wire.Beams
	came  time.Time
	rows  []float32 // [count][hidden]
}

// stride is a mean of how long the last steps of a session waited and were computed.
type stride struct{ queue, compute time.Duration }

// strideSteps is how many steps the mean is about.
const strideSteps = 8

func (p *stride) add(queue, compute time.Duration) {
	if *p == (stride{}) {
		*p = stride{queue, compute}
		return
	}
	p.queue += (queue - p.queue) / strideSteps
	p.compute += (compute - p.compute) / strideSteps
}

// stages is what the operator is told of it; nil before the first step.
func (p *stride) stages(self swarm.PeerID, span swarm.Span) []swarm.StageTime {
	if *p == (stride{}) {
		return nil
	}
	queue := swarm.Millis(p.queue)
	return []swarm.StageTime{{Peer: self, Span: span, Step: swarm.Millis(p.queue + p.compute), Queue: &queue}}
}

func (f *frame) bytes() int { return 4 * cap(f.rows) }

// free recycles a frame. Whoever has read it does so, unless it was queued; then the session
// does, or the iteration that it is in.
func (f *frame) free(s *Server) { s.frames.put(f, f.bytes()) }

// class tells whether somebody waits for a token of the frame, or it is part of a prompt or
// of a replay.
func (f *frame) class() sched.Class {
	if f.count == 1 || f.beams.N > 0 {
		return sched.Decode
	}
	return sched.Prefill
}

// readyLocked tells whether the session may take part in iterations.
func (x *session) readyLocked() bool {
	limit := x.srv.cfg.Queues.Out
	return x.phase == committed && x.out.resultBytes < limit && (x.push == nil || !x.push.failed && x.push.bytes < limit) &&
		(x.srv.outputs < x.srv.cfg.Queues.OutTotal || x.out.resultBytes == 0 && (x.push == nil || x.push.bytes == 0))
}

// outputLocked counts bytes of outputs that wait for a peer, or no longer do.
func (s *Server) outputLocked(n int) {
	full := s.outputs >= s.cfg.Queues.OutTotal
	s.outputs += n
	if full && s.outputs < s.cfg.Queues.OutTotal {
		for _, y := range s.byKey {
			y.settleLocked()
		}
	}
}

// settleLocked tells the queue whether the session is ready.
func (x *session) settleLocked() {
	ready := x.readyLocked()
	x.home.queue.Ready(x.key, ready)
	if ready && len(x.frames) > 0 {
		poke(x.home.work)
	}
}

// fullLocked tells whether a source must wait before it adds a frame.
func (x *session) fullLocked(src source) bool {
	q := &x.srv.cfg.Queues
	return x.queued[src] >= q.In || x.queued[src] > 0 && x.srv.queued >= q.InTotal
}

// countLocked notes bytes of frames that came from a source or left the queue.
func (x *session) countLocked(src source, n int) {
	s := x.srv
	full := s.queued >= s.cfg.Queues.InTotal
	x.queued[src] += n
	s.queued += n
	if full && s.queued < s.cfg.Queues.InTotal {
		for _, y := range s.byKey {
			y.room.wake()
		}
	}
}

// clearLocked drops the rows that wait, and what an iteration in flight makes of others; mu is
// held. The next row must follow those computed.
func (x *session) clearLocked() {
	x.home.queue.Clear(x.key)
	for _, f := range x.frames {
		if f != x.run {
			f.free(x.srv)
		}
	}
	clear(x.frames)
	x.frames = x.frames[:0]
	for src, n := range x.queued {
		x.countLocked(source(src), -n)
	}
	x.next, x.comes = x.length, x.branch
	x.room.wake()
}

// rerouteLocked begins a new epoch. The caller has checked r. Rows in flight belong
// to the old epoch: when their iteration ends they are thrown away, so what they write to
// the cache beyond length is overwritten by the rows that follow.
func (x *session) rerouteLocked(ctx context.Context, r wire.Route) {
	x.leaveLocked()
	x.route = r
	x.rollBackLocked(r.Truncate)
	x.failed = ""
	x.clearLocked()
	x.out.rerouteLocked(r, x.length)
	x.enterLocked(ctx)
	x.settleLocked()
	x.out.reportLocked(false)
	x.srv.changed.wake()
}

// enterLocked starts what belongs to the epoch of x.route, and returns the context that ends
// with it. Only the reader of the control stream calls it.
func (x *session) enterLocked(ctx context.Context) context.Context {
	ctx, x.unroute = context.WithCancel(ctx)
	x.push = nil
	if x.route.Next != "" && !x.route.Around {
		p := newPusher(x)
		x.push = p
		x.tasks.Go(func() { p.run(ctx) })
	}
	return ctx
}

// leaveLocked ends what belongs to the epoch.
func (x *session) leaveLocked() {
	x.unroute()
	if x.pushed != nil {
		x.pushed()
		x.pushed = nil
	}
}

// failLocked reports an error to the client; the session goes on. The same failure
// is not repeated until rows were accepted again: a sender that has not heard of it yet
// may have many frames on the way.
func (x *session) failLocked(err *swarm.Error) {
	if x.phase == ended || x.failed == err.Code {
		return
	}
	x.failed = err.Code
	x.srv.metrics.failures.WithLabelValues(string(err.Code)).Inc()
	x.out.failLocked(wire.NewFail(x.route.Epoch, err))
}

// finishLocked ends the session and tells the client why. Everything is freed at
// once, only the stream lives on until the client has read the reason.
func (x *session) finishLocked(err *swarm.Error) {
	if x.phase == ended {
		return
	}
	x.out.failLocked(wire.NewFail(x.route.Epoch, err))
	x.srv.metrics.failures.WithLabelValues(string(err.Code)).Inc()
	x.srv.log.Info("session ended", "session", x.id.String(), "client", x.client, "code", err.Code, "reason", err.Message)
	x.endLocked()
	x.out.closeLocked()
}

// leavingLocked has the client told that the session must be gone by a time. One that only waits
// for cache is refused at once.
func (x *session) leavingLocked(by time.Time) {
	switch x.phase {
	case opening:
		x.finishLocked(errDraining(x.srv.deps.Self))
	case leased, committed:
		x.out.leavingLocked(by)
	}
}

// endLocked frees everything. Pages that an iteration writes to are freed when it
// is over.
func (x *session) endLocked() {
	if x.phase == ended {
		return
	}
	x.phase = ended
	x.leaveLocked()
	x.clearLocked()
	x.out.dropLocked()
	s := x.srv
	x.home.queue.Close(x.key)
	delete(s.byKey, x.key)
	x.home.count--
	list := slices.DeleteFunc(s.byID[x.id], func(y *session) bool { return y == x })
	if s.byID[x.id] = list; len(list) == 0 {
		delete(s.byID, x.id)
	}
	if x.run == nil {
		x.releaseLocked()
	}
	if x.ledger != nil {
		s.notary.addLocked(note{what: noteDrop, x: x})
	}
	s.changed.wake()
	poke(s.publish)
}

// releaseLocked gives pages and place back.
func (x *session) releaseLocked() {
	s := x.srv
	x.home.cache.Put(x.pages)
	x.pages, x.tables, x.view = nil, nil, tensor.KVView{}
	x.prompts.give()
	x.home.admits.Leave(admission.ID(x.key))
	poke(s.freed)
}

// sweep looks after sessions that nothing else would notice.
func (s *Server) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchLocked(now)
	t := &s.cfg.Timeouts
	for _, c := range s.containersLocked() {
		if c.training != nil && !c.leaves.IsZero() && now.After(c.leaves) {
			c.training.cancel(errDraining(s.deps.Self))
		}
	}
	for _, x := range s.byKey {
		switch {
		case !x.home.leaves.IsZero() && now.After(x.home.leaves):
			x.finishLocked(errDraining(s.deps.Self))
		case x.phase == leased && now.After(x.expires):
			x.finishLocked(swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the session was not committed in time and its cache was freed"))
		case x.phase == committed && t.Idle > 0 && now.Sub(x.active) > t.Idle:
			x.finishLocked(swarm.Errorf(swarm.CodeNoSession, swarm.Replay, "the session was idle for %v and was closed", t.Idle))
		case x.phase == committed && t.Session > 0 && !x.served.IsZero() && now.Sub(x.served) > t.Session:
			x.finishLocked(swarm.Errorf(swarm.CodeNoSession, swarm.Replay, "the session was open for %v and was closed", t.Session))
		default:
			x.out.hurryLocked(now, t.Write)
			if x.push != nil {
				x.push.hurryLocked(now, t.Write)
			}
		}
	}
	for id, at := range s.killed {
		if now.Sub(at) > killedFor {
			delete(s.killed, id)
		}
	}
	s.placeLocked(now)
}

// killedFor is how long a session that the operator ended is not taken again.
const killedFor = time.Minute

func errDraining(self swarm.PeerID) *swarm.Error {
	return swarm.Errorf(swarm.CodeDraining, swarm.Elsewhere, "server %s is draining", self.Short())
}
