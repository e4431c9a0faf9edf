package pool

import (
	"slices"
	"sync/atomic"
	"testing"
)

// stuckTask keeps every thread but the caller's in its first tile until it is let go.
type stuckTask struct {
	stuck    chan int      // gets the tile of each
	letGo    chan struct{} // closed to let them go on
	computed []atomic.Int32
	stored   []atomic.Int32
	by       []atomic.Int32 // the thread that stored
}

func newStuckTask(tiles, threads int) *stuckTask {
	return &stuckTask{make(chan int, threads), make(chan struct{}), make([]atomic.Int32, tiles), make([]atomic.Int32, tiles), make([]atomic.Int32, tiles)}
}

func (s *stuckTask) Patience() int { return 1 }

func (s *stuckTask) Tile(worker, i int) {
	s.Compute(worker, i)
	s.Store(worker, i)
}

func (s *stuckTask) Compute(worker, i int) {
	s.computed[i].Add(1)
	if worker > 0 {
		s.stuck <- i
		<-s.letGo
	} else if s.computed[i].Load() == 1 {
		for len(s.stuck) < cap(s.stuck)-1 { // the others are to have a tile each
			pause()
		}
	}
}

func (s *stuckTask) Store(worker, i int) {
	s.stored[i].Add(1)
	s.by[i].Store(int32(worker))
}

// A run ends although threads are stuck in tiles, each tile is stored once, and the task's
// slot is not given out before they are back.
func TestTakeOver(t *testing.T) {
	for threads := 2; threads <= 4; threads++ {
		p := New(threads)
		for round := range 20 {
			s := newStuckTask(12, threads)
			slot := p.FreeSlot()
			if p.RunSteps(s, slot, 12) {
				t.Fatalf("%d threads, round %d: stuck threads are said to be done", threads, round)
			}
			lost := make([]int, threads-1)
			for i := range lost {
				lost[i] = <-s.stuck
			}
			for i := range s.stored {
				if n := s.stored[i].Load(); n != 1 || s.by[i].Load() != 0 && slices.Contains(lost, i) {
					t.Fatalf("%d threads, round %d: tile %d was stored %d times, last by thread %d", threads, round, i, n, s.by[i].Load())
				}
			}
			if p.FreeSlot() == slot {
				t.Fatalf("%d threads, round %d: the slot is given out while threads are busy with it", threads, round)
			}
			// The caller can go on alone, and does one task after another.
			for range 3 {
				alone := &countTask{hits: make([]atomic.Int32, 5), busy: make([]atomic.Int32, threads), t: t}
				p.Run(alone, 5)
				for i := range alone.hits {
					if n := alone.hits[i].Load(); n != 1 {
						t.Fatalf("%d threads, round %d: tile %d of the next task ran %d times", threads, round, i, n)
					}
				}
			}
			close(s.letGo)
			for p.stale.Load() > 0 {
				pause()
			}
			for i := range s.stored {
				if n := s.stored[i].Load(); n != 1 {
					t.Fatalf("%d threads, round %d: tile %d was stored %d times in the end", threads, round, i, n)
				}
			}
		}
		p.Close()
	}
}
