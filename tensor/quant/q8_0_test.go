package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
)

// The point of choosing among scales: a seventh less squared error, and more, than with the
// scale that writers of the format choose.
func TestPackQ8IsBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, value := range map[string]func() float64{
		"normal":     func() float64 { return r.NormFloat64() * 0.02 },
		"long tails": func() float64 { return r.NormFloat64() * math.Exp(0.5*r.NormFloat64()) },
		"levels":     func() float64 { return 0.013*float64(r.IntN(16)) - 0.1 },
	} {
		ours, theirs := 0.0, 0.0
		for range 1000 {
			var x, y [32]float32
			for i := range x {
				x[i] = float32(value())
			}
			theirs += float64(squaredError(&x, F16ToF32(F32ToF16(abs(argmaxAbs(x[:]))/127))))
			var block [34]byte
			packQ8_0(block[:], x[:])
			unpackQ8_0(y[:], block[:])
			for i := range x {
				ours += float64(x[i]-y[i]) * float64(x[i]-y[i])
			}
		}
		if !(ours < 6./7*theirs) {
			t.Errorf("%s: squared error %g, %g with the greatest value at 127", name, ours, theirs)
		}
	}
}

func TestPackQ8Edges(t *testing.T) { packEdges(t, tensor.Q8_0) }
