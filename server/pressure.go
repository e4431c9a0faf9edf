package server

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"whorl/internal/sysmem"
	"whorl/server/sched"
	"whorl/swarm"
)

// A kernel that is out of memory ends the process, with all sessions. So the server watches what
// is left: when that becomes little it takes no sessions, gives back what nobody uses, and then
// parks sessions, the least used first, until there is enough. Their clients replay them
// elsewhere.

const (
	// memoryEvery is how often memory is looked at: a prompt takes tens of MiB of cache a second.
	memoryEvery = 500 * time.Millisecond
	// idleEvery is how often it is while no session is there and more than 1/roomy is left. A session
	// that comes has it looked at within memoryEvery.
	idleEvery = 10 * time.Second
	// Memory is short when less than this part of the limit is left, within bounds: below the
	// least an iteration and the collector have no room, above the most nothing is gained. It is
	// half as much more again before it is enough.
	reservePart  = 20
	reserveLeast = 64 << 20
	reserveMost  = 512 << 20
	// Memory is also short when everything waited for it for stallsMost of the time. That counts
	// only where less than 1/roomy is left, since otherwise others are short of theirs.
	stallsMost = 0.10
	stallsCalm = 0.02
	roomy      = 4
	// calmFor is how long memory has to be enough before sessions are taken again.
	calmFor = 10 * time.Second
	// stalledPart of the cache in use is given up at a time where only stalls tell that memory is
	// short, and nobody knows how much lacks.
	stalledPart = 8
	// collectEvery bounds how often the collector is made to run for it.
	collectEvery = 2 * time.Second
)

func reserve(of int64) int64 { return min(max(of/reservePart, reserveLeast), reserveMost) }

// shortage judges what is left of memory.
type shortage struct {
	now   sysmem.Pressure
	known bool
	short string    // why; "" if it is not
	since time.Time // it is short
	calm  time.Time // it has been enough since; zero if it is not
}

// take judges anew, and tells whether sessions must be parked for so many bytes: 0 if not, -1
// if nobody knows how many.
func (m *shortage) take(p sysmem.Pressure, now time.Time) (lack int64) {
	m.now, m.known = p, true
	keep := reserve(p.Of)
	low, stalled := p.Left < keep, p.Stalled >= stallsMost && p.Left < p.Of/roomy
	if low || stalled {
		if m.short == "" {
			m.since = now
		}
		m.calm = time.Time{}
		what := "the machine's memory"
		if p.Limit != "" {
			what = p.Limit
		}
		m.short = fmt.Sprintf("%s leaves %s of %s, and the server keeps %s free", what, size(p.Left), size(p.Of), size(keep))
		if !low {
			m.short = fmt.Sprintf("all work waited for memory for %.0f %% of the last ten seconds; %s leaves %s of %s", 100*p.Stalled, what, size(p.Left), size(p.Of))
			return -1
		}
		return keep*3/2 - p.Left
	}
	switch enough := p.Left >= keep*3/2 && (p.Stalled < stallsCalm || p.Left >= p.Of/roomy); {
	case m.short == "":
	case !enough:
		m.calm = time.Time{}
	case m.calm.IsZero():
		m.calm = now
	case now.Sub(m.calm) >= calmFor:
		m.short = ""
	}
	return 0
}

// status is what operators see of it; nil before anything is known.
func (m *shortage) status(parked uint64) *swarm.Memory {
	if !m.known {
		return nil
	}
	st := &swarm.Memory{Left: m.now.Left, Of: m.now.Of, Limit: m.now.Limit, Stalled: m.now.Stalled, Short: m.short, Parked: parked}
	if m.short != "" {
		since := m.since
		st.Since = &since
	}
	return st
}

// watchMemory looks after memory until ctx ends, or until the system says that it cannot tell.
func (s *Server) watchMemory(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var collected, looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if s.memoryIdle() && now.Sub(looked) < idleEvery {
				continue
			}
			looked = now
			p, err := s.deps.Memory()
			if err != nil {
				s.log.Warn("memory is not watched: sessions are not parked before it is used up", "reason", err)
				return
			}
			if s.shed(p, now) && now.Sub(collected) >= collectEvery {
				collected = now
				debug.FreeOSMemory()
			}
		}
	}
}

// memoryIdle tells whether nothing could be given up, and nothing will soon have to be.
func (s *Server) memoryIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count == 0 && s.memory.known && s.memory.short == "" && s.memory.now.Left >= s.memory.now.Of/roomy
}

// shed takes in what is left of memory and does what that asks for; it tells whether memory is
// short.
func (s *Server) shed(p sysmem.Pressure, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.memory.short
	lack := s.memory.take(p, now)
	short := s.memory.short
	switch {
	case short == "" && before != "":
		s.log.Info("memory is enough again", "left", size(p.Left), "short_for", now.Sub(s.memory.since).Round(time.Second).String(), "parked", s.shedOnes)
		poke(s.publish)
		return false
	case short == "":
		return false
	case before == "":
		s.log.Warn("memory is short: no sessions are taken, and those that are least used are parked if it does not help to give back what nobody uses", "reason", short)
		for _, x := range s.byKey {
			if x.phase == opening {
				x.finishLocked(errLowMemory(s.deps.Self))
			}
		}
		poke(s.publish)
	case lack != 0:
		s.shedLocked(lack, now)
	}
	for _, c := range s.containersLocked() {
		if c.cache != nil {
			c.trim.Store(true)
			poke(c.work)
		}
	}
	return true
}

// shedLocked parks the least used sessions of each container until so many bytes come free, or a
// part of what is in use for -1.
func (s *Server) shedLocked(lack int64, now time.Time) {
	for _, c := range s.containersLocked() {
		if c.admits == nil || c.broken != nil {
			continue
		}
		bytes := lack
		if lack < 0 {
			bytes = c.cache.Stats().UsedBytes / stalledPart
		}
		pages := int(math.Ceil(float64(bytes) / float64(max(c.cache.Bytes(1), 1))))
		for _, id := range c.admits.Shed(now, max(pages, 1), s.doingLocked) {
			x := s.byKey[sched.Session(id)]
			s.shedOnes++
			s.metrics.shed.Inc()
			bytes -= c.cache.Bytes(len(x.pages))
			x.finishLocked(swarm.Errorf(swarm.CodeLowMemory, swarm.Replay, "server %s parked the session: its memory is short", s.deps.Self.Short()))
		}
		if lack >= 0 {
			if lack = bytes; lack <= 0 {
				return
			}
		}
	}
}

func errLowMemory(self swarm.PeerID) *swarm.Error {
	return swarm.Errorf(swarm.CodeLowMemory, swarm.Elsewhere, "server %s takes no sessions now: its memory is short", self.Short())
}

// pageFreer is an engine that can give the memory of KV pages back to the system.
type pageFreer interface{ FreePages(pages []int32) }

// trimmed gives back what pages that nobody holds still keep of memory, if that was asked for.
// The compute loop does so, since it alone writes to pages: one that is handed out meanwhile is
// not written before this is over.
func (c *computer) trimmed() {
	if !c.home.trim.Swap(false) {
		return
	}
	c.s.mu.Lock()
	free := c.home.cache.Free()
	c.s.mu.Unlock()
	if e, ok := c.engine.(pageFreer); ok {
		e.FreePages(free)
	}
}
