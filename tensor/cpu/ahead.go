package cpu

import (
	"unsafe"

	"whorl/tensor/cpu/pool"
)

// Which weights the next products read first (package pool), the steps before have shown: a
// model's products come in the same order each time.

// forecast tells where the tiles that threads take first begin to read.
type forecast struct {
	products int  // of which it was made,
	gated    bool // the first with a gate
	reads    pool.Forecast

	next *forecast // what came after it last time
}

// expect makes the pool's idle threads read what followed these products last time, and
// notes them as what followed the products before.
func (op *productOp) expect() {
	d := op.d
	w, gated := op.products[0].W.(*weight), op.products[0].Gate != nil
	if op.a.n > op.fewRows(w) || d.pool.Threads() == 1 { // arithmetic rules
		d.before = nil
		d.pool.Expect(nil)
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
	var next *pool.Forecast
	if f.next != nil {
		next = &f.next.reads
	}
	d.pool.Expect(next)
}

// forecast follows the pool: the caller takes tiles from the last on, workers from the
// first on.
func (op *productOp) forecast() *forecast {
	f := &forecast{reads: make(pool.Forecast, op.d.pool.Threads())}
	tiles := op.perPanel()
	for thread := range min(len(f.reads), tiles) {
		tile := thread - 1
		if thread == 0 {
			tile = tiles - 1
		}
		p, b0, nb := op.place(tile)
		f.reads[thread] = append(f.reads[thread], p.W.(*weight).ahead(b0, nb))
		if p.Gate != nil {
			f.reads[thread] = append(f.reads[thread], p.Gate.(*weight).ahead(b0, nb))
		}
	}
	return f
}

// ahead describes the reading of blocks [b0, b0+nb).
func (w *weight) ahead(b0, nb int) pool.Read {
	per, scalesPer := len(w.data)/w.blocks, len(w.scales)/w.blocks
	return pool.Read{
		Values: uintptr(unsafe.Pointer(unsafe.SliceData(w.data))) + uintptr(b0*per),
		Scales: uintptr(unsafe.Pointer(unsafe.SliceData(w.scales))) + uintptr(b0*scalesPer),

		ScaleChunk: pool.AheadChunk * scalesPer / per,
		Chunks:     min(nb*per, pool.AheadMost) / pool.AheadChunk,
	}
}
