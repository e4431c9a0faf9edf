package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// task is work cut in tiles that may run in any order and at the same time.
type task interface {
	// tile does tile i; worker numbers the thread, from 0, for its scratch.
	tile(worker, i int)
}

// stepTask is a task whose tiles are done in two steps, so that a tile whose thread lost its
// core can be done by another (takeOver).
type stepTask interface {
	task
	// compute brings the results of tile i to the worker's scratch and changes nothing else.
	compute(worker, i int)
	// store brings them from there to their place, after compute on the same worker.
	store(worker, i int)
	// patience is for how many rounds of spinning a thread may be busy with a tile before it
	// seems to have lost its core.
	patience() int
}

// pool runs tasks on the calling goroutine and its workers. Tiles are taken one by one
// from both ends, the caller from the last on and the workers from the first on, so that it
// is known what each begins with. A run ends when all tiles are done: a worker that sleeps,
// or whose core another program took, is not waited for unless it holds a tile.
type pool struct {
	threads int

	// ticket is end<<32 | next: tiles [next, end) of the current task are not taken. A tile
	// is won by moving an end; a late worker whose view is old fails to, so it cannot touch
	// a finished task.
	ticket atomic.Uint64
	left   atomic.Int64 // tiles not yet done
	task   task         // written before ticket, read after a tile is won
	steps  stepTask     // the same, if it is one that may be taken over
	slot   int          // of steps
	held   []hold       // per thread
	home   atomic.Int64 // the core of the caller
	stale  atomic.Int64 // threads busy with tiles that were taken over
	hasty  bool         // take over without patience, for tests

	parked  atomic.Int64  // workers asleep and not yet claimed by a waker
	wake    chan struct{} // one token per claimed worker
	waiting atomic.Bool   // the caller is asleep until left is 0
	done    chan struct{}

	ahead   atomic.Pointer[forecast] // what threads that wait may read meanwhile
	readers []reader                 // per thread

	closed atomic.Bool
	exit   sync.WaitGroup
}

// Spins are counted in rounds of about 1 µs, not timed: a clock would tie the pool to it,
// and a test's virtual clock stands still while anything spins.
const (
	// workerRounds is how long a worker looks for the next task before it sleeps: longer
	// than the serial parts of a decode step, so that only the end of a step does that.
	workerRounds = 128
	// callerRounds is how long the caller looks for the last tiles to end. Past a few tile
	// times their holder was most likely preempted, and our sleep gives it a core.
	callerRounds = 32
	// looksPerRound is how often a spinner looks before it lets other goroutines run.
	looksPerRound = 32
)

func newPool(threads int) *pool {
	p := &pool{
		threads: threads, wake: make(chan struct{}, threads), done: make(chan struct{}, 1),
		readers: make([]reader, threads), held: make([]hold, threads),
	}
	for w := 1; w < threads; w++ {
		p.exit.Add(1)
		go p.work(w)
	}
	return p
}

// run does n tiles of t. Only one run at a time.
func (p *pool) run(t task, n int) {
	if n <= 1 || p.threads == 1 {
		for i := range n {
			t.tile(0, i)
		}
		return
	}
	p.task = t
	p.start(n)
	p.take(0)
	p.await()
	p.task = nil
}

// start lets workers take n tiles.
func (p *pool) start(n int) {
	p.home.Store(core())
	p.left.Store(int64(n))
	p.ticket.Store(uint64(n) << 32)
	for range min(n, p.threads) - 1 {
		if !p.claim() {
			break
		}
		p.wake <- struct{}{}
	}
}

// take does tiles until none is left to take.
func (p *pool) take(worker int) {
	for {
		i, ok := p.next(worker)
		if !ok {
			return
		}
		if p.steps != nil && worker > 0 { // nobody goes on without the caller
			p.step(worker, i)
			continue
		}
		p.task.tile(worker, i)
		p.finish()
	}
}

// finish counts a tile as done.
func (p *pool) finish() {
	if p.left.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
		p.done <- struct{}{}
	}
}

// next wins a tile, unless none is left.
func (p *pool) next(worker int) (tile int, ok bool) {
	for {
		t := p.ticket.Load()
		if !open(t) {
			return 0, false
		}
		i, rest := uint32(t), t+1
		if worker == 0 {
			i, rest = uint32(t>>32)-1, t-1<<32
		}
		if p.ticket.CompareAndSwap(t, rest) {
			return int(i), true
		}
	}
}

// open tells whether a ticket has tiles left to take.
func open(ticket uint64) bool { return uint32(ticket) < uint32(ticket>>32) }

// await returns when all tiles are done: it looks for a while, then sleeps.
func (p *pool) await() {
	if p.left.Load() == 0 || p.spin(0, callerRounds, func() bool { return p.left.Load() == 0 }) {
		return
	}
	p.waiting.Store(true)
	if p.left.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.done
}

// claim takes one sleeping worker, who must then be sent a token.
func (p *pool) claim() bool {
	for {
		n := p.parked.Load()
		if n == 0 {
			return false
		}
		if p.parked.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (p *pool) work(worker int) {
	defer p.exit.Done()
	ready := func() bool { return open(p.ticket.Load()) || p.closed.Load() }
	for !p.closed.Load() {
		p.take(worker)
		if p.spin(worker, workerRounds, ready) {
			continue
		}
		p.parked.Add(1)
		// Work that came in between saw no sleeper: look again. If a waker claimed us after
		// all, its token must be used up.
		if ready() && p.claim() {
			continue
		}
		<-p.wake
	}
}

// spin looks at ready until it holds or the rounds are over, and reads ahead in between.
func (p *pool) spin(thread, rounds int, ready func() bool) bool {
	for range rounds {
		for range looksPerRound {
			if ready() {
				return true
			}
			if !p.readers[thread].read(p.ahead.Load(), thread) {
				pause()
			}
		}
		runtime.Gosched()
	}
	return ready()
}

// close ends the workers and waits for them. No run may be in progress.
func (p *pool) close() {
	p.closed.Store(true)
	for p.claim() {
		p.wake <- struct{}{}
	}
	p.exit.Wait()
}
