package tensortest

import (
	"fmt"
	"math"
	"slices"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// casesFor are all cases that a device can run.
func casesFor(d tensor.Device) []testCase {
	out := cases()
	if _, ok := d.(tensor.Backward); ok {
		out = append(out, backCases()...)
	}
	return out
}

// backCases are those of [tensor.Backward].
func backCases() []testCase {
	var out []testCase
	for _, f := range quant.All() {
		for i, s := range shapes(max(f.Group, 32)) {
			out = append(out, productBack(f.DType, s, i%2 == 1))
		}
	}
	out = append(out, productBack(tensor.F32, shape{300, 150, 300}, false), productBack(tensor.BF16, shape{9, 300, 37}, true)) // more than one panel
	for _, act := range []tensor.Activation{tensor.NoActivation, tensor.SiLU, tensor.GELU, tensor.GELUTanh} {
		out = append(out, activateBack(act, false), activateBack(act, true))
	}
	for _, cols := range []int{32, 64, 96, 576, 1000} {
		out = append(out, normBack(tensor.RMSNorm, cols, cols), normBack(tensor.LayerNorm, cols, cols))
	}
	out = append(out, normBack(tensor.RMSNorm, 128, 32))
	for _, a := range attendsBack() {
		out = append(out, a.backCase())
	}
	for _, e := range expertsCases() {
		if e.mode == tensor.ActF32 || !e.up.Quantised() && !e.down.Quantised() {
			out = append(out, e.backCase())
		}
	}
	return out
}

// relative makes a case whose tolerance is of the greatest output.
func relative(name string, tol float64, run func(d tensor.Device) []float32) testCase {
	return testCase{name: name, tol: tol, run: func(d tensor.Device) ([]float32, float64) {
		out := run(d)
		greatest := float32(0)
		for _, v := range out {
			greatest = max(greatest, v, -v)
		}
		return out, float64(greatest)
	}}
}

func productBack(t tensor.DType, s shape, add bool) testCase {
	return testCase{
		name: fmt.Sprintf("matmul-back/%v/%dx%dx%d/add=%v", t, s.n, s.rows, s.cols, add),
		tol:  8 * math.Sqrt(float64(s.rows)) * 0x1p-24,
		run: func(d tensor.Device) ([]float32, float64) {
			w := must(d.Load(matrix(t, s.rows, s.cols, 201)))
			dst := up(d, s.n, s.cols, floats(202, s.n*s.cols, 1))
			d.(tensor.Backward).MatMulBack(dst, up(d, s.n, s.rows, floats(203, s.n*s.rows, 1)), s.n, w, add)
			return down(d, dst), 0.1 * float64(s.rows)
		},
	}
}

func normBack(kind tensor.NormKind, cols, group int) testCase {
	const n = 3
	return testCase{
		name: fmt.Sprintf("norm-back/%d/%d/%d", kind, cols, group), tol: 16 * math.Sqrt(float64(group)) * 0x1p-24,
		run: func(d tensor.Device) ([]float32, float64) {
			s := tensor.NormSpec{Kind: kind, Gain: must(d.LoadVector(floats(211, group, 1))), Eps: 1e-5}
			x, dy := up(d, n, cols, floats(212, n*cols, 2)), up(d, n, cols, floats(213, n*cols, 1))
			dst := must(d.NewBuffer(n, cols))
			d.(tensor.Backward).NormBack(dst, x, dy, n, s)
			d.(tensor.Backward).NormBack(dy, x, dy, n, s) // in place
			return append(down(d, dst), down(d, dy)...), 4
		},
	}
}

func activateBack(act tensor.Activation, gated bool) testCase {
	const n, cols = 5, 70
	return testCase{
		name: fmt.Sprintf("activate-back/%d/gate=%v", act, gated), tol: 32 * 0x1p-24,
		run: func(d tensor.Device) ([]float32, float64) {
			grad, x, u := up(d, n, cols, floats(221, n*cols, 2)), up(d, n, cols, steep(222, n*cols)), up(d, n, cols, floats(223, n*cols, 2))
			if !gated {
				d.(tensor.Backward).ActivateBack(grad, nil, x, n, act)
				return down(d, grad), 8
			}
			d.(tensor.Backward).ActivateBack(grad, x, u, n, act)
			return append(down(d, grad), down(d, x)...), 32
		},
	}
}

// steep are values where activations bend, and where they no longer do.
func steep(seed uint64, n int) []float32 {
	v := floats(seed, n, 3)
	copy(v, []float32{0, 1e-30, -1e-30, 1, -1, 9, -9, 14, -14, 40, -40, 88, -88, 99, -101, 1e4, -1e4, 3e38, -3e38})
	return v
}

// attendsBack are cases of attention over whole sequences, of which the longest reach just
// into the second split.
func attendsBack() []attend {
	some := slices.Clone(attends)
	for i, a := range some {
		some[i].lengths = slices.Clone(a.lengths)
		for j, n := range a.lengths {
			if n > 300 {
				some[i].lengths[j] = 262 + 5*i%11
			}
		}
	}
	return append(some, attend{2, 1, 8, 8, []int{530}, nil, variant{window: 300}}) // a split seen in part
}

// backCase goes back through attention over whole sequences.
func (a attend) backCase() testCase {
	a.variant.cache = tensor.F32
	return relative("back/"+a.name(), 1024*0x1p-24, func(d tensor.Device) []float32 {
		x := a.open(d)
		var rows []tensor.Row
		for seq, n := range a.lengths {
			rows = rowsOf(rows, seq, 0, n)
		}
		return x.back(rows)
	})
}

// back attends rows, which are whole sequences, and gives dq, dk and dv.
func (x *attention) back(rows []tensor.Row) []float32 {
	n, d := len(rows), x.dev
	values := func(kind uint64, width int) tensor.Buffer {
		var all []float32
		for _, r := range rows {
			all = append(all, floats(kind<<40|uint64(r.Seq)<<32|uint64(r.Pos), width, 1)...)
		}
		return up(d, n, width, all)
	}
	wide, narrow := x.heads*x.dim, x.kvHeads*x.dim
	q, k, v, dout, out := values(1, wide), values(2, narrow), values(3, narrow), values(4, wide), must(d.NewBuffer(n, wide))
	b := &tensor.Batch{Rows: rows, Seqs: x.views}
	s := x.spec
	s.Totals = must(d.NewBuffer(n, 2*x.heads))
	d.Attend(out, q, k, v, x.kv, b, s)
	dq, dk, dv := must(d.NewBuffer(n, wide)), must(d.NewBuffer(n, narrow)), must(d.NewBuffer(n, narrow))
	d.(tensor.Backward).AttendBack(dq, dk, dv, dout, out, q, k, v, b, s)
	return append(append(down(d, dq), down(d, dk)...), down(d, dv)...)
}

// backCase goes back through experts.
func (e experts) backCase() testCase {
	return relative("back/"+e.String(), 64*math.Sqrt(float64(e.hidden+e.ffn))*0x1p-24, func(d tensor.Device) []float32 {
		return e.back(d, e.spec(d), 0, e.n)
	})
}

// back gives the gradients of rows [from, to): by x, and by the logits.
func (e experts) back(d tensor.Device, s *tensor.ExpertsSpec, from, to int) []float32 {
	rows := func(v []float32) tensor.Buffer {
		cols := len(v) / e.n
		return up(d, to-from, cols, v[from*cols:to*cols])
	}
	dx, dl := must(d.NewBuffer(to-from, e.hidden)), must(d.NewBuffer(to-from, e.count))
	d.(tensor.Backward).ExpertsBack(dx, dl, rows(floats(94, e.n*e.hidden, 1)), rows(e.x()), rows(e.logits()), to-from, s)
	return append(down(d, dx), down(d, dl)...)
}
