package cpu

import (
	"cmp"

	"whorl/tensor"
)

// expertsBack is a call of ExpertsBack. Rows lie in slots as in Experts; the experts of a
// pass are taken one after the other.
type expertsBack struct {
	*expertsOp
	dy, dlogits *buffer

	weight, grad []float32 // [slots]: what an expert's output is multiplied by, and the gradient by that
	dx           []float32 // [slots][hidden]
}

// ExpertsBack differentiates the chosen experts and what they are weighed by.
func (d *Device) ExpertsBack(dx, dlogits, dy, x, logits tensor.Buffer, n int, s *tensor.ExpertsSpec) {
	d.begin()
	defer d.end()
	spec := *s
	spec.Mode = tensor.ActF32
	op := &d.experts
	op.dst, op.x, op.logits, op.spec = dx.(*buffer), x.(*buffer), logits.(*buffer), &spec
	op.check(n)
	b := expertsBack{expertsOp: op, dy: dy.(*buffer), dlogits: dlogits.(*buffer)}
	if !(b.dy.cols == op.hidden && b.dy.rows >= n && b.dlogits.cols == op.logits.cols && b.dlogits.rows >= n) {
		bug("%d rows back through experts: gradients %dx%d and %dx%d", n, b.dy.rows, b.dy.cols, b.dlogits.rows, b.dlogits.cols)
	}
	// A slot holds its row, its gradient, and the output and three middles of its expert.
	most := max(1, cmp.Or(op.passFloats, expertsPassFloats)/(spec.TopK*(4*op.hidden+4*op.ffn)))
	for op.row0 = 0; op.row0 < n; op.row0 += op.rows {
		op.rows = min(n-op.row0, most)
		b.pass()
	}
	op.release()
}

func (b *expertsBack) pass() {
	slots := b.rows * b.spec.TopK
	b.in.quantised, b.mid.quantised = 0, 0
	b.grow(slots)
	b.weight, b.grad, b.dx = grown(b.weight, slots), grown(b.grad, slots), grown(b.dx, slots*b.hidden)
	b.rowwise(expertsRoute, b.rows)
	b.assign()
	b.rowwise(expertsGather, slots)
	for i, at := range b.slot {
		b.weight[at] = b.expertsOp.weight[i]
	}
	for i, from := 0, 0; i < b.active; i++ {
		b.expert(&b.runs[i], from)
		from += b.runs[i].in.n
	}
	for i := range b.rows {
		b.combine(i)
	}
}

// expert goes back through the expert of a run, whose slots begin at from.
func (b *expertsBack) expert(r *expertRun, from int) {
	d, k, rows := b.d, b.d.k, r.in.n
	wGate, wUp, wDown := r.upProduct[0].Gate, r.upProduct[0].W, r.dnProduct[0].W
	up, gate, mid := newRows(rows, b.ffn), newRows(rows, b.ffn), newRows(rows, b.ffn)
	d.matMul(&r.in, []tensor.Product{{W: wUp, Dst: up}, {W: wGate, Dst: gate}})
	copy(mid.data, gate.data)
	k.activate(b.spec.Act, mid.data)
	k.mul(mid.data, mid.data, up.data)

	y := newRows(rows, b.hidden)
	d.matMul(&act{maxRows: rows, cols: b.ffn, n: rows, mode: tensor.ActF32, x: mid.data}, []tensor.Product{{W: wDown, Dst: y}})
	for i := range rows {
		slot, out := from+i, y.row(i)
		dout := b.dx[slot*b.hidden:][:b.hidden]
		copy(dout, b.dy.row(int(b.row[slot])))
		if b.spec.Scale != 0 {
			k.scale(dout, dout, b.spec.Scale)
		}
		b.grad[slot] = k.dot(dout, out)
		k.scale(out, dout, b.weight[slot]) // the output has been met
	}
	d.matMulBack(mid, y, rows, wDown.(*weight), false)
	d.activateBack(mid, gate, up, rows, b.spec.Act)
	dx := &buffer{rows, b.hidden, b.dx[from*b.hidden : (from+rows)*b.hidden]}
	d.matMulBack(dx, mid, rows, wUp.(*weight), false)
	d.matMulBack(dx, gate, rows, wGate.(*weight), true)
}

// newRows is a buffer for a while.
func newRows(rows, cols int) *buffer { return &buffer{rows, cols, make([]float32, rows*cols)} }

// combine adds up what the experts of row i of the pass gave, and makes the gradient by its
// logits.
func (b *expertsBack) combine(i int) {
	top := b.spec.TopK
	chosen, weight, slot := b.expertsOp.expert[i*top:][:top], b.expertsOp.weight[i*top:][:top], b.slot[i*top:][:top]
	dx, dl := b.dst.row(b.row0+i), b.dlogits.row(b.row0+i)
	clear(dx)
	c := float32(0)
	for j, at := range slot {
		b.d.k.add(dx, dx, b.dx[int(at)*b.hidden:][:b.hidden])
		c = fma32(weight[j], b.grad[at], c)
	}
	if clear(dl); !b.spec.Renormalise {
		copy(dl, b.logits.row(b.row0+i))
		_, l := b.d.k.softmax(dl, 1)
		inv := 1 / l
		for e, v := range dl {
			dl[e] = -float32(float32(v*inv) * c)
		}
	}
	for j, e := range chosen {
		dl[e] = weight[j] * float32(b.grad[slot[j]]-c)
	}
}
