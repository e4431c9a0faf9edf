package pool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

type countTask struct {
	hits []atomic.Int32
	busy []atomic.Int32 // per worker: a worker runs one tile at a time
	t    *testing.T
}

func (c *countTask) Tile(worker, i int) {
	if c.busy[worker].Add(1) != 1 {
		c.t.Error("two tiles at once on one worker")
	}
	c.hits[i].Add(1)
	c.busy[worker].Add(-1)
}

func TestPoolDoesEachTileOnce(t *testing.T) {
	for threads := 1; threads <= 5; threads++ {
		p := New(threads)
		for round := range 3000 {
			n := round % 17
			c := &countTask{hits: make([]atomic.Int32, n), busy: make([]atomic.Int32, threads), t: t}
			p.Run(c, n)
			for i := range c.hits {
				if got := c.hits[i].Load(); got != 1 {
					t.Fatalf("%d threads, round %d: tile %d ran %d times", threads, round, i, got)
				}
			}
		}
		p.Close()
	}
}

// Workers that went to sleep must be woken, and a pool must close while they sleep.
func TestPoolWakesSleepers(t *testing.T) {
	p := New(3)
	for range 20 {
		for p.parked.Load() != 2 { // both workers asleep: they park after workerRounds
			runtime.Gosched() // they may have to share a processor with this
		}
		c := &countTask{hits: make([]atomic.Int32, 64), busy: make([]atomic.Int32, 3), t: t}
		p.Run(c, 64)
		for i := range c.hits {
			if c.hits[i].Load() != 1 {
				t.Fatalf("tile %d ran %d times", i, c.hits[i].Load())
			}
		}
	}
	p.Close()
	if n := p.parked.Load(); n != 0 {
		t.Errorf("%d workers still parked", n)
	}
}

type emptyTask struct{}

func (emptyTask) Tile(int, int) {}

func BenchmarkPoolBarrier(b *testing.B) {
	p := New(2)
	defer p.Close()
	for range b.N {
		p.Run(emptyTask{}, 8)
	}
}

// The pool must not keep a virtual clock from moving.
func TestPoolInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(3)
		p.Run(emptyTask{}, 50)
		synctest.Wait() // all workers asleep
		if n := p.parked.Load(); n != 2 {
			t.Errorf("%d workers parked, want 2", n)
		}
		p.Run(emptyTask{}, 50)
		p.Close()
	})
}
