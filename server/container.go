package server

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"whorl/server/admission"
	"whorl/server/kvcache"
	"whorl/server/sched"
	"whorl/swarm"
)

// container is a loaded span with all that its sessions need. A server has one, and while it
// moves also the one that it leaves: sessions keep to the container that they were opened in.
type container struct {
	queue *sched.Queue
	work  chan struct{} // the queue has something for the compute loop
	trim  atomic.Bool   // it is to give memory of free pages back
	train chan struct{} // a pass waits to be computed

	// Guarded by Server.mu.
	span     *swarm.Span // nil until it is chosen
	engine   Engine      // nil until it is loaded
	cache    *kvcache.Cache
	admits   *admission.Controller // who holds cache, and who is parked for others
	leaves   time.Time             // its sessions are ended then; zero if it stays
	count    int                   // sessions of it
	passes   *sched.Passes         // that wait
	trains   map[uint64]*pass      // those, and the one that is computed
	training *pass                 // the one; nil if none is
	broken   error                 // why it computes no more; nil if it does
	hung     bool                  // an iteration takes too long
	since    time.Time             // when the present iteration began; zero if there is none
	rows     int                   // of it
	trial    *trial                // a benchmark that waits for moments without work; nil: none
	// borrowed says that a step of it has pages: none are granted meanwhile, which is not long.
	borrowed bool

	stop  context.CancelFunc // of the compute loop
	loops sync.WaitGroup
}

func newContainer() *container {
	return &container{queue: sched.New(), work: make(chan struct{}, 1), train: make(chan struct{}, 1), passes: sched.NewPasses(), trains: map[uint64]*pass{}}
}

// containers are the one that takes sessions and those that are left; mu is held.
func (s *Server) containersLocked() []*container {
	return append([]*container{s.container}, s.left...)
}

// compute starts the compute loop of a container.
func (s *Server) compute(ctx context.Context, c *container) {
	ctx, c.stop = context.WithCancel(ctx)
	c.loops.Go(func() { s.newComputer(c).run(ctx) })
	c.loops.Go(func() { s.runPasses(ctx, c) })
}

// unload ends the compute loop of a container without sessions and frees its memory, so that
// it is there for who comes next: weights and cache lie outside of Go's heap and are given
// back once nothing refers to them.
func (s *Server) unload(c *container) {
	if !s.rest(c) {
		return // what an iteration still uses is not freed
	}
	s.mu.Lock()
	e := c.engine
	c.engine = nil
	s.mu.Unlock()
	if e != nil {
		e.Close()
	}
	debug.FreeOSMemory()
}

// rest ends the compute loop of a container; false if it hangs in an iteration.
func (s *Server) rest(c *container) bool {
	if c.stop == nil {
		return true
	}
	c.stop()
	s.mu.Lock()
	hangs := c.hung && !c.since.IsZero()
	s.mu.Unlock()
	if !hangs {
		c.loops.Wait()
	}
	return !hangs
}

// empty waits until no session or pass of a container is left; the sweeper ends those that stay too
// long. False if ctx ended first.
func (s *Server) empty(ctx context.Context, c *container) bool {
	for {
		s.mu.Lock()
		n, next := c.count+len(c.trains), s.changed.next()
		s.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

// leaveLocked has the clients of a container told that its sessions end at a time.
func (s *Server) leaveLocked(c *container, by time.Time) {
	c.leaves = by
	s.refusePassesLocked(c, errDraining(s.deps.Self))
	for _, x := range s.byKey {
		if x.home == c {
			x.leavingLocked(by)
		}
	}
}
