package tensortest

import (
	"fmt"
	"math"
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
