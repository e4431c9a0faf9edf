package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// twins runs f for the generic kernels and for each other tier's; it must leave its result
// in memory of a guard, whose bits are compared.
func twins(t *testing.T, name string, f func(k *kernels, mem func(n int) []float32)) {
	t.Helper()
	run := func(k *kernels) (out []uint32) {
		var all [][]float32
		f(k, func(n int) []float32 {
			// Guard bands on both sides, and an odd offset from any alignment.
			m := make([]float32, n+2*guardBand)
			for i := range m {
				m[i] = guardValue
			}
			all = append(all, m)
			return m[guardBand : guardBand+n : guardBand+n]
		})
		for _, m := range all {
			for i := range guardBand {
				if m[i] != guardValue || m[len(m)-1-i] != guardValue {
					t.Errorf("%s: wrote outside its memory", name)
				}
			}
			for _, v := range m {
				u := math.Float32bits(v)
				if v != v {
					u = 0x7fc00000 // the bits of a NaN are not promised
				}
				out = append(out, u)
			}
		}
		return out
	}
	want := run(&generic)
	for _, tier := range archTiers() {
		for i, u := range run(tier.k) {
			if u != want[i] {
				t.Errorf("%s on %s: word %d is %v (%08x), want %v (%08x)", name, tier.name, i,
					math.Float32frombits(u), u, math.Float32frombits(want[i]), want[i])
				break
			}
		}
	}
}

const (
	guardBand  = 19
	guardValue = 1.25e-7
)

func fill(x []float32, seed uint64, scale float32) []float32 {
	r := rand.New(rand.NewPCG(seed, 5))
	for i := range x {
		x[i] = float32(r.NormFloat64()) * scale
	}
	return x
}

func TestFloatKernels(t *testing.T) {
	for rows := 1; rows <= 18; rows++ {
		for _, blocks := range []int{2, 4, 6} {
			for _, k := range []int{1, 3, 4, 37} {
				w := fill(make([]float32, blocks*k*lanes), 1, 1)
				half := make([]uint16, len(w))
				brain := make([]uint16, len(w))
				for i, v := range w {
					half[i], brain[i] = quant.F32ToF16(v), quant.F32ToBF16(v)
				}
				half[0], half[1] = 1, 0x8001 // subnormals
				x := fill(make([]float32, rows*(k+3)), 2, 1)
				name := fmt.Sprintf("%d rows, %d blocks, %d columns", rows, blocks, k)
				stride := blocks*lanes + 5
				acc := func(mem func(int) []float32) []float32 { return fill(mem((rows-1)*stride+blocks*lanes), 3, 1) }
				twins(t, "f32 "+name, func(kk *kernels, mem func(int) []float32) {
					kk.f32(acc(mem), stride, w, k*lanes, blocks, x, k+3, rows, k, nil)
				})
				twins(t, "f32 then "+name, func(kk *kernels, mem func(int) []float32) {
					kk.f32(acc(mem), stride, w, k*lanes, blocks, x, k+3, rows, k, &x[0])
				})
				twins(t, "f16 "+name, func(kk *kernels, mem func(int) []float32) {
					kk.halves[tensor.F16].product(acc(mem), stride, half, k*lanes, blocks, x, k+3, rows, k, nil)
				})
				twins(t, "bf16 "+name, func(kk *kernels, mem func(int) []float32) {
					kk.halves[tensor.BF16].product(acc(mem), stride, brain, k*lanes, blocks, x, k+3, rows, k, nil)
				})
				twins(t, "bf16 then "+name, func(kk *kernels, mem func(int) []float32) {
					kk.halves[tensor.BF16].product(acc(mem), stride, brain, k*lanes, blocks, x, k+3, rows, k, &brain[0])
				})
			}
		}
	}
}

// edges are values at which pointwise functions change their ways.
var edges = func() []float32 {
	inf := float32(math.Inf(1))
	v := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1, -1, math.Sqrt2, -math.Sqrt2,
		89, -89, 88.72, -88.72, 88.73, -87.3, -87.31, -87.4, -103.9, -104, -105, 1e-30, -1e-30, 1e-44, -1e-44, 1e30, -1e30, math.MaxFloat32, -math.MaxFloat32, 14.3, -14.3, 15, -15}
	for i := range 2000 {
		v = append(v, float32(i-1000)*0.07)
	}
	return v
}()

func TestPointwiseKernels(t *testing.T) {
	inputs := [][]float32{edges}
	for n := 1; n <= 35; n++ {
		inputs = append(inputs, fill(make([]float32, n), uint64(n), 3))
	}
	for _, in := range inputs {
		n := len(in)
		other := fill(make([]float32, n), 9, 1)
		name := fmt.Sprintf(" of %d", n)
		set := func(mem func(int) []float32) []float32 {
			x := mem(n)
			copy(x, in)
			return x
		}
		twins(t, "silu"+name, func(k *kernels, mem func(int) []float32) { k.silu(set(mem)) })
		twins(t, "gelu"+name, func(k *kernels, mem func(int) []float32) { k.gelu(set(mem)) })
		twins(t, "gelu-tanh"+name, func(k *kernels, mem func(int) []float32) { k.geluTanh(set(mem)) })
		twins(t, "add"+name, func(k *kernels, mem func(int) []float32) { k.add(mem(n), in, other) })
		twins(t, "mul"+name, func(k *kernels, mem func(int) []float32) { k.mul(mem(n), in, other) })
		twins(t, "scale"+name, func(k *kernels, mem func(int) []float32) { k.scale(mem(n), in, 0.3) })
		twins(t, "round"+name, func(k *kernels, mem func(int) []float32) { k.round(set(mem)) })
		twins(t, "blend"+name, func(k *kernels, mem func(int) []float32) { k.blend(set(mem), other, 0.7, 1.3) })
		twins(t, "softmax"+name, func(k *kernels, mem func(int) []float32) {
			s, r := set(mem), mem(2)
			r[0], r[1] = k.softmax(s, 0.25)
		})
		for _, limit := range []float32{1, 30, 50} {
			twins(t, fmt.Sprintf("softcap %v%s", limit, name), func(k *kernels, mem func(int) []float32) { k.softcap(set(mem), limit) })
		}
		twins(t, "rms norm"+name, func(k *kernels, mem func(int) []float32) { k.rmsNorm(mem(n), in, other, 1e-5) })
		twins(t, "layer norm"+name, func(k *kernels, mem func(int) []float32) { k.layerNorm(mem(n), in, other, nil, 1e-5) })
		twins(t, "biased layer norm"+name, func(k *kernels, mem func(int) []float32) {
			x := set(mem)
			k.layerNorm(x, x, other, other, 1e-5)
		})
	}
}

func TestQuantiseKernels(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	var x []float32
	for i, scale := range []float32{1, 1e-3, 100, 0, 1e-36, 7.6e-37, 7.5e-37, 1e-40, 1e38} {
		x = append(x, fill(make([]float32, group), uint64(i), scale)...)
	}
	for _, v := range []float32{inf, -inf, nan} {
		g := fill(make([]float32, group), 77, 1)
		g[11] = v
		x = append(x, g...)
	}
	ties := make([]float32, group) // x*id lands on halves
	ties[0] = 127
	for i := range 31 {
		ties[i+1] = float32(i-15) + 0.5
	}
	x = append(x, ties...)
	twins(t, "quantise", func(k *kernels, mem func(int) []float32) {
		q := make([]quantGroup, len(x)/group+2)
		k.quantise(q[1:len(q)-1], x)
		if q[0] != (quantGroup{}) || q[len(q)-1] != (quantGroup{}) {
			t.Error("quantise wrote outside its groups")
		}
		for _, g := range q {
			out := mem(group + 6)
			for i, v := range g.q {
				out[i] = float32(v)
			}
			out[group], out[group+1], out[group+2], out[group+3] = g.d, g.dsum, float32(g.off8-biased), float32(g.off4-biased)
			out[group+4], out[group+5] = float32(g.off32[0]-biased), float32(g.off32[1])
		}
	})
}

// The assembly knows these offsets (asm/quant.go).
func TestQuantGroupLayout(t *testing.T) {
	var g quantGroup
	if got := [...]uintptr{unsafe.Offsetof(g.d), unsafe.Offsetof(g.dsum), unsafe.Offsetof(g.off8), unsafe.Offsetof(g.off4), unsafe.Offsetof(g.off32), unsafe.Sizeof(g)}; got != [...]uintptr{32, 36, 40, 44, 48, 56} {
		t.Errorf("layout of a group is %v", got)
	}
}
