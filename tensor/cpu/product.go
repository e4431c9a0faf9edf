package cpu

import (
	"runtime"

	"whorl/tensor"
)

const (
	// maxTileRows is how many activation rows a kernel multiplies at once: it keeps their
	// accumulators in registers.
	maxTileRows = 12
	// wideTileRows is as much where weights and rows are in 8 bits or fewer: reading these
	// weights once is worth a way to memory for the accumulators.
	wideTileRows = 16
	// maxTileCols is how many output features a tile has at most.
	maxTileCols = 256
	// fewTurns is how often the rows of a kernel may take turns at weights as they lie, which
	// lets reading overlap with the arithmetic. For more, panels are made first (panel.go).
	fewTurns = 4
	// maxPanelCols is how many output features a tile has at most then.
	maxPanelCols = 128
	// rowPanel is how many activation rows a tile covers at most: the sums of a tile and a
	// run of columns of its rows (see panel.go) stay in the second-level cache.
	rowPanel = 256
	// tilesPerThread is how many tiles a thread should find at least, so that the threads
	// end together although one may be slower.
	tilesPerThread = 6
	// rowsAhead is how many rows before a row of results is written its memory is asked for.
	rowsAhead = 8
)

// productOp is the task of MatMul. Of few rows its tiles may be taken over.
type productOp struct {
	d        *Device
	a        *act
	in       act // what a points to in MatMul: the caller's may be prepared anew meanwhile
	products []tensor.Product
	cuts     []cut
	panels   int // of rows
}

// cut says how the rows of one weight are shared out.
type cut struct {
	first  int // first tile of this product, counted in one row panel
	blocks int // of a tile
}

// MatMul runs products on prepared rows.
func (d *Device) MatMul(to tensor.Act, products []tensor.Product) {
	d.begin()
	defer d.end()
	d.matMul(to.(*act), products)
}

func (d *Device) matMul(a *act, products []tensor.Product) {
	forms := rowForm(0)
	for i := range products {
		forms |= d.checkProduct(a, &products[i])
	}
	if a.n == 0 {
		return
	}
	if missing := forms.under(a.mode) &^ a.quantised; missing != 0 {
		d.fill(a, missing)
	}
	slot := d.pool.FreeSlot()
	op := &d.products[slot]
	op.in = *a
	op.a, op.products = &op.in, append(op.products[:0], products...)
	tiles := op.share() * op.panels
	op.expect()
	over := true
	// No kernel stores what few rows give, so that a tile may be computed twice.
	if a.n <= fewTurns*maxTileRows && d.k.opaque {
		over = d.pool.RunSteps(op, slot, tiles)
	} else {
		d.pool.Run(op, tiles)
	}
	if over { // else a thread may still read what these say; they are forgotten with the next
		clear(op.products)
		op.in = act{}
	}
	runtime.KeepAlive(products)
}

// checkProduct panics on operands that do not fit, and tells in which forms its weights
// meet rows.
func (d *Device) checkProduct(a *act, p *tensor.Product) rowForm {
	w, dst := p.W.(*weight), p.Dst.(*buffer)
	if !(w.cols == a.cols) {
		bug("product of %dx%d with rows of %d", w.rows, w.cols, a.cols)
	}
	if !(dst.cols == w.rows && dst.rows >= a.n) {
		bug("product of %d rows x %d into a buffer %dx%d", a.n, w.rows, dst.rows, dst.cols)
	}
	if !(p.Bias == nil || p.Bias.Len() == w.rows) {
		bug("bias does not fit %d outputs", w.rows)
	}
	forms := w.form
	if p.Gate != nil {
		g := p.Gate.(*weight)
		if !(g.rows == w.rows && g.cols == w.cols) {
			bug("gate %dx%d beside %dx%d", g.rows, g.cols, w.rows, w.cols)
		}
		if !(p.GateBias == nil || p.GateBias.Len() == g.rows) {
			bug("gate bias does not fit %d outputs", g.rows)
		}
		forms |= g.form
	}
	if p.Residual != nil {
		r := p.Residual.(*buffer)
		if !(r.cols == w.rows && r.rows >= a.n) {
			bug("residual %dx%d for %d rows x %d", r.rows, r.cols, a.n, w.rows)
		}
	}
	return forms
}

// share cuts the products in tiles and gives their number in one row panel. The cut does
// not touch the result: a lane's sum never depends on it.
func (op *productOp) share() int {
	total := 0
	for i := range op.products {
		total += op.products[i].W.(*weight).blocks
	}
	op.panels = (op.a.n + rowPanel - 1) / rowPanel
	want, most := op.d.pool.Threads()*tilesPerThread, maxTileCols/lanes
	if op.a.n > op.fewRows(op.products[0].W.(*weight)) {
		most = maxPanelCols / lanes
	}
	blocks := total * op.panels / want &^ 1
	blocks = min(max(blocks, 2), most)
	op.cuts = op.cuts[:0]
	tiles := 0
	for i := range op.products {
		w := op.products[i].W.(*weight)
		op.cuts = append(op.cuts, cut{first: tiles, blocks: blocks})
		tiles += (w.blocks + blocks - 1) / blocks
	}
	return tiles
}

// perPanel is the number of tiles in a row panel.
func (op *productOp) perPanel() int {
	last := op.cuts[len(op.cuts)-1]
	return last.first + (op.products[len(op.cuts)-1].W.(*weight).blocks+last.blocks-1)/last.blocks
}

// place is where tile i of a row panel lies: blocks [b0, b0+nb) of a product.
func (op *productOp) place(i int) (p *tensor.Product, b0, nb int) {
	c := len(op.cuts) - 1
	for op.cuts[c].first > i {
		c--
	}
	p = &op.products[c]
	b0 = (i - op.cuts[c].first) * op.cuts[c].blocks
	return p, b0, min(op.cuts[c].blocks, p.W.(*weight).blocks-b0)
}
