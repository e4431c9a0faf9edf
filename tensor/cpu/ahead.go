package cpu

import "unsafe"

// The memory must not rest while threads do: a decode step is as slow as the reading of its
// weights. Between products one thread normalises rows or waits for another's last tile, so
// the waiting ones ask for what the next products read first. Which these are the steps
// before have shown: a model's products come in the same order each time. Whether they
// guess right changes no result.

const (
	// aheadMost is how many bytes of values a thread asks for ahead at most: far less than a
	// second-level cache, far more than memory gives between two products.
	aheadMost = 256 << 10
	// aheadChunk is how many it asks for before it looks for work again: well under 0.1 µs.
	aheadChunk = 1 << 10
)

// forecast tells where the tiles that threads take first begin to read.
type forecast struct {
	products int  // of which it was made,
	gated    bool // the first with a gate
	reads    []aheadRead

	next *forecast // what came after it last time; the caller's, workers do not look
}

// aheadRead is what one thread reads first, in the order of its kernels.
type aheadRead []aheadRun

// aheadRun is a run of blocks of a weight: values, and scales in step with them.
type aheadRun struct {
	values, scales uintptr // addresses; the memory may be gone
	scaleChunk     int     // bytes of scales to a chunk of values
	chunks         int
}

// expect makes the pool's idle threads read what followed these products last time, and
// notes them as what followed the products before.
func (op *productOp) expect() {
	d := op.d
	w, gated := op.products[0].W.(*weight), op.products[0].Gate != nil
	if op.a.n > op.fewRows(w) || d.pool.threads == 1 { // arithmetic rules
		d.before = nil
		d.pool.ahead.Store(nil)
		return
	}
	f := w.forecast
	if f == nil || f.products != len(op.products) || f.gated != gated {
		f = op.forecast()
		f.products, f.gated = len(op.products), gated
		w.forecast = f
	}
	if d.before != nil {
		d.before.next = f
	}
	d.before = f
	d.pool.ahead.Store(f.next)
}

// forecast follows the pool: the caller takes tiles from the last on, workers from the
// first on.
func (op *productOp) forecast() *forecast {
	f := &forecast{reads: make([]aheadRead, op.d.pool.threads)}
	tiles := op.perPanel()
	for thread := range min(op.d.pool.threads, tiles) {
		tile := thread - 1
		if thread == 0 {
			tile = tiles - 1
		}
		p, b0, nb := op.place(tile)
		read := aheadRead{p.W.(*weight).ahead(b0, nb)}
		if p.Gate != nil {
			read = append(read, p.Gate.(*weight).ahead(b0, nb))
		}
		f.reads[thread] = read
	}
	return f
}

// ahead describes the reading of blocks [b0, b0+nb).
func (w *weight) ahead(b0, nb int) aheadRun {
	values, scales := w.memory()
	per, scalesPer := len(values)/w.blocks, len(scales)/w.blocks
	return aheadRun{
		values: uintptr(unsafe.Pointer(unsafe.SliceData(values))) + uintptr(b0*per),
		scales: uintptr(unsafe.Pointer(unsafe.SliceData(scales))) + uintptr(b0*scalesPer),

		scaleChunk: aheadChunk * scalesPer / per,
		chunks:     min(nb*per, aheadMost) / aheadChunk,
	}
}

// reader is one thread's progress through forecasts.
type reader struct {
	of      *forecast
	run, at int
}

// read asks for the next chunk of what a thread reads first by f, and reports whether
// there was one.
func (r *reader) read(f *forecast, thread int) bool {
	if f == nil {
		return false
	}
	if r.of != f {
		*r = reader{of: f}
	}
	for ; r.run < len(f.reads[thread]); r.run, r.at = r.run+1, 0 {
		if run := &f.reads[thread][r.run]; r.at < run.chunks {
			fetch(run.values+uintptr(r.at*aheadChunk), aheadChunk)
			fetch(run.scales+uintptr(r.at*run.scaleChunk), run.scaleChunk)
			r.at++
			return true
		}
	}
	return false
}
