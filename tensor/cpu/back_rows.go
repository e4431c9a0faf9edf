package cpu

import "whorl/tensor"

// backRowOp is the task of NormBack and ActivateBack; tile i is row i.
type backRowOp struct {
	d       *Device
	a, b, c *buffer // NormBack: dst, src, dy; ActivateBack: the gradient, gate or nil, up
	act     tensor.Activation
	norm    bool
	kind    tensor.NormKind
	gain    []float32
	eps     float32
}

// NormBack differentiates a norm by its argument.
func (d *Device) NormBack(dst, src, dy tensor.Buffer, n int, s tensor.NormSpec) {
	d.begin()
	defer d.end()
	op := &backRowOp{d: d, a: dst.(*buffer), b: src.(*buffer), c: dy.(*buffer), norm: true, kind: s.Kind, gain: floatsOf(s.Gain), eps: s.Eps}
	for _, x := range [...]*buffer{op.a, op.c} {
		if !(x.cols == op.b.cols && n <= x.rows && n <= op.b.rows) {
			bug("%d rows back through a norm of %dx%d: %dx%d", n, op.b.rows, op.b.cols, x.rows, x.cols)
		}
	}
	if g := len(op.gain); !(g > 0 && op.b.cols%g == 0) {
		bug("back through a norm of rows of %d in groups of %d", op.b.cols, g)
	}
	d.rowwise(op, n)
}

// ActivateBack differentiates an activation and what it is a gate of.
func (d *Device) ActivateBack(dm, gate, up tensor.Buffer, n int, act tensor.Activation) {
	d.begin()
	defer d.end()
	var g *buffer
	if gate != nil {
		g = gate.(*buffer)
	}
	d.activateBack(dm.(*buffer), g, up.(*buffer), n, act)
}

func (d *Device) activateBack(dm, gate, up *buffer, n int, act tensor.Activation) {
	for _, x := range [...]*buffer{dm, gate} {
		if x != nil && !(x.cols == up.cols && n <= x.rows && n <= up.rows) {
			bug("%d rows back through an activation of %dx%d: %dx%d", n, up.rows, up.cols, x.rows, x.cols)
		}
	}
	d.rowwise(&backRowOp{d: d, a: dm, b: gate, c: up, act: act}, n)
}

func (op *backRowOp) Tile(worker, r int) {
	k := op.d.k
	if !op.norm {
		if op.b == nil {
			op.activation(&op.d.scratch[worker], op.a.row(r), op.c.row(r))
		} else {
			op.gate(&op.d.scratch[worker], op.a.row(r), op.b.row(r), op.c.row(r))
		}
		return
	}
	g := len(op.gain)
	dst, src, dy := op.a.row(r), op.b.row(r), op.c.row(r)
	for i := 0; i < len(src); i += g {
		if op.kind == tensor.RMSNorm {
			k.rmsNormBack(dst[i:i+g], src[i:i+g], dy[i:i+g], op.gain, op.eps)
		} else {
			k.layerNormBack(dst[i:i+g], src[i:i+g], dy[i:i+g], op.gain, op.eps)
		}
	}
}

// activation is d = d*act'(x), a piece at a time by way of the scratch.
func (op *backRowOp) activation(s *scratch, d, x []float32) {
	k := op.d.k
	for len(d) > 0 {
		n := min(len(d), len(s.gate))
		t := s.gate[:n]
		copy(t, x)
		k.slope(op.act, t)
		k.mul(d[:n], d[:n], t)
		d, x = d[n:], x[n:]
	}
}

// gate is gate = (d*up)*act'(gate) and d = d*act(gate), with the gate before.
func (op *backRowOp) gate(s *scratch, d, gate, up []float32) {
	k := op.d.k
	for len(d) > 0 {
		n := min(len(d), len(s.gate))
		y, t, g := s.gate[:n], s.acc[:n], gate[:n]
		copy(y, g)
		k.activate(op.act, y)
		k.mul(t, d[:n], up[:n])
		k.slope(op.act, g)
		k.mul(g, t, g)
		k.mul(d[:n], d[:n], y)
		d, gate, up = d[n:], gate[n:], up[n:]
	}
}

// slope replaces x by the derivative of an activation.
func (k *kernels) slope(a tensor.Activation, x []float32) {
	switch a {
	case tensor.SiLU:
		k.siluSlope(x)
	case tensor.GELU:
		k.geluSlope(x)
	case tensor.GELUTanh:
		k.geluTanhSlope(x)
	default:
		for i := range x {
			x[i] = 1
		}
	}
}
