package model

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"whorl/tensor"
)

// logitsQueue holds calls of Logits whose rows were not all computed. Whoever gets the
// workspace computes rows of all who wait, not only its own: the LM head, a large part of a
// small model, is read once for all sessions whose steps end together.
type logitsQueue struct {
	mu    sync.Mutex
	calls []*logitsCall // those next come first

	// What follows is for whoever has the turn. A wave is the calls whose batches follow each
	// other at once: sessions that shared an iteration of a server ask for their logits within
	// microseconds of each other, and if the first ones do not wait they are computed one by one,
	// for as long as they come in that order.
	wave  []*float32    // where the calls of the present wave want their logits: nobody is in it twice
	many  int           // calls of the wave before
	ended time.Time     // when the batch before was done
	took  time.Duration // by that batch
}

// gatherShare is how long the others of a wave are waited for since the last of them came, as a
// share of the time that a batch takes; gatherMost is the same for all of them. One batch more for
// those that come too late takes about all of it.
const gatherShare, gatherMost = 5, 2

// maxYields bounds how often the processor is offered to others meanwhile.
const maxYields = 20_000

// gather waits a moment for as many calls as the wave before had. Where one session asks alone
// it does not wait.
func (q *logitsQueue) gather() {
	start := time.Now()
	if start.Sub(q.ended) > q.took || q.again() {
		q.many, q.wave = len(q.wave), q.wave[:0]
	}
	want := q.many - len(q.wave)
	if want < 2 {
		return
	}
	have, last := 0, start
	for range maxYields { // a clock that stands still, as in tests, ends it too
		n, now := q.len(), time.Now()
		if n > have {
			have, last = n, now
		}
		if n >= want || now.Sub(last) >= q.took/gatherShare || now.Sub(start) >= q.took/gatherMost {
			return
		}
		runtime.Gosched()
	}
}

// again tells whether somebody who waits had a call in the present wave.
func (q *logitsQueue) again() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.calls, func(c *logitsCall) bool { return slices.Contains(q.wave, c.where) })
}

// computed notes a batch.
func (q *logitsQueue) computed(batch []*logitsCall, took time.Duration) {
	q.ended, q.took = time.Now(), took
	for _, c := range batch {
		if len(q.wave) < maxWave {
			q.wave = append(q.wave, c.where)
		}
	}
}

// maxWave bounds the calls that are remembered.
const maxWave = 256

func (q *logitsQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls)
}

// logitsCall is a call of Logits; what is left of it belongs to whoever has the turn.
type logitsCall struct {
	dst, hidden []float32
	where       *float32 // the first of its logits: each session has its own memory for them
	n           int      // rows left
	mode        tensor.Activations
	take        int           // rows of it in the present batch
	done        chan struct{} // closed when no rows are left, or err is set
	err         error
}

// next removes from the queue the calls of a batch of at most so many rows, of one mode,
// and says how many rows each has in it.
func (q *logitsQueue) next(batch []*logitsCall, rows int) []*logitsCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	mode := q.calls[0].mode
	q.calls = slices.DeleteFunc(q.calls, func(c *logitsCall) bool {
		if rows == 0 || c.mode != mode {
			return false
		}
		c.take = min(c.n, rows)
		rows -= c.take
		batch = append(batch, c)
		return true
	})
	return batch
}

func (q *logitsQueue) add(c *logitsCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, c)
}

// Logits computes the logits of n rows that the last block put out: hidden is [n][hidden],
// dst [n][vocab]. The result of a row does not depend on the rows beside it, which may be
// those of other calls at the same time.
func (h *Head) Logits(dst, hidden []float32, n int, mode tensor.Activations) error {
	if n < 0 || len(hidden) != n*h.hidden || len(dst) != n*h.vocab {
		return fmt.Errorf("logits: %d values in and %d out for %d rows of %d and %d", len(hidden), len(dst), n, h.hidden, h.vocab)
	}
	if n == 0 {
		return nil
	}
	c := &logitsCall{dst: dst, hidden: hidden, where: &dst[0], n: n, mode: mode, done: make(chan struct{})}
	h.waiting.add(c)
	for {
		select {
		case <-c.done:
			return c.err
		case h.turn <- struct{}{}:
		}
		// Whoever had the turn before may have done it all.
		if c.n > 0 && c.err == nil {
			h.logitsBatch()
		}
		<-h.turn
	}
}

// logitsBatch computes rows of those who wait. Whose rows are not all done waits on, behind
// the others. The caller has the turn.
func (h *Head) logitsBatch() {
	h.waiting.gather()
	start := time.Now()
	h.batch = h.waiting.next(h.batch[:0], h.rows)
	rows := 0
	for _, c := range h.batch {
		h.dev.Upload(h.x, rows, c.hidden[:c.take*h.hidden])
		rows += c.take
	}
	h.dev.Norm(h.x, h.x, rows, h.p.Norm)
	h.dev.Prepare(h.act, h.x, rows, h.batch[0].mode)
	h.product[0] = tensor.Product{W: h.p.LM, Scale: h.p.LogitScale, Dst: h.logits}
	h.dev.MatMul(h.act, h.product[:])
	if h.p.LogitSoftcap != 0 {
		h.dev.Scale(h.logits, rows, 1, h.p.LogitSoftcap)
	}
	at := 0
	var took time.Duration // without what others do between
	for i, c := range h.batch {
		h.dev.Download(c.dst[:c.take*h.vocab], h.logits, at)
		at += c.take
		c.err = h.dev.Sync()
		if took == 0 {
			took = time.Since(start)
		}
		if c.err != nil {
			c.err = fmt.Errorf("logits: %w", c.err)
			close(c.done)
			continue
		}
		c.dst, c.hidden, c.n = c.dst[c.take*h.vocab:], c.hidden[c.take*h.hidden:], c.n-c.take
		if c.n > 0 {
			h.waiting.add(c)
			continue
		}
		close(c.done)
		if i+1 < len(h.batch) {
			runtime.Gosched() // that session goes on at once, on one core or another
		}
	}
	h.waiting.computed(h.batch, took)
	clear(h.batch)
}
