package pool

import (
	"fmt"
	"runtime/debug"
)

// Fault is a panic in a tile. Whoever runs the task gets it as a panic of its own, once all
// other tiles are done: the pool is then as ready for the next task as after any other.
type Fault struct {
	Value any
	Stack []byte // of the thread that did the tile
}

// Error says what the tile said.
func (f *Fault) Error() string { return fmt.Sprintf("a tile panicked: %v", f.Value) }

// caught keeps the first fault of a run.
func (p *Pool) caught(value any) {
	p.fault.CompareAndSwap(nil, &Fault{value, debug.Stack()})
}

// rethrow ends a run that had a fault.
func (p *Pool) rethrow() {
	if f := p.fault.Swap(nil); f != nil {
		panic(f)
	}
}

// guard does something of a task; false if that panics.
func (p *Pool) guard(do func()) (ok bool) {
	defer func() {
		if value := recover(); value != nil {
			p.caught(value)
		}
	}()
	do()
	return true
}
