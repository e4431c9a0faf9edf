package pool

import "sync/atomic"

// A decode step has a hundred barriers, and a thread that loses its core to another program
// in the middle of a tile would hold up the step for the milliseconds until it runs again.
// The caller then does the tile itself. The other thread finds that out when it is back, and
// drops what it computed: of the two, who moves the hold stores the results. Meanwhile it
// still reads the operands, whatever has become of their values, so what it follows to them
// must stay as it was: a task that may be taken over has a slot of its own, which is not
// given out again before.

// hold is what a thread is busy with: 0, or slot<<33 | tile<<1 | 1, and slot<<33 | holdLost
// once the tile was taken over. Only its thread sets it anew.
type hold struct {
	atomic.Uint64
	_ [56]byte // lines of their own: each thread writes its hold for every tile
}

const (
	holdLost  = 1<<32 - 2 // even, so no tile
	tilesMost = 1<<31 - 2
)

func holdOf(slot, tile int) uint64 { return uint64(slot)<<33 | uint64(tile)<<1 | 1 }

// FreeSlot gives a slot, of as many as there are threads, that no thread is still busy with.
func (p *Pool) FreeSlot() int {
	for slot := range p.threads - 1 {
		if !p.slotHeld(slot) {
			return slot
		}
	}
	return p.threads - 1 // the caller holds none
}

func (p *Pool) slotHeld(slot int) bool {
	if p.stale.Load() == 0 {
		return false
	}
	for w := range p.held {
		if h := p.held[w].Load(); h != 0 && int(h>>33) == slot {
			return true
		}
	}
	return false
}

// RunSteps is Run for a task in a free slot, whose tiles may be taken over. It reports
// whether no thread is busy with the task any more.
func (p *Pool) RunSteps(t StepTask, slot, n int) (over bool) {
	if n <= 1 || p.threads == 1 || n > tilesMost {
		p.Run(t, n)
		return true
	}
	p.task, p.steps, p.slot = t, t, slot
	p.start(n)
	p.take(0)
	if !p.spin(0, t.Patience(), func() bool { return p.left.Load() == 0 }) {
		p.takeOver()
	}
	p.await()
	p.task, p.steps = nil, nil
	p.rethrow()
	return !p.slotHeld(slot)
}

// step does a tile that a worker won of the current task. Until the hold is set the task cannot
// end, so what is read before belongs to it.
func (p *Pool) step(worker, i int, h uint64) {
	t := p.steps
	p.held[worker].Store(h)
	t.Compute(worker, i)
	if !p.held[worker].CompareAndSwap(h, 0) {
		p.held[worker].Store(0)
		p.stale.Add(-1)
		p.spread()
		return
	}
	t.Store(worker, i)
	p.finish()
}

// dropped counts the tile of a panic as done, unless another thread took it over. held is 0
// if that could not be.
func (p *Pool) dropped(worker int, held uint64) {
	if held == 0 || p.held[worker].CompareAndSwap(held, 0) || p.held[worker].Load() == 0 {
		p.finish()
		return
	}
	p.held[worker].Store(0)
	p.stale.Add(-1)
}

// spread makes way for the caller: a system whose cores are all taken may leave two threads
// on one of them for long, and the other to another program.
func (p *Pool) spread() {
	if here := core(); here >= 0 && here == p.home.Load() {
		leaveCore(here)
	}
}

// takeOver does the tiles that other threads hold, unless they come first.
func (p *Pool) takeOver() {
	for w := 1; w < p.threads; w++ {
		h := p.held[w].Load()
		if h&1 == 0 {
			continue
		}
		i := int(uint32(h) >> 1)
		if !p.guard(func() { p.steps.Compute(0, i) }) {
			continue // its thread is waited for
		}
		p.stale.Add(1)
		if p.held[w].CompareAndSwap(h, h>>33<<33|holdLost) {
			p.guard(func() { p.steps.Store(0, i) })
			p.finish()
		} else {
			p.stale.Add(-1)
		}
	}
}
