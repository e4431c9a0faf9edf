package tensortest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// experts is a case of Experts: formats of the two products, rows, sizes and routing.
type experts struct {
	up, down         tensor.DType
	n, hidden, ffn   int
	count, topK      int
	act              tensor.Activation
	renormalise, tie bool // tie: logits of few values, so that many are equal
	mode             tensor.Activations
	scale            float32
}

func expertsCases() []experts {
	out := []experts{
		{up: tensor.F32, down: tensor.F32, n: 1, hidden: 1, ffn: 1, count: 1, topK: 1},
		{up: tensor.F32, down: tensor.F32, n: 3, hidden: 17, ffn: 5, count: 4, topK: 2, act: tensor.SiLU, renormalise: true},
		{up: tensor.F32, down: tensor.BF16, n: 9, hidden: 70, ffn: 33, count: 5, topK: 5, act: tensor.GELUTanh, scale: 0.4},
		{up: tensor.BF16, down: tensor.F16, n: 40, hidden: 48, ffn: 40, count: 7, topK: 3, act: tensor.GELU, tie: true, renormalise: true},
		{up: tensor.F32, down: tensor.F32, n: 150, hidden: 40, ffn: 20, count: 3, topK: 1, act: tensor.SiLU}, // more rows than a panel
		{up: tensor.F32, down: tensor.Q8_0, n: 6, hidden: 45, ffn: 32, count: 70, topK: 8, act: tensor.SiLU, tie: true},
		{up: tensor.Q4_0, down: tensor.F32, n: 6, hidden: 64, ffn: 27, count: 6, topK: 6, act: tensor.SiLU, renormalise: true},
		{up: tensor.F32, down: tensor.F32, n: 1, hidden: 3100, ffn: 3, count: 2, topK: 2, act: tensor.SiLU}, // wider than any tile
	}
	for _, f := range quant.All() {
		wide := max(f.Group, 32)
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			if mode == tensor.ActF32 && !f.DType.Quantised() {
				continue
			}
			out = append(out, experts{
				up: f.DType, down: f.DType, n: 11, hidden: wide, ffn: 2 * wide, count: 5, topK: 2,
				act: tensor.SiLU, renormalise: true, mode: mode,
			})
		}
	}
	return out
}

func (e experts) String() string {
	return fmt.Sprintf("experts/%v,%v/%dx%dx%d/%d of %d/%v", e.up, e.down, e.n, e.hidden, e.ffn, e.topK, e.count, e.mode)
}

// spec loads the experts.
func (e experts) spec(d tensor.Device) *tensor.ExpertsSpec {
	s := &tensor.ExpertsSpec{Act: e.act, TopK: e.topK, Renormalise: e.renormalise, Mode: e.mode, Scale: e.scale}
	for i := range uint64(e.count) {
		s.Gate = append(s.Gate, must(d.Load(matrix(e.up, e.ffn, e.hidden, 100+3*i))))
		s.Up = append(s.Up, must(d.Load(matrix(e.up, e.ffn, e.hidden, 101+3*i))))
		s.Down = append(s.Down, must(d.Load(matrix(e.down, e.hidden, e.ffn, 102+3*i))))
	}
	return s
}

// x, logits and dst are the operands of row i on.
func (e experts) x() []float32   { return floats(91, e.n*e.hidden, 1) }
func (e experts) dst() []float32 { return floats(93, e.n*e.hidden, 1) }
func (e experts) logits() []float32 {
	v := floats(92, e.n*e.count, 2)
	if e.tie {
		for i := range v {
			v[i] = float32(math.Round(float64(v[i]) / 2))
		}
	}
	return v
}

// run computes rows [from, to).
func (e experts) run(d tensor.Device, s *tensor.ExpertsSpec, from, to int) []float32 {
	rows := func(v []float32) tensor.Buffer {
		cols := len(v) / e.n
		return up(d, to-from, cols, v[from*cols:to*cols])
	}
	dst := rows(e.dst())
	d.Experts(dst, rows(e.x()), rows(e.logits()), to-from, s)
	return down(d, dst)
}

// testCase compares with the oracle, relative to the greatest output. Where rows meet the
// down weights in 8 bits, a value of the middle that differs by its rounding may fall on
// the other side of a tie: one of ffn terms is then off by a unit, amax/127.
func (e experts) testCase() testCase {
	tol := 16 * math.Sqrt(float64(e.hidden+e.ffn)) * 0x1p-24
	if e.mode == tensor.Act8 && e.down.Quantised() {
		tol += 4 / (127 * math.Sqrt(float64(e.ffn)))
	}
	return testCase{name: e.String(), tol: tol, run: func(d tensor.Device) ([]float32, float64) {
		out := e.run(d, e.spec(d), 0, e.n)
		greatest := float32(0)
		for _, v := range out {
			greatest = max(greatest, v, -v)
		}
		return out, float64(greatest)
	}}
}

// expertsBatches: a row's experts have the same bits alone and in every batch.
func expertsBatches(t *testing.T, d tensor.Device) {
	for _, e := range expertsCases() {
		s := e.spec(d)
		want := e.run(d, s, 0, e.n)
		for _, size := range []int{1, 2, 5, 13} {
			for from := 0; from < e.n; from += size {
				to := min(from+size, e.n)
				if k := differ(e.run(d, s, from, to), want[from*e.hidden:to*e.hidden]); k >= 0 {
					t.Errorf("%v: output %d of rows %d to %d differs from the whole batch", e, k, from, to)
				}
			}
		}
	}
}

// expertsGuards: rows behind the first n stay as they are, and so do the operands.
func expertsGuards(t *testing.T, d tensor.Device) {
	e := experts{up: tensor.Q8_0, down: tensor.F32, n: 5, hidden: 64, ffn: 40, count: 4, topK: 2, act: tensor.SiLU}
	dst, x, logits := up(d, 5, 64, e.dst()), up(d, 5, 64, e.x()), up(d, 5, 4, e.logits())
	d.Experts(dst, x, logits, 3, e.spec(d))
	if k := differ(down(d, dst)[3*64:], e.dst()[3*64:]); k >= 0 {
		t.Errorf("element %d behind the rows was written", k)
	}
	if differ(down(d, x), e.x()) >= 0 || differ(down(d, logits), e.logits()) >= 0 {
		t.Error("an operand was written")
	}
}

// expertsPoison: an infinity or a NaN in a row or its logits shows in all of its outputs and
// in no other row's.
func expertsPoison(t *testing.T, d tensor.Device) {
	for _, e := range expertsCases() {
		if e.n < 3 {
			continue
		}
		s := e.spec(d)
		for _, bad := range []float64{math.Inf(1), math.NaN()} {
			for _, inLogits := range []bool{false, true} {
				x, logits := e.x(), e.logits()
				if inLogits {
					logits[e.count+e.count/2] = float32(bad)
				} else {
					x[e.hidden+3] = float32(bad)
				}
				dst := up(d, e.n, e.hidden, e.dst())
				d.Experts(dst, up(d, e.n, e.hidden, x), up(d, e.n, e.count, logits), e.n, s)
				for i, y := range down(d, dst) {
					if finite := y-y == 0; finite == (i/e.hidden == 1) {
						t.Errorf("%v: %v in row 1 (logits: %v) makes output %d of row %d %v", e, bad, inLogits, i%e.hidden, i/e.hidden, y)
						break
					}
				}
			}
		}
	}
}

// expertsRules: a device of the arithmetic "exact1" chooses, weighs and adds as its rules say,
// and an expert's output has the bits of MatMul.
func expertsRules(t *testing.T, d tensor.Device) {
	for _, e := range expertsCases() {
		s := e.spec(d)
		got := e.run(d, s, 0, e.n)
		x, logits, want := e.x(), e.logits(), e.dst()
		for r := range e.n {
			chosen, weights := e.route(logits[r*e.count:][:e.count])
			sum := make([]float32, e.hidden)
			for i, c := range chosen {
				for j, y := range e.one(d, s, c, x[r*e.hidden:][:e.hidden]) {
					sum[j] = fma(y, weights[i], sum[j])
				}
			}
			for j, v := range sum {
				if e.scale != 0 {
					v = float32(v * e.scale)
				}
				want[r*e.hidden+j] += v
			}
		}
		if k := differ(got, want); k >= 0 {
			t.Errorf("%v: output %d of row %d is %v, by the rules %v", e, k%e.hidden, k/e.hidden, got[k], want[k])
		}
	}
}

// one is the output of an expert for one row, by MatMul.
func (e experts) one(d tensor.Device, s *tensor.ExpertsSpec, expert int, x []float32) []float32 {
	a, mid := must(d.NewAct(1, e.hidden)), must(d.NewBuffer(1, e.ffn))
	d.Prepare(a, up(d, 1, e.hidden, x), 1, e.mode)
	d.MatMul(a, []tensor.Product{{W: s.Up[expert], Gate: s.Gate[expert], Act: e.act, Dst: mid}})
	b, out := must(d.NewAct(1, e.ffn)), must(d.NewBuffer(1, e.hidden))
	d.Prepare(b, mid, 1, e.mode)
	d.MatMul(b, []tensor.Product{{W: s.Down[expert], Dst: out}})
	return down(d, out)
}

// route gives the chosen experts in rising order and their weights.
func (e experts) route(logits []float32) (chosen []int, weights []float32) {
	for i := range logits {
		chosen = append(chosen, i)
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	chosen = chosen[:e.topK]
	slices.Sort(chosen)

	odds, top := make([]float32, len(logits)), slices.Max(logits)
	var lane [16]float32
	for i, v := range logits {
		odds[i] = exp(v - top)
		lane[i%16] += odds[i]
	}
	inv, sum := 1/tree(lane), float32(0)
	for _, c := range chosen {
		weights = append(weights, float32(odds[c]*inv))
		sum += weights[len(weights)-1]
	}
	for i := range weights {
		if e.renormalise {
			weights[i] /= sum
		}
	}
	return chosen, weights
}

// exp is e^x for x <= 0 above the subnormals: x = n*ln2 + r, and a polynomial in r.
func exp(x float32) float32 {
	n := float32(math.RoundToEven(float64(float32(x * math.Log2E))))
	r := fma(n, -0.693145751953125, x)
	r = fma(n, -1.42860682030941723e-6, r)
	p := float32(0.0013814595)
	for _, c := range []float32{0.008368717, 0.04166839, 0.16666521, 0.49999994} {
		p = fma(p, r, c)
	}
	p = fma(p, float32(r*r), r) + 1
	return float32(math.Ldexp(float64(p), int(n)))
}

// tree adds 16 lanes pairwise.
func tree(lane [16]float32) float32 {
	for h := 8; h > 0; h /= 2 {
		for j := range h {
			lane[j] += lane[j+h]
		}
	}
	return lane[0]
}
