package cpu

import "whorl/tensor"

// pointOp is the task of Add, Activate, Scale and Round; tile i is row i.
type pointOp struct {
	d        *Device
	kind     pointKind
	dst, src *buffer // src: what is added, or the gate; may be nil
	rows     []int32
	act      tensor.Activation
	factor   float32
	softcap  float32
}

type pointKind uint8

const (
	pointAdd pointKind = iota
	pointActivate
	pointScale
	pointRound
)

// Add adds scaled rows.
func (d *Device) Add(to, from tensor.Buffer, rows []int32, n int, scale float32) {
	d.begin()
	defer d.end()
	dst, src := to.(*buffer), from.(*buffer)
	if !(dst.cols == src.cols && n <= src.rows && (rows == nil && n <= dst.rows || rows != nil && n == len(rows))) {
		bug("add %d rows of %dx%d to %dx%d, %d of them named", n, src.rows, src.cols, dst.rows, dst.cols, len(rows))
	}
	for _, r := range rows {
		if !(r >= 0 && int(r) < dst.rows) {
			bug("add to row %d of %d", r, dst.rows)
		}
	}
	d.pointwise(pointOp{kind: pointAdd, dst: dst, src: src, rows: rows, factor: scale}, n)
}

// Activate applies an activation.
func (d *Device) Activate(to, gate tensor.Buffer, n int, act tensor.Activation) {
	d.begin()
	defer d.end()
	op := pointOp{kind: pointActivate, dst: to.(*buffer), act: act}
	if gate != nil {
		op.src = gate.(*buffer)
		if !(op.src.cols == op.dst.cols && n <= op.src.rows) {
			bug("activate %d rows of %d by a gate %dx%d", n, op.dst.cols, op.src.rows, op.src.cols)
		}
	}
	if !(n <= op.dst.rows) {
		bug("activate %d rows of %d", n, op.dst.rows)
	}
	d.pointwise(op, n)
}

// Scale multiplies and caps.
func (d *Device) Scale(to tensor.Buffer, n int, factor, softcap float32) {
	d.begin()
	defer d.end()
	dst := to.(*buffer)
	if !(n <= dst.rows && softcap >= 0) {
		bug("scale %d rows of %d, capped at %v", n, dst.rows, softcap)
	}
	d.pointwise(pointOp{kind: pointScale, dst: dst, factor: factor, softcap: softcap}, n)
}

// Round rounds to bfloat16.
func (d *Device) Round(to tensor.Buffer, n int) {
	d.begin()
	defer d.end()
	dst := to.(*buffer)
	if !(n <= dst.rows) {
		bug("round %d rows of %d", n, dst.rows)
	}
	d.pointwise(pointOp{kind: pointRound, dst: dst}, n)
}

func (d *Device) pointwise(op pointOp, n int) {
	op.d = d
	d.point = op
	d.rowwise(&d.point, n)
	d.point = pointOp{}
}

func (op *pointOp) Tile(worker, i int) {
	k := op.d.k
	switch op.kind {
	case pointAdd:
		to := i
		if op.rows != nil {
			to = int(op.rows[i])
		}
		op.add(&op.d.scratch[worker], op.dst.row(to), op.src.row(i))
	case pointActivate:
		y := op.dst.row(i)
		if op.src == nil {
			k.activate(op.act, y)
			return
		}
		op.gate(&op.d.scratch[worker], y, op.src.row(i))
	case pointRound:
		k.round(op.dst.row(i))
	case pointScale:
		y := op.dst.row(i)
		if op.factor != 1 {
			k.scale(y, y, op.factor)
		}
		if op.softcap != 0 {
			k.softcap(y, op.softcap)
		}
	}
}

// add is y += factor*x, a piece at a time by way of the scratch.
func (op *pointOp) add(s *scratch, y, x []float32) {
	k := op.d.k
	if op.factor == 1 {
		k.add(y, y, x)
		return
	}
	for len(y) > 0 {
		n := min(len(y), len(s.acc))
		k.scale(s.acc[:n], x[:n], op.factor)
		k.add(y[:n], y[:n], s.acc[:n])
		y, x = y[n:], x[n:]
	}
}

// gate is y = act(x)*y; x stays.
func (op *pointOp) gate(s *scratch, y, x []float32) {
	k := op.d.k
	for len(y) > 0 {
		n := min(len(y), len(s.gate))
		g := s.gate[:n]
		copy(g, x)
		k.activate(op.act, g)
		k.mul(y[:n], g, y[:n])
		y, x = y[n:], x[n:]
	}
}
