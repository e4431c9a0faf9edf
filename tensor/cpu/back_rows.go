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

func (op *backRowOp) Tile(_, r int) {
	if !op.norm {
		if op.b == nil {
			genericActivateBack(op.act, op.a.row(r), op.c.row(r))
		} else {
			genericGateBack(op.act, op.a.row(r), op.b.row(r), op.c.row(r))
		}
		return
	}
	g := len(op.gain)
	dst, src, dy := op.a.row(r), op.b.row(r), op.c.row(r)
	for i := 0; i < len(src); i += g {
		if op.kind == tensor.RMSNorm {
			genericRMSNormBack(dst[i:i+g], src[i:i+g], dy[i:i+g], op.gain, op.eps)
		} else {
			genericLayerNormBack(dst[i:i+g], src[i:i+g], dy[i:i+g], op.gain, op.eps)
		}
	}
}

func genericRMSNormBack(dst, src, dy, gain []float32, eps float32) {
	var acc [lanes]float32
	for i, v := range src {
		acc[i%lanes] = fma32(v, v, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/float32(len(src))+eps)
	acc = [lanes]float32{}
	for i, v := range src {
		acc[i%lanes] = fma32(float32(v*inv), float32(dy[i]*gain[i]), acc[i%lanes])
	}
	m := tree(&acc) / float32(len(src))
	for i, v := range src {
		dst[i] = fma32(-float32(v*inv), m, float32(dy[i]*gain[i])) * inv
	}
}

func genericLayerNormBack(dst, src, dy, gain []float32, eps float32) {
	var acc, sum [lanes]float32
	n := float32(len(src))
	for i, v := range src {
		acc[i%lanes] += v
	}
	mean := tree(&acc) / n
	acc = [lanes]float32{}
	for i, v := range src {
		c := v - mean
		acc[i%lanes] = fma32(c, c, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/n+eps)
	acc = [lanes]float32{}
	for i, v := range src {
		t := float32(dy[i] * gain[i])
		acc[i%lanes] = fma32(float32((v-mean)*inv), t, acc[i%lanes])
		sum[i%lanes] += t
	}
	m, a := tree(&acc)/n, tree(&sum)/n
	for i, v := range src {
		h := float32((v - mean) * inv)
		dst[i] = fma32(-h, m, float32(dy[i]*gain[i])-a) * inv
	}
}

// genericActivateBack is d = d*act'(x).
func genericActivateBack(act tensor.Activation, d, x []float32) {
	for i, v := range x {
		d[i] *= slope32(act, v)
	}
}

// genericGateBack is d = d*act(gate) and gate = (d*up)*act'(gate), with the d before.
func genericGateBack(act tensor.Activation, d, gate, up []float32) {
	for i, v := range gate {
		dy, y := d[i], v
		switch act {
		case tensor.SiLU:
			y = silu32(v)
		case tensor.GELU:
			y = gelu32(v)
		case tensor.GELUTanh:
			y = geluTanh32(v)
		}
		d[i] = dy * y
		gate[i] = float32(dy*up[i]) * slope32(act, v)
	}
}

// slopeMax bounds the argument of slope32: beyond it derivatives are 0 or 1, and products of
// an infinity with a zero would make them NaN.
const slopeMax = 100

// slope32 is the derivative of an activation.
func slope32(act tensor.Activation, x float32) float32 {
	if act == tensor.NoActivation {
		return 1
	}
	if x > slopeMax {
		x = slopeMax
	}
	if x < -slopeMax {
		x = -slopeMax
	}
	switch act {
	case tensor.SiLU:
		s := 1 / (1 + exp32(-x))
		return fma32(float32(x*s), 1-s, s)
	case tensor.GELUTanh:
		q := float32(x * x)
		s := 1 / (1 + exp32(float32(x*fma32(q, geluK1, geluK0))))
		return fma32(float32(float32(x*s)*(1-s)), -fma32(q, 3*geluK1, geluK0), s)
	}
	density := float32(exp32(float32(float32(x*x)*-0.5)) * invSqrt2Pi)
	return fma32(x, density, float32(0.5*erf1(x)))
}

const invSqrt2Pi = 0.3989422804014327 // (2*pi)^-1/2
