package client

import (
	"context"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// onPosition takes a Done: the stage has computed all rows before position. One that is of
// rows nobody sent, since they were cut or a server lies, moves nothing.
func (s *Session) onPosition(st *stage, epoch uint32, position int) {
	s.mu.Lock()
	fresh := epoch == s.epoch && epoch == st.epoch && position > st.position && position <= len(s.ids)
	st.heard = time.Now()
	if fresh {
		st.position = position
		s.moved = st.heard
	}
	s.mu.Unlock()
	if fresh {
		s.notify()
	}
}

// onRows takes outputs: of the last stage as results, of the others as journal. What
// belongs to an older epoch is dropped.
func (s *Session) onRows(st *stage, t wire.Type, h wire.RowsHeader, rows []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.heard = time.Now()
	if h.Epoch != s.epoch || h.Epoch != st.epoch || st.err != nil || st.index >= len(s.stages) || s.stages[st.index] != st || h.End() > len(s.ids) {
		return
	}
	last := st.index == len(s.stages)-1
	if t == wire.TypeJournal {
		if j := s.journals[st.hop.Span.End]; !last && j != nil && s.journalRoom(j, h.End()) {
			j.put(int(h.Start), rows)
		}
		return
	}
	if !last {
		return
	}
	hidden := s.e.cfg.Manifest.Hidden
	from, to := int(h.Start), h.End()
	if from > s.got || to <= s.got {
		return // nothing new, or rows whose predecessors are still missing
	}
	copy(s.out[(s.got-s.want)*hidden:], rows[(s.got-from)*hidden:])
	s.got = to
	s.moved = st.heard
	for _, other := range s.stages {
		other.blames = 0
	}
	s.notify()
}

// journalRoom keeps the journals of a session within their budget: rows beyond it are a
// gap, which costs recomputing on a fail-over, never correctness. Pages in front of the rows
// count too, since nothing would ask for room when they are filled. mu is held.
func (s *Session) journalRoom(j *journal, end int) bool {
	more := (end+pageRows-1)/pageRows - len(j.pages)
	return more <= 0 || s.journalBytes()+int64(more)*j.pageBytes() <= s.e.cfg.JournalBytes
}

// journalBytes is the memory of the journals. mu is held.
func (s *Session) journalBytes() int64 {
	var n int64
	for _, j := range s.journals {
		n += int64(len(j.pages)) * j.pageBytes()
	}
	return n
}

// onStatus takes an answer to Open, Route or Ask.
func (s *Session) onStatus(st *stage, v wire.Status) {
	s.mu.Lock()
	st.heard = time.Now()
	if v.Epoch == s.epoch && v.Epoch == st.epoch && v.Position > st.position && v.Position <= len(s.ids) {
		st.position = v.Position
		s.moved = st.heard
	}
	s.mu.Unlock()
	select {
	case st.status <- v:
	default: // an answer to Ask that nobody waits for
	}
	s.notify()
}

// maxBlames is how many failures a stage may put down to its neighbours before an output
// comes: then they are its own, whether it lies or its network is to blame.
const maxBlames = 2

// onFail takes a typed failure. The stage that is to blame is marked lost, which may be a
// neighbour of the one that reports: nobody else deals with it.
func (s *Session) onFail(st *stage, f wire.Fail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.err != nil || f.Epoch != 0 && f.Epoch < s.epoch {
		return
	}
	err := f.Err(st.hop.Peer)
	guilty := st
	for i, other := range s.stages {
		if f.Peer != "" && other.hop.Peer == f.Peer && (i == st.index-1 || i == st.index+1) {
			guilty = other
		}
	}
	guilty.mark(err)
	if guilty != st {
		if st.blames++; st.blames >= maxBlames {
			st.mark(err)
		}
	}
	s.notify()
}

// wait sleeps until something happens, and looks after mute stages: when nothing has
// moved for Timeouts.Probe every stage is asked for its position; one that does not
// answer within Timeouts.Answer is lost (it answers even while it computes). When nothing
// has moved for Timeouts.Step the first stage that lacks rows it should have is lost.
func (s *Session) wait(ctx context.Context) {
	t := &s.e.cfg.Timeouts
	s.mu.Lock()
	idle := time.Since(s.moved)
	s.mu.Unlock()
	s.timer.Reset(max(t.Probe-idle, t.Probe/4))
	select {
	case <-s.wake:
		s.timer.Stop()
		return
	case <-ctx.Done():
		s.timer.Stop()
		return
	case <-s.ctx.Done():
		return
	case <-s.timer.C:
	}
	s.mu.Lock()
	stages, idle := s.stages, time.Since(s.moved)
	s.mu.Unlock()
	if idle < t.Probe {
		return
	}
	if idle >= t.Step {
		s.suspect()
		return
	}
	asked := time.Now()
	for _, st := range stages {
		st.buf = wire.AppendFrame(st.buf[:0], wire.TypeAsk)
		if err := st.write(); err != nil {
			s.fail(st, err)
			return
		}
	}
	s.await(ctx, t.Answer, func() bool {
		for _, st := range s.stages {
			if st.err == nil && st.heard.Before(asked) {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.stages {
		if ctx.Err() == nil && st.err == nil && st.heard.Before(asked) {
			st.mark(swarm.Errorf(swarm.CodeTimeout, swarm.Elsewhere, "server %s with blocks %v does not answer", st.hop.Peer.Short(), st.hop.Span))
			return
		}
	}
}

// await waits until the condition, checked with mu held, is true, or the limit is over.
func (s *Session) await(ctx context.Context, limit time.Duration, cond func() bool) {
	s.timer.Reset(limit)
	defer s.timer.Stop()
	for {
		s.mu.Lock()
		ok := cond()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		case <-s.timer.C:
			return
		}
	}
}

// suspect marks the first stage that lacks rows its predecessor has passed on.
func (s *Session) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.sent
	for i, st := range s.stages {
		if st.position < has || i == len(s.stages)-1 {
			st.mark(swarm.Errorf(swarm.CodeTimeout, swarm.Elsewhere, "server %s with blocks %v made no progress for %v", st.hop.Peer.Short(), st.hop.Span, s.e.cfg.Timeouts.Step))
			return
		}
		has = st.position
	}
}
