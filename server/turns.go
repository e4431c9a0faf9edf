package server

import (
	"context"
	"sync"
	"time"
)

// turns shares the device between iterations of sessions and pieces of passes: a piece is
// computed only while no rows of sessions are ready and none are expected before it is over, or once
// in a while. Iterations of several
// containers do not wait for each other here.
type turns struct {
	mu      sync.Mutex // guards all below
	changed broadcast
	running int           // containers whose iterations follow each other
	wanted  int           // iterations that wait for a piece to end
	piece   bool          // a piece is computed
	asked   time.Time     // since when a pass waits for its next piece; zero if none does
	since   int           // iterations since the last piece
	soon    time.Time     // when rows of a session are expected; zero if none are
	grace   time.Time     // until when they are waited for
	began   time.Time     // of the piece
	mean    time.Duration // of pieces
}

const (
	// pieceAfter is how long a pass waits at least for iterations to leave it a gap, then one piece is
	// computed between two of them.
	pieceAfter = time.Second
	// pieceIterations is how many iterations there are at least between two such pieces: fewer than one token in
	// twenty waits for one, also where a server has few iterations a second, pieces take many times as long as they, and
	// sessions are in every second one.
	pieceIterations = 50
)

// begin waits until an iteration may compute.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted++
	for t.piece || t.overdue() {
		t.wait(nil, 0)
	}
	t.wanted--
	t.running++
	t.since++
}

// overdue tells whether a pass has waited for too long; mu is held.
func (t *turns) overdue() bool {
	return !t.asked.IsZero() && t.since >= pieceIterations && time.Since(t.asked) >= pieceAfter
}

// next is called between two iterations that follow each other: a piece that has waited for
// too long is computed in between.
func (t *turns) next() {
	t.mu.Lock()
	due := t.overdue()
	if !due {
		t.since++
	}
	t.mu.Unlock()
	if due {
		t.end(0, false)
		t.begin()
	}
}

// end says that no iteration follows at once, and when one is expected.
func (t *turns) end(soon time.Duration, expected bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.soon, t.grace = (time.Time{}), (time.Time{}); expected {
		t.soon = time.Now().Add(soon)
		t.grace = t.soon.Add(soon / 4)
	}
	t.changed.wake()
}

// held is how long no piece should be begun, since rows are expected before it would be over; 0: it
// may. mu is held.
func (t *turns) held() time.Duration {
	now := time.Now()
	if t.overdue() || !now.Before(t.grace) || t.soon.Sub(now) > t.mean+t.mean/4 && t.mean > 0 {
		return 0
	}
	if left := pieceAfter - now.Sub(t.asked); left > 0 {
		return min(t.grace.Sub(now), left)
	}
	return t.grace.Sub(now)
}

// enter waits until a piece of a pass may be computed, or ctx ends. Leave must follow after nil.
func (t *turns) enter(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
	defer func() { t.asked = time.Time{} }()
	for {
		held := t.held()
		if t.running == 0 && (t.wanted == 0 && held == 0 || t.overdue()) {
			break
		}
		if t.wait(ctx, held); ctx.Err() != nil {
			t.changed.wake() // iterations wait for it no more
			return context.Cause(ctx)
		}
	}
	t.piece, t.began, t.since = true, time.Now(), 0
	return nil
}

// leave says that a piece is over.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.piece = false
	if took := time.Since(t.began); t.mean == 0 {
		t.mean = took
	} else {
		t.mean += (took - t.mean) / 8
	}
	t.changed.wake()
}

// wait lets go of mu until something changes, a time has passed unless it is 0, or ctx ends where
// there is one.
func (t *turns) wait(ctx context.Context, limit time.Duration) {
	c := t.changed.next()
	t.mu.Unlock()
	defer t.mu.Lock()
	if ctx == nil {
		<-c
		return
	}
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-c:
	case <-over:
	case <-ctx.Done():
	}
}
