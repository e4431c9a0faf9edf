package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Task is work cut in tiles that may run in any order and at the same time.
type Task interface {
	// Tile does tile i; worker numbers the thread, from 0, for its scratch.
	Tile(worker, i int)
}

// StepTask is a task whose tiles are done in two steps, so that a tile whose thread lost its
// core can be done by another (takeOver).
type StepTask interface {
	Task
	// Compute brings the results of tile i to the worker's scratch and changes nothing else.
	Compute(worker, i int)
	// Store brings them from there to their place, after Compute on the same worker.
	Store(worker, i int)
	// Patience is for how many rounds of spinning a thread may be busy with a tile before it
	// seems to have lost its core.
	Patience() int
}

// Pool runs tasks on the calling goroutine and its workers. Tiles are taken one by one
// from both ends, the caller from the last on and the workers from the first on, so that it
// is known what each begins with. A run ends when all tiles are done: a worker that sleeps,
// or whose core another program took, is not waited for unless it holds a tile.
type Pool struct {
	threads int

	// ticket is end<<32 | next: tiles [next, end) of the current task are not taken. A tile
	// is won by moving an end; a late worker whose view is old fails to, so it cannot touch
	// a finished task.
	ticket atomic.Uint64
	left   atomic.Int64 // tiles not yet done
	task   Task         // written before ticket, read after a tile is won
	steps  StepTask     // the same, if it is one that may be taken over
	slot   int          // of steps
	held   []hold       // per thread
	home   atomic.Int64 // the core of the caller
	stale  atomic.Int64 // threads busy with tiles that were taken over

	parked  atomic.Int64  // workers asleep and not yet claimed by a waker
	wake    chan struct{} // one token per claimed worker
	waiting atomic.Bool   // the caller is asleep until left is 0
	done    chan struct{}
	fault   atomic.Pointer[Fault] // of the current task

	ahead   atomic.Pointer[Forecast] // what threads that wait read meanwhile
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
	// CallerRounds is how long the caller looks for the last tiles to end. Past a few tile
	// times their holder was most likely preempted, and our sleep gives it a core.
	CallerRounds = 32
	// looksPerRound is how often a spinner looks before it lets other goroutines run.
	looksPerRound = 32
)

// New starts a pool of so many threads, the caller included.
func New(threads int) *Pool {
	p := &Pool{
		threads: threads, wake: make(chan struct{}, threads), done: make(chan struct{}, 1),
		readers: make([]reader, threads), held: make([]hold, threads),
	}
	for w := 1; w < threads; w++ {
		p.exit.Add(1)
		go p.work(w)
	}
	return p
}

// Threads is how many there are, the caller's included.
func (p *Pool) Threads() int { return p.threads }

// Run does n tiles of t. Only one run at a time.
func (p *Pool) Run(t Task, n int) {
	if n <= 1 || p.threads == 1 {
		for i := range n {
			t.Tile(0, i)
		}
		return
	}
	p.task = t
	p.start(n)
	p.take(0)
	p.await()
	p.task = nil
	p.rethrow()
}

// start lets workers take n tiles.
func (p *Pool) start(n int) {
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
func (p *Pool) take(worker int) {
	for p.tiles(worker) {
	}
}

// tiles does tiles until none is left to take, or until one panics: then there may be more.
func (p *Pool) tiles(worker int) (more bool) {
	held := uint64(0) // by a step that another thread may take over
	defer func() {
		if value := recover(); value != nil {
			p.caught(value)
			p.dropped(worker, held)
			more = true
		}
	}()
	for {
		i, ok := p.next(worker)
		if !ok {
			return false
		}
		if p.steps != nil && worker > 0 { // nobody goes on without the caller
			held = holdOf(p.slot, i)
			p.step(worker, i, held)
			held = 0
			continue
		}
		p.task.Tile(worker, i)
		p.finish()
	}
}

// finish counts a tile as done.
func (p *Pool) finish() {
	if p.left.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
		p.done <- struct{}{}
	}
}

// next wins a tile, unless none is left.
func (p *Pool) next(worker int) (tile int, ok bool) {
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
func (p *Pool) await() {
	if p.left.Load() == 0 || p.spin(0, CallerRounds, func() bool { return p.left.Load() == 0 }) {
		return
	}
	p.waiting.Store(true)
	if p.left.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.done
}

// claim takes one sleeping worker, who must then be sent a token.
func (p *Pool) claim() bool {
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

func (p *Pool) work(worker int) {
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
func (p *Pool) spin(thread, rounds int, ready func() bool) bool {
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

// Close ends the workers and waits for them. No run may be in progress.
func (p *Pool) Close() {
	p.closed.Store(true)
	for p.claim() {
		p.wake <- struct{}{}
	}
	p.exit.Wait()
}
