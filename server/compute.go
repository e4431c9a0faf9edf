package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"whorl/server/admission"
	"whorl/server/blocks"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// job is one session's rows in an iteration, with what was true when it began.
type job struct {
	x       *session
	f       *frame
	at      int // first row in the batch
	rows    int
	first   int             // row of the session's log
	views   []tensor.KVView // of the sequence; of each row's, if the session has several
	route   wire.Route
	push    *pusher
	prompts *blocks.Prompts

	copies  bool // pages are copied for it first
	torn    bool // and were not, or not all
	bad     bool // the outputs are not finite
	out     *packet
	journal []*packet
}

// computer is the compute loop's own memory; nobody else touches it.
type computer struct {
	s       *Server
	home    *container
	engine  Engine
	free    chan *rowset // that are read no more
	hidden  int
	jobs    []job
	copies  pageCopies
	batch   tensor.Batch
	use     []int             // the adapter of each sequence of the batch
	prompts []*blocks.Prompts // likewise; nil entries for none
	*rowset                   // of this iteration; nil: the notary has it
	sets    int               // rowsets that there are
	noted   bool              // the notary is to read this one
	cost    time.Duration     // of one row in this iteration
	began   time.Time         // when this iteration did
	placed  time.Time         // when cache was last placed between iterations
	over    bool              // the container was left for a failure
	inside  bool              // the device is taken from passes
	faults  int               // iterations in a row that failed
}

// placeEvery bounds how often those that wait for cache are looked at between iterations.
const placeEvery = 20 * time.Millisecond

func (s *Server) newComputer(home *container) *computer {
	c := &computer{s: s, home: home, engine: home.engine, hidden: s.cfg.Manifest.Hidden, free: make(chan *rowset, maxRowsets)}
	c.rowset = c.spareRowset()
	return c
}

// spareRowset is a set that nobody reads. It waits for the notary if all are taken.
func (c *computer) spareRowset() *rowset {
	select {
	case set := <-c.free:
		return set
	default:
	}
	if c.sets == maxRowsets {
		return <-c.free
	}
	c.sets++
	n := c.s.cfg.StepRows * c.hidden
	return &rowset{free: c.free, in: make([]float32, n), out: make([]float32, n)}
}

// run computes iterations until ctx ends.
func (c *computer) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer c.leave(0, false)
	for ctx.Err() == nil {
		c.trimmed()
		worked, wait := c.step()
		if c.over {
			return
		}
		if worked {
			continue
		}
		if wait == 0 {
			if c.try() {
				continue
			}
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-c.home.work:
		case <-timer.C:
		}
	}
}

// enter takes the device before an iteration, if the one before did not keep it for this one.
func (c *computer) enter() {
	if c.inside {
		c.s.turns.next()
		return
	}
	c.s.turns.begin()
	c.inside = true
}

// leave gives it back: nothing is ready, and when something is expected.
func (c *computer) leave(soon time.Duration, expected bool) {
	if c.inside {
		c.s.turns.end(soon, expected)
		c.inside = false
	}
}

// step runs one iteration; false if there was nothing to do, or nothing yet: then wait says
// how long others are worth waiting for.
func (c *computer) step() (worked bool, wait time.Duration) {
	s := c.s
	s.mu.Lock()
	if c.over = c.home.broken != nil; c.over {
		s.mu.Unlock()
		return false, 0
	}
	grants, wait := c.home.queue.Next(s.clock(), s.cfg.StepRows)
	waited := c.home.queue.Waited()
	c.beginLocked(grants)
	start, rows := time.Now(), 0
	for i := range c.jobs {
		rows += c.jobs[i].rows
	}
	if rows > 0 {
		c.home.since, c.home.rows = start, rows
	}
	soon, expected := c.home.queue.Soon(s.clock())
	s.mu.Unlock()
	if len(c.jobs) == 0 {
		if wait == 0 {
			c.leave(soon, expected)
		}
		return false, wait
	}
	c.gather()
	x := c.jobs[0].x
	prefill := c.prefill()
	c.enter()
	start = time.Now()
	c.began = start
	err := c.guarded(x)
	took := time.Since(start)
	spent := took
	c.cost = took / time.Duration(max(1, rows))
	s.metrics.iteration(took, waited, rows, prefill, len(c.jobs))
	if err != nil {
		took = 0 // it says nothing of the next
		s.log.Error("step failed", "blocks", x.span.String(), "rows", rows, "reason", err)
	} else {
		c.encode()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.home.since = time.Time{}
	s.batch.add(len(c.jobs), rows, prefill, waited)
	c.home.queue.Computed(s.clock(), took)
	now := time.Now()
	for i := range c.jobs {
		c.deliverLocked(&c.jobs[i], err, now)
		c.jobs[i] = job{journal: c.jobs[i].journal[:0], views: c.jobs[i].views[:0]}
	}
	if c.noted {
		s.notary.addLocked(note{what: noteFree, set: c.rowset})
		c.rowset, c.noted = nil, false
	}
	s.busy.add(now, spent)
	if err == nil && c.home == s.container {
		s.figures.add(took, rows, x.span.Len())
	}
	c.judgeLocked(err)
	if now.Sub(c.placed) >= placeEvery && c.home.admits.Waiting() > 0 {
		// Nothing is in an iteration just now: whoever is in all of them can be parked.
		c.placed = now
		s.placeLocked(now)
	}
	return true, 0
}

// prefill counts the rows of prompts and replays.
func (c *computer) prefill() (rows int) {
	for i := range c.jobs {
		if j := &c.jobs[i]; j.f.class() == sched.Prefill {
			rows += j.rows
		}
	}
	return rows
}

// compute runs the batch; x is any session of it.
func (c *computer) compute(x *session) error {
	if len(c.copies.dst) > 0 {
		if err := c.engine.CopyPages(c.copies.dst, c.copies.src); err != nil {
			for i := range c.jobs {
				c.jobs[i].torn = c.jobs[i].copies
			}
			return fmt.Errorf("copy %d pages of cache: %w", len(c.copies.dst), err)
		}
	}
	n := len(c.batch.Rows) * c.hidden
	if slices.ContainsFunc(c.prompts, func(p *blocks.Prompts) bool { return p != nil }) {
		return c.engine.(prompter).StepPrompted(&c.batch, c.adapters(), c.prompts, x.span.Start, x.span.End, x.mode, c.in[:n], c.out[:n])
	}
	return c.engine.Step(&c.batch, c.adapters(), x.span.Start, x.span.End, x.mode, c.in[:n], c.out[:n])
}

// beginLocked turns grants into jobs.
func (c *computer) beginLocked(grants []sched.Grant) {
	c.jobs = c.jobs[:0]
	c.copies.dst, c.copies.src = c.copies.dst[:0], c.copies.src[:0]
	at := 0
	for _, g := range grants {
		x := c.s.byKey[g.Session]
		f := x.frames[0] // grants are from the front
		x.run = f
		j := c.spare()
		if j.prompts = nil; x.prompts != nil {
			j.prompts = x.prompts.loaded
		}
		j.x, j.f, j.at, j.rows, j.first, j.route, j.push = x, f, at, g.Rows, f.start+f.done, x.route, x.push
		if f.beams.N > 0 {
			before := len(c.copies.dst)
			j.views = x.partLocked(f, g.Rows, j.views, &c.copies)
			j.copies = len(c.copies.dst) > before
		} else {
			j.views = append(j.views, x.view)
		}
		c.jobs = append(c.jobs, j)
		at += g.Rows
	}
}

// spare is an empty job with the memory of one of an earlier iteration.
func (c *computer) spare() job {
	if n := len(c.jobs); n < cap(c.jobs) {
		return c.jobs[:n+1][n]
	}
	return job{}
}

// gather builds the batch. Frames in work are not touched by others, so it needs no lock.
func (c *computer) gather() {
	if c.rowset == nil {
		c.rowset = c.spareRowset()
	}
	c.batch.Rows, c.batch.Seqs, c.use, c.prompts = c.batch.Rows[:0], c.batch.Seqs[:0], c.use[:0], c.prompts[:0]
	for i := range c.jobs {
		j := &c.jobs[i]
		from := j.f.done * c.hidden
		copy(c.in[j.at*c.hidden:], j.f.rows[from:from+j.rows*c.hidden])
		seq, pos := int32(len(c.batch.Seqs)), j.f.beams.Position(j.first)
		for r := range j.rows {
			if j.f.beams.N > 0 {
				c.batch.Rows = append(c.batch.Rows, tensor.Row{Seq: seq + int32(r), Pos: int32(pos)})
			} else {
				c.batch.Rows = append(c.batch.Rows, tensor.Row{Seq: seq, Pos: int32(pos + r)})
			}
		}
		c.batch.Seqs = append(c.batch.Seqs, j.views...)
		for range j.views {
			c.use = append(c.use, j.x.adapter)
			c.prompts = append(c.prompts, j.prompts)
		}
	}
}

// adapters is what Step is told of them: nil where no session has one.
func (c *computer) adapters() []int {
	for _, a := range c.use {
		if a >= 0 {
			return c.use
		}
	}
	return nil
}

// encode makes the frames that carry the outputs.
func (c *computer) encode() {
	for i := range c.jobs {
		j := &c.jobs[i]
		if j.bad = !codec.Finite(c.rows(j, j.first)); j.bad {
			continue
		}
		if j.route.Next == "" {
			if from := max(j.first, j.f.want); from < j.first+j.rows {
				j.out = c.packet(j, wire.TypeRows, wayClient, from, j.first+j.rows)
			}
			continue
		}
		t, way := wire.TypeRows, wayNext
		if j.route.Around {
			t, way = wire.TypeJournal, wayClient
		}
		if from := max(j.first, j.route.Skip); from < j.first+j.rows {
			j.out = c.packet(j, t, way, from, j.first+j.rows)
		}
		if j.route.Journal < 0 || j.route.Around {
			continue
		}
		piece := max(1, journalPiece/codec.Size(j.x.codec, c.hidden))
		for from := max(j.first, j.route.Journal); from < j.first+j.rows; from += piece {
			j.journal = append(j.journal, c.packet(j, wire.TypeJournal, wayJournal, from, min(from+piece, j.first+j.rows)))
		}
	}
}

// rows are the outputs of a job from a position on.
func (c *computer) rows(j *job, from int) []float32 {
	return c.out[(j.at+from-j.first)*c.hidden : (j.at+j.rows)*c.hidden]
}

func (c *computer) packet(j *job, t wire.Type, way string, from, to int) *packet {
	h := wire.RowsHeader{
		Session: j.x.id, Epoch: j.route.Epoch, Step: j.f.step,
		Start: uint32(from), Count: uint32(to - from), Want: uint32(j.f.want), Beams: j.f.beams,
	}
	packs := j.x.packs
	if way == wayNext {
		packs = j.route.Packed
	}
	p := c.s.rowsPacket(t, h, j.x.codec, packs, c.rows(j, from)[:(to-from)*c.hidden])
	c.s.metrics.sent(way, to-from, len(p.buf))
	return p
}

// deliverLocked ends a job: if its epoch still stands the session advances and the outputs go
// to the writers.
func (c *computer) deliverLocked(j *job, err error, now time.Time) {
	s, x, over := c.s, j.x, true
	defer func() {
		if over {
			j.f.free(s)
		}
	}()
	if j.torn {
		// Its tables name pages that do not hold what they should, and the pages they had
		// before may be written over: nothing of the session can be kept, in any epoch.
		x.finishLocked(c.broken(err))
	}
	x.run = nil
	if x.phase == ended || x.route.Epoch != j.route.Epoch {
		// The frame left the queue when the epoch or the session ended.
		c.discard(j)
		if x.phase == ended {
			x.releaseLocked()
		}
		return
	}
	if err != nil || j.bad {
		pop(&x.frames)
		c.discard(j)
		x.clearLocked()
		x.failLocked(c.broken(err))
		return
	}
	x.length = j.first + j.rows
	x.step = j.f.step
	x.steps++
	x.active = now
	if x.ledger != nil {
		s.notary.noteLocked(j, c.rowset)
		c.noted = true
	}
	j.f.done += j.rows
	urgent := j.f.class() == sched.Decode
	if urgent {
		x.stride.add(c.began.Sub(j.f.came), now.Sub(c.began))
	}
	if urgent && x.served.IsZero() {
		x.served = now
	}
	// Somebody who waits for each token has one row here at a time.
	x.home.admits.Computed(now, admission.ID(x.key), time.Duration(j.rows)*c.cost, !urgent || len(x.frames) > 1)
	if over = j.f.done == j.f.count; over {
		x.countLocked(j.f.src, -j.f.bytes())
		pop(&x.frames)
		x.room.wake()
	}
	if j.out != nil && j.push != nil {
		j.push.sendLocked(j.out)
	} else if j.out != nil {
		x.out.resultLocked(j.out)
	}
	x.out.computedLocked(j.route.Epoch, x.length, x.step)
	for _, p := range j.journal {
		x.out.journalLocked(p, urgent)
	}
	x.settleLocked()
}

// discard recycles outputs that nobody gets.
func (c *computer) discard(j *job) {
	if j.out != nil {
		c.s.packets.put(j.out, j.out.bytes())
	}
	for _, p := range j.journal {
		c.s.packets.put(p, p.bytes())
	}
}

// broken is what a client is told of an iteration that failed.
func (c *computer) broken(err error) *swarm.Error {
	self := c.s.deps.Self
	e := swarm.Errorf(swarm.CodeBadOutput, swarm.Elsewhere, "server %s computed rows that are not finite", self.Short())
	if err != nil {
		e = swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s failed to compute a step", self.Short())
	}
	e.Peer = self
	return e
}
