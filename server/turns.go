package server

import (
	"context"
	"sync"
	"time"
)

// turns shares the device between iterations of sessions and pieces of passes: a piece is
// computed only while no rows of sessions are ready, or once in a while. Iterations of several
// containers do not wait for each other here.
type turns struct {
	mu      sync.Mutex // guards all below
	changed broadcast
	running int       // containers whose iterations follow each other
	wanted  int       // iterations that wait for a piece to end
	piece   bool      // a piece is computed
	asked   time.Time // since when a pass waits for its next piece; zero if none does
}

// pieceAfter is how long a pass waits at most for iterations to leave it a gap. Then one piece is
// computed between two of them.
const pieceAfter = time.Second

// begin waits until an iteration may compute.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted++
	for t.piece || t.overdue() {
		t.wait(nil)
	}
	t.wanted--
	t.running++
}

// overdue tells whether a pass has waited for too long; mu is held.
func (t *turns) overdue() bool { return !t.asked.IsZero() && time.Since(t.asked) >= pieceAfter }

// next is called between two iterations that follow each other: a piece that has waited for
// too long is computed in between.
func (t *turns) next() {
	t.mu.Lock()
	due := t.overdue()
	t.mu.Unlock()
	if due {
		t.end()
		t.begin()
	}
}

// end says that no iteration follows at once.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.changed.wake()
}

// enter waits until a piece of a pass may be computed, or ctx ends. Leave must follow after nil.
func (t *turns) enter(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
	defer func() { t.asked = time.Time{} }()
	for t.running > 0 || t.wanted > 0 && !t.overdue() {
		if t.wait(ctx); ctx.Err() != nil {
			t.changed.wake() // iterations wait for it no more
			return context.Cause(ctx)
		}
	}
	t.piece = true
	return nil
}

// leave says that a piece is over.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.piece = false
	t.changed.wake()
}

// wait lets go of mu until something changes, or ctx ends where there is one.
func (t *turns) wait(ctx context.Context) {
	c := t.changed.next()
	t.mu.Unlock()
	defer t.mu.Lock()
	if ctx == nil {
		<-c
		return
	}
	select {
	case <-c:
	case <-ctx.Done():
	}
}
