package tensortest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"whorl/tensor"
)

// pointwise are the cases of Add, Activate, Scale, Round and scaled products.
func pointwise() []testCase {
	const n, cols = 5, 40
	one := func(name string, run func(d tensor.Device, x, y tensor.Buffer)) testCase {
		return testCase{
			name: "pointwise/" + name, tol: 16 * 0x1p-24,
			run: func(d tensor.Device) ([]float32, float64) {
				x, y := up(d, n, cols, floats(81, n*cols, 2)), up(d, n, cols, floats(82, n*cols, 2))
				run(d, x, y)
				return down(d, x), 8
			},
		}
	}
	out := []testCase{
		one("add", func(d tensor.Device, x, y tensor.Buffer) { d.Add(x, y, nil, n, 1) }),
		one("add-scaled", func(d tensor.Device, x, y tensor.Buffer) { d.Add(x, y, []int32{4, 0, 2}, 3, 0.3) }),
		one("scale", func(d tensor.Device, x, _ tensor.Buffer) { d.Scale(x, n, 0.7, 0) }),
		one("softcap", func(d tensor.Device, x, _ tensor.Buffer) { d.Scale(x, n, 1, 1.5) }),
		one("round", func(d tensor.Device, x, _ tensor.Buffer) { d.Round(x, n-1) }),
		one("product", func(d tensor.Device, x, y tensor.Buffer) {
			a := must(d.NewAct(n, cols))
			d.Prepare(a, y, n, tensor.Act8)
			w := must(d.Load(matrix(tensor.F32, cols, cols, 83)))
			d.MatMul(a, []tensor.Product{{W: w, Scale: 0.3, Residual: x, Dst: x}})
		}),
	}
	for _, act := range []tensor.Activation{tensor.NoActivation, tensor.SiLU, tensor.GELU, tensor.GELUTanh} {
		out = append(out,
			one(fmt.Sprintf("activate/%d", act), func(d tensor.Device, x, _ tensor.Buffer) { d.Activate(x, nil, n, act) }),
			one(fmt.Sprintf("gate/%d", act), func(d tensor.Device, x, y tensor.Buffer) { d.Activate(x, y, n, act) }))
	}
	return out
}

// rounds: what is rounded is the nearest bfloat16 there is, of two the even one, whatever the
// float32 was; rows that were not asked for stay.
func rounds(t *testing.T, d tensor.Device) {
	x := floats(89, 40, 3)
	for upper := range uint32(1 << 16) {
		if upper%97 == 0 || upper&0x7f80 == 0x7f80 || upper&0x7f80 == 0 {
			for _, lower := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
				x = append(x, math.Float32frombits(upper<<16|lower))
			}
		}
	}
	n := len(x)
	got := up(d, 2, n, append(slices.Clone(x), x...))
	d.Round(got, 1)
	out := down(d, got)
	step := func(u uint32) float64 { // the bfloat16 as a number, infinity as what would come next
		if u&0x7fff == 0x7f80 {
			return math.Ldexp(1, 128) * (1 - 2*float64(u>>15))
		}
		return float64(math.Float32frombits(u << 16))
	}
	for i, v := range x {
		bits, u := math.Float32bits(out[i]), math.Float32bits(v)>>16
		switch {
		case bits&0xffff != 0:
			t.Errorf("%x is rounded to %x, which is no bfloat16", math.Float32bits(v), bits)
			continue
		case math.IsNaN(float64(v)):
			if bits>>16 != u|0x40 {
				t.Errorf("the NaN %x becomes %x", math.Float32bits(v), bits)
			}
			continue
		case math.IsInf(float64(v), 0):
			if bits != math.Float32bits(v) {
				t.Errorf("%v becomes %v", v, out[i])
			}
			continue
		}
		// u cuts v off toward zero; the next one away from zero is u+1.
		down, up := float64(v)-step(u), step(u+1)-float64(v)
		want := u
		if down, up := math.Abs(down), math.Abs(up); up < down || up == down && u&1 == 1 {
			want = u + 1
		}
		if bits>>16 != want {
			t.Errorf("%x is rounded to %x instead of %x", math.Float32bits(v), bits>>16, want)
		}
	}
	if k := differ(out[n:], x); k >= 0 {
		t.Errorf("element %d of a row that was not to be rounded has changed", k)
	}
}

// unfused: the epilogue of a product has the bits of its parts done one by one.
func unfused(t *testing.T, d tensor.Device) {
	const n, rows, cols = 7, 300, 64
	for _, act := range []tensor.Activation{tensor.NoActivation, tensor.SiLU, tensor.GELU, tensor.GELUTanh} {
		w, g := must(d.Load(matrix(tensor.Q8_0, rows, cols, 84))), must(d.Load(matrix(tensor.Q4_0, rows, cols, 85)))
		bias := must(d.LoadVector(floats(86, rows, 1)))
		a := must(d.NewAct(n, cols))
		d.Prepare(a, up(d, n, cols, floats(87, n*cols, 1)), n, tensor.Act8)
		residual := floats(88, n*rows, 1)
		fused, parts, gate := up(d, n, rows, residual), up(d, n, rows, residual), must(d.NewBuffer(n, rows))
		y := must(d.NewBuffer(n, rows))
		d.MatMul(a, []tensor.Product{{W: w, Bias: bias, Gate: g, Act: act, Scale: 0.3, Residual: fused, Dst: fused}})
		d.MatMul(a, []tensor.Product{{W: w, Bias: bias, Dst: y}, {W: g, Dst: gate}})
		d.Activate(y, gate, n, act)
		d.Add(parts, y, nil, n, 0.3)
		if k := differ(down(d, parts), down(d, fused)); k >= 0 {
			t.Errorf("activation %d: element %d differs between a fused product and its parts", act, k)
		}
	}
}
