package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestBackKernels(t *testing.T) {
	inputs := [][]float32{append(slices.Clone(edges), 100, -100, 99.9, -99.9, 101, -101, 300, -300)}
	for n := 1; n <= 35; n++ {
		inputs = append(inputs, fill(make([]float32, n), uint64(n), 3))
	}
	for i, x := range inputs {
		n := len(x)
		copied := func(mem func(int) []float32, x []float32) []float32 { m := mem(len(x)); copy(m, x); return m }
		name := fmt.Sprintf("of %d (input %d)", n, i)
		for what, f := range map[string]func(k *kernels, x []float32){
			"SiLU's slope":      func(k *kernels, x []float32) { k.siluSlope(x) },
			"GELU's slope":      func(k *kernels, x []float32) { k.geluSlope(x) },
			"tanh GELU's slope": func(k *kernels, x []float32) { k.geluTanhSlope(x) },
		} {
			twins(t, what+" "+name, func(k *kernels, mem func(int) []float32) { f(k, copied(mem, x)) })
		}
		twins(t, "dot "+name, func(k *kernels, mem func(int) []float32) {
			mem(1)[0] = k.dot(copied(mem, x), copied(mem, fill(make([]float32, n), 7, 2)))
		})
		dy, gain := fill(make([]float32, n), 7, 2), fill(make([]float32, n), 8, 1)
		for _, limit := range []float32{0, 4} {
			twins(t, fmt.Sprintf("weigh %s capped at %v", name, limit), func(k *kernels, mem func(int) []float32) {
				k.weigh(copied(mem, x), copied(mem, dy), 3.5, 0.125, 0.3, 0.7, limit)
			})
		}
		for what, f := range map[string]func(k *kernels, dst, src, dy []float32){
			"RMS norm":   func(k *kernels, dst, src, dy []float32) { k.rmsNormBack(dst, src, dy, gain, 1e-5) },
			"layer norm": func(k *kernels, dst, src, dy []float32) { k.layerNormBack(dst, src, dy, gain, 1e-5) },
		} {
			finite := slices.Clone(x)
			for j, v := range finite {
				if v != v || math.Abs(float64(v)) > 1e15 {
					finite[j] = 1
				}
			}
			twins(t, what+" back "+name, func(k *kernels, mem func(int) []float32) { f(k, mem(n), finite, dy) })
			twins(t, what+" back in place "+name, func(k *kernels, mem func(int) []float32) {
				d := copied(mem, dy)
				f(k, d, finite, d)
			})
		}
	}
	src := fill(make([]float32, 15*29+16), 9, 1)
	twins(t, "turn", func(k *kernels, mem func(int) []float32) { k.turn(mem(15*21+16), 21, src, 29) })
	out := make([]float32, 256)
	generic.turn(out, lanes, src, 29)
	for i := range 256 {
		if out[i%16*16+i/16] != src[i/16*29+i%16] {
			t.Fatalf("turned: %v", out)
		}
	}
}
