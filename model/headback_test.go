package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"whorl/tensor"
	"whorl/tensor/cpu"
)

// The gradients of a head say how the logits, and the normalised rows, change.
func TestHeadBackwardAgreesWithDifferences(t *testing.T) {
	const vocab, hidden, rows = 40, 64, 300 // more rows than are taken at once
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	h := randomHead(t, dev, vocab, hidden)
	r := rand.New(rand.NewPCG(1, 1))
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	x, way := normal(rows*hidden), normal(rows*hidden)
	for name, c := range map[string]struct {
		width   int
		forward func(dst, x []float32) error
		back    func(dst, x, d []float32) error
	}{
		"logits": {vocab, func(dst, x []float32) error { return h.Logits(dst, x, rows, tensor.ActF32) }, h.Backward},
		"normed": {hidden, h.Normed, h.NormedBackward},
	} {
		d, dx := normal(rows*c.width), make([]float32, len(x))
		if err := c.back(dx, x, d); err != nil {
			t.Fatal(err)
		}
		want, norm := 0.0, 0.0
		for i, g := range dx {
			want += float64(g) * float64(way[i])
			norm += float64(g) * float64(g)
		}
		const step = 1e-3
		at := func(by float32) float64 {
			moved, y, sum := slices.Clone(x), make([]float32, rows*c.width), 0.0
			for i, v := range way {
				moved[i] += by * v
			}
			if err := c.forward(y, moved); err != nil {
				t.Fatal(err)
			}
			for i, v := range y {
				sum += float64(v) * float64(d[i])
			}
			return sum
		}
		if got := (at(step) - at(-step)) / (2 * step); !(math.Abs(got-want) <= 0.002*math.Sqrt(norm)) {
			t.Errorf("%s: the loss changes by %v, the gradient says %v (its norm is %v)", name, got, want, math.Sqrt(norm))
		}
		one := make([]float32, hidden)
		if err := c.back(one, x[7*hidden:8*hidden], d[7*c.width:8*c.width]); err != nil {
			t.Fatal(err)
		}
		for i, v := range one {
			if math.Float32bits(v) != math.Float32bits(dx[7*hidden+i]) {
				t.Fatalf("%s: the gradient of a row alone has other bits", name)
			}
		}
		if c.back(dx, x, d[1:]) == nil || c.back(dx[1:], x, d) == nil {
			t.Errorf("%s: rows that do not fit went back", name)
		}
	}
}
