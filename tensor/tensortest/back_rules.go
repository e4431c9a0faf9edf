package tensortest

import (
	"math"
	"slices"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// backward: what goes back of a row depends on that row alone, in products, norms,
// activations and experts, wherever it is in a batch; and of a sequence, in attention, on that
// sequence alone. What is not finite in a row's gradient shows there, and nowhere else.
func backward(t *testing.T, d tensor.Device) {
	b := d.(tensor.Backward)
	const n, rows = 21, 37
	for _, f := range quant.All() {
		cols := max(f.Group, 32) * 3
		w := must(d.Load(matrix(f.DType, rows, cols, 241)))
		dy := floats(242, n*rows, 1)
		run := func(dy []float32) []float32 {
			dst := must(d.NewBuffer(len(dy)/rows, cols))
			b.MatMulBack(dst, up(d, len(dy)/rows, rows, dy), len(dy)/rows, w, false)
			return down(d, dst)
		}
		all := run(dy)
		for _, r := range []int{0, 7, 20} {
			if k := differ(run(dy[r*rows:(r+1)*rows]), all[r*cols:(r+1)*cols]); k >= 0 {
				t.Errorf("%v: column %d of row %d differs from the row alone", f.DType, k, r)
			}
		}
		for _, bad := range []float64{math.Inf(1), math.NaN()} {
			spoilt := slices.Clone(dy)
			spoilt[7*rows+3] = float32(bad)
			for i, v := range run(spoilt) {
				if inRow := i/cols == 7; inRow == (v-v == 0) || !inRow && math.Float32bits(v) != math.Float32bits(all[i]) {
					t.Errorf("%v: %v in row 7 makes column %d of row %d %v", f.DType, bad, i%cols, i/cols, v)
					break
				}
			}
		}
	}
	for _, e := range expertsCases() {
		if e.mode == tensor.ActF32 || e.up.Quantised() || e.down.Quantised() {
			continue
		}
		s := e.spec(d)
		all := e.back(d, s, 0, e.n)
		for r := 0; r < e.n; r += 1 + e.n/3 {
			one := e.back(d, s, r, r+1)
			if differ(one[:e.hidden], all[r*e.hidden:][:e.hidden]) >= 0 || differ(one[e.hidden:], all[e.n*e.hidden+r*e.count:][:e.count]) >= 0 {
				t.Errorf("%v: row %d alone has other gradients", e, r)
			}
		}
	}
	for _, a := range attendsBack() {
		if len(a.lengths) == 1 || slices.Max(a.lengths) > 100 {
			continue
		}
		x := a.open(d)
		var rows []tensor.Row
		for seq, n := range a.lengths {
			rows = rowsOf(rows, seq, 0, n)
		}
		all, first := x.back(rows), 0
		for seq, n := range a.lengths {
			wide, narrow := a.heads*a.dim, a.kvHeads*a.dim
			dq := all[first*wide:][:n*wide]
			dk := all[len(rows)*wide+first*narrow:][:n*narrow]
			dv := all[len(rows)*(wide+narrow)+first*narrow:][:n*narrow]
			if differ(x.back(rowsOf(nil, seq, 0, n)), slices.Concat(dq, dk, dv)) >= 0 {
				t.Errorf("%s: sequence %d alone has other gradients", a.name(), seq)
			}
			first += n
		}
	}
}

// backRules checks a device of the arithmetic "exact1" against the rules of going backward,
// written out word by word (package tensor).
func backRules(t *testing.T, d tensor.Device) {
	b := d.(tensor.Backward)
	const rows = 70
	for _, f := range quant.All() {
		cols := max(f.Group, 32)
		m := matrix(f.DType, rows, cols, 251)
		dy, want, row := floats(252, rows, 1), make([]float32, cols), make([]float32, cols)
		for i, g := range dy {
			quant.UnpackRow(row, m, i)
			for j, v := range row {
				want[j] = quickFMA(v, g, want[j])
			}
		}
		dst := up(d, 1, cols, floats(253, cols, 1))
		b.MatMulBack(dst, up(d, 1, rows, dy), 1, must(d.Load(m)), false)
		if k := differ(down(d, dst), want); k >= 0 {
			t.Errorf("%v: column %d of a transposed product is %v, by the rules %v", f.DType, k, down(d, dst)[k], want[k])
		}
	}
	const cols = 100
	x, dy, gain := floats(61, cols, 1), floats(62, cols, 1), floats(63, cols, 1)
	for _, kind := range []tensor.NormKind{tensor.RMSNorm, tensor.LayerNorm} {
		dst := must(d.NewBuffer(1, cols))
		b.NormBack(dst, up(d, 1, cols, x), up(d, 1, cols, dy), 1, tensor.NormSpec{Kind: kind, Gain: must(d.LoadVector(gain)), Eps: 1e-5})
		if k := differ(down(d, dst), ruleNormBack(kind, x, dy, gain, 1e-5)); k >= 0 {
			t.Errorf("norm %d: gradient %d is not by the rules", kind, k)
		}
	}
	for _, a := range []attend{
		{4, 2, 6, 4, []int{20}, nil, variant{window: 7, softcap: 1.5}},
		{2, 1, 2, 0, []int{265}, nil, variant{alibi: true}},
	} {
		x := a.open(d)
		x.attendRules(t)
	}
}

// lanes sums a function of elements in 16 lanes.
func lanes(n int, add func(i int, sum float32) float32) float32 {
	var lane [16]float32
	for i := range n {
		lane[i%16] = add(i, lane[i%16])
	}
	return tree(lane)
}

func ruleNormBack(kind tensor.NormKind, x, dy, gain []float32, eps float32) []float32 {
	n, c := float32(len(x)), slices.Clone(x)
	if kind == tensor.LayerNorm {
		mean := lanes(len(x), func(i int, s float32) float32 { return s + x[i] }) / n
		for i := range c {
			c[i] -= mean
		}
	}
	square := lanes(len(x), func(i int, s float32) float32 { return quickFMA(c[i], c[i], s) })
	inv := 1 / float32(math.Sqrt(float64(float32(square/n)+eps)))
	h, g := make([]float32, len(x)), make([]float32, len(x))
	for i := range x {
		h[i], g[i] = c[i]*inv, dy[i]*gain[i]
	}
	m := lanes(len(x), func(i int, s float32) float32 { return quickFMA(h[i], g[i], s) }) / n
	a := float32(0)
	if kind == tensor.LayerNorm {
		a = lanes(len(x), func(i int, s float32) float32 { return s + g[i] }) / n
	}
	for i := range x {
		g[i] = quickFMA(-h[i], m, g[i]-a) * inv
	}
	return g
}

// attendRules goes back through one sequence. Where it rotates, the rotation of the oracle is
// not to the bit, so gradients are compared before they are turned back: with a Rope whose
// angles are all zero they are the same.
func (x *attention) attendRules(t *testing.T) {
	s, n, hd := x.spec, x.lengths[0], x.dim
	if s.Rope != nil {
		s.Rope = must(x.dev.NewRope(tensor.RopeSpec{HeadDim: hd, RotaryDim: x.rotary, InvFreq: make([]float32, x.rotary/2), Scale: 1}))
		x.spec = s
	}
	wide, narrow, group := x.heads*hd, x.kvHeads*hd, x.heads/x.kvHeads
	var values [5][]float32 // q, k, v, dout, as back makes them
	for kind, width := range map[int]int{1: wide, 2: narrow, 3: narrow, 4: wide} {
		for pos := range n {
			values[kind] = append(values[kind], floats(uint64(kind)<<40|uint64(pos), width, 1)...)
		}
	}
	q, k, v, dout := values[1], values[2], values[3], values[4]
	out := must(x.dev.NewBuffer(n, wide))
	b := &tensor.Batch{Rows: rowsOf(nil, 0, 0, n), Seqs: x.views}
	x.dev.Attend(out, up(x.dev, n, wide, q), up(x.dev, n, narrow, k), up(x.dev, n, narrow, v), x.kv, b, s)
	o := down(x.dev, out)
	dq, dk, dv := make([]float32, n*wide), make([]float32, n*narrow), make([]float32, n*narrow)
	var slopes []float32
	for h := range x.heads {
		slopes = append(slopes, 0.75/float32(int(1)<<h))
	}
	for i := range n {
		first := 0
		if s.Window > 0 {
			first = max(0, i-s.Window+1)
		}
		for h := range x.heads {
			at, shared := i*wide+h*hd, h/group*hd
			score := make([]float32, i+1)
			for j := first; j <= i; j++ {
				dot := float32(0)
				for c := range hd {
					dot = quickFMA(k[j*narrow+shared+c], q[at+c], dot)
				}
				score[j] = dot * s.Scale
				if s.Alibi != nil {
					score[j] += float32(slopes[h] * float32(j))
				}
				if s.Softcap != 0 {
					capped := up(x.dev, 1, 1, score[j:j+1])
					x.dev.Scale(capped, 1, 1, s.Softcap)
					score[j] = down(x.dev, capped)[0]
				}
			}
			var top, sum float32
			for from := first / tensor.AttendSplit * tensor.AttendSplit; from <= i; from += tensor.AttendSplit {
				part := score[max(from, first):min(from+tensor.AttendSplit, i+1)]
				m := slices.Max(part)
				l := lanes(len(part), func(i int, s float32) float32 { return s + exp(part[i]-m) })
				if from <= first {
					top, sum = m, l
					continue
				}
				now := max(top, m)
				sum = quickFMA(sum, exp(top-now), float32(l*exp(m-now)))
				top = now
			}
			inv := 1 / sum
			mean := lanes(hd, func(c int, s float32) float32 { return quickFMA(dout[at+c], o[at+c], s) })
			for j := first; j <= i; j++ {
				p, dp := exp(score[j]-top)*inv, float32(0)
				for c := range hd {
					dp = quickFMA(v[j*narrow+shared+c], dout[at+c], dp)
				}
				ds := p * float32(dp-mean)
				if s.Softcap != 0 {
					r := score[j] / s.Softcap
					ds *= quickFMA(-r, r, 1)
				}
				ds *= s.Scale
				for c := range hd {
					to := j*narrow + shared + c
					dq[at+c] = quickFMA(ds, k[to], dq[at+c])
					dk[to] = quickFMA(ds, q[at+c], dk[to])
					dv[to] = quickFMA(p, dout[at+c], dv[to])
				}
			}
		}
	}
	if i := differ(x.back(b.Rows), slices.Concat(dq, dk, dv)); i >= 0 {
		t.Errorf("%s: gradient %d is not by the rules", x.name(), i)
	}
}

// quickFMA is fma, by arbitrary precision only where float64 may round wrongly.
func quickFMA(a, b, c float32) float32 {
	s := math.FMA(float64(a), float64(b), float64(c))
	if math.Float64bits(s)&(1<<29-1) == 1<<28 || math.Abs(s) < 0x1p-125 {
		return fma(a, b, c)
	}
	return float32(s)
}
