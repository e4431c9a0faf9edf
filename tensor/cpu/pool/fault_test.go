package pool

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// faulty panics at some tiles; the others are counted.
type faulty struct {
	bad  func(tile int) bool
	late bool // in Store
	done atomic.Int64
}

func (f *faulty) Tile(worker, i int) { f.Compute(worker, i); f.Store(worker, i) }

func (f *faulty) Compute(_, i int) {
	if !f.late && f.bad(i) {
		panic("bad tile")
	}
}

func (f *faulty) Store(_, i int) {
	if f.late && f.bad(i) {
		panic("bad tile")
	}
	f.done.Add(1)
}

func (f *faulty) Patience() int { return 1 }

// A tile that panics, on whichever thread, is a panic of whoever runs the task; all other tiles
// are done by then, and the next task runs as ever.
func TestFaultsReachTheCaller(t *testing.T) {
	for _, threads := range []int{2, 4} {
		p := New(threads)
		for _, run := range []struct {
			name  string
			steps bool
		}{{"run", false}, {"steps", true}} {
			for _, late := range []bool{false, true} {
				for name, bad := range map[string]func(int) bool{
					"the first": func(i int) bool { return i == 0 }, "the last": func(i int) bool { return i == 99 },
					"some": func(i int) bool { return i%7 == 0 }, "all": func(int) bool { return true },
				} {
					for range 50 {
						f := &faulty{bad: bad, late: late}
						want := 0
						for i := range 100 {
							if !bad(i) {
								want++
							}
						}
						err := func() (err error) {
							defer func() { err, _ = recover().(error) }()
							if run.steps {
								p.RunSteps(f, p.FreeSlot(), 100)
							} else {
								p.Run(f, 100)
							}
							return nil
						}()
						var fault *Fault
						if !errors.As(err, &fault) || fault.Value != "bad tile" || !strings.Contains(string(fault.Stack), "faulty") {
							t.Fatalf("%s, late %v, %s: got %v", run.name, late, name, err)
						}
						if got := int(f.done.Load()); got != want {
							t.Fatalf("%s, late %v, %s: %d tiles are done, want %d", run.name, late, name, got, want)
						}
						good := &faulty{bad: func(int) bool { return false }}
						if p.Run(good, 100); good.done.Load() != 100 {
							t.Fatalf("%s, late %v, %s: the next task does %d tiles", run.name, late, name, good.done.Load())
						}
					}
				}
			}
		}
		p.Close()
	}
}
