package cpu

import (
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/cpu/pool"
)

// tilePlace is where a tile lies: outputs [from, to) of rows [r0, r0+rows), which are blocks
// [b0, b0+nb) of the weight. It has no rows where there is nothing but padding.
type tilePlace struct {
	p                          *tensor.Product
	b0, nb, from, to, r0, rows int

	// direct tells that the kernel itself brings sums to their place, where nothing else is
	// done to them: the lines are asked for while it works, and a walk over them is spared.
	direct bool
}

func (op *productOp) tileAt(i int) (t tilePlace) {
	perPanel := op.perPanel()
	panel, i := i/perPanel, i%perPanel
	t.p, t.b0, t.nb = op.place(i)
	w := t.p.W.(*weight)
	t.from, t.to = t.b0*lanes, min((t.b0+t.nb)*lanes, w.rows)
	if rows := (op.a.n + op.panels - 1) / op.panels; t.from < t.to {
		t.r0 = panel * rows
		t.rows = max(min(rows, op.a.n-t.r0), 0)
		t.direct = op.panelled(w, t.rows) && t.to-t.from == t.nb*lanes && plain(t.p)
	}
	return t
}

func (op *productOp) Tile(worker, i int) {
	op.Compute(worker, i)
	op.Store(worker, i)
}

// Patience supposes memory at 8 GB/s for a thread, and rounds of a microsecond.
func (op *productOp) Patience() int {
	if op.d.hasty {
		return 0
	}
	most := 0
	for i := range op.products {
		p := &op.products[i]
		bytes := int(p.W.Bytes()) / p.W.(*weight).blocks * op.cuts[i].blocks
		if p.Gate != nil {
			bytes *= 2
		}
		most = max(most, bytes)
	}
	return most/(8<<10)*(8+op.a.n)/8 + pool.CallerRounds
}

// Compute makes the products of a tile, before all else that is done to them.
func (op *productOp) Compute(worker, i int) {
	s, to := &op.d.scratch[worker], outcome{}
	t := &s.tile
	*t = op.tileAt(i)
	if t.rows == 0 {
		return
	}
	if t.direct {
		to = outcome{t.p.Dst.(*buffer), t.p.Residual != nil}
	}
	p := piece{t.b0, t.nb, t.r0, t.rows, to}
	op.multiply(s, s.acc, t.p.W.(*weight), p)
	if t.p.Gate != nil {
		p.to = outcome{}
		op.multiply(s, s.gate, t.p.Gate.(*weight), p)
	}
}

// Store does to the products that the thread has computed what is to be done to them, and
// writes the results.
func (op *productOp) Store(worker, _ int) {
	s, k := &op.d.scratch[worker], op.d.k
	t := &s.tile
	if t.direct || t.rows == 0 {
		return
	}
	p := t.p
	from, to, stride, dst := t.from, t.to, t.nb*lanes, p.Dst.(*buffer)
	for r := range t.rows {
		y, out := s.acc[r*stride:][:to-from], dst.row(t.r0 + r)[from:to]
		if r+rowsAhead < t.rows {
			pool.Fetch(uintptr(unsafe.Pointer(&dst.row(t.r0 + r + rowsAhead)[from])), 4*len(out))
		}
		if p.Bias != nil {
			k.add(y, y, floatsOf(p.Bias)[from:to])
		}
		if p.Gate != nil {
			g := s.gate[r*stride:][:to-from]
			if p.GateBias != nil {
				k.add(g, g, floatsOf(p.GateBias)[from:to])
			}
			k.activate(p.Act, g)
			if p.Scale == 0 && p.Residual == nil {
				k.mul(out, g, y)
				continue
			}
			k.mul(y, g, y)
		} else {
			k.activate(p.Act, y)
		}
		if p.Scale != 0 {
			k.scale(y, y, p.Scale)
		}
		if p.Residual != nil {
			k.add(out, p.Residual.(*buffer).row(t.r0 + r)[from:to], y)
		} else {
			copy(out, y)
		}
	}
}

// outcome is where a kernel stores the sums of a tile, or to what it adds them: rows of a
// buffer, or if dst is nil nowhere but the thread's scratch.
type outcome struct {
	dst *buffer
	add bool
}

// plain tells whether a product's results are its sums, or these added to what is there.
func plain(p *tensor.Product) bool {
	return p.Bias == nil && p.Gate == nil && p.Act == tensor.NoActivation && p.Scale == 0 &&
		(p.Residual == nil || p.Residual == p.Dst)
}

func (k *kernels) activate(a tensor.Activation, x []float32) {
	switch a {
	case tensor.SiLU:
		k.silu(x)
	case tensor.GELU:
		k.gelu(x)
	case tensor.GELUTanh:
		k.geluTanh(x)
	}
}

func (op *productOp) multiply(s *scratch, acc []float32, w *weight, p piece) {
	acc = acc[:p.rows*p.nb*lanes]
	clear(acc)
	w.layout.multiply(op, s, acc, w, p)
}

// fewRows is up to how many rows the weights are multiplied as they lie.
func (op *productOp) fewRows(w *weight) int {
	if w.form.under(op.a.mode) == inGroups {
		return fewTurns * op.d.k.eightRows
	}
	return fewTurns * maxTileRows
}

// panelled tells whether so many rows meet the weights in panels of bytes.
func (op *productOp) panelled(w *weight, rows int) bool {
	return w.form.under(op.a.mode) == inGroups && rows > op.fewRows(w) && op.d.k.groups[w.dtype].expand != nil
}

// together is how many of nb blocks rows meet before they turn to the next: all, or where
// they are more than a kernel takes and take turns, two, which stay in a cache meanwhile.
func together(rows, most, nb int) int {
	if rows > most {
		return 2
	}
	return nb
}
