package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
)

func TestKScales(t *testing.T) {
	for g := range 8 {
		for v := range byte(64) {
			b := make([]byte, 12)
			for o := range 8 { // what the other groups have must not matter
				if o == g {
					putKScales(b, g, v, 63-v)
				} else {
					putKScales(b, o, byte(7*o+1), byte(60-5*o))
				}
			}
			for o := range 8 {
				wantS, wantM := byte(7*o+1), byte(60-5*o)
				if o == g {
					wantS, wantM = v, 63-v
				}
				if s, m := KScales(b, o); s != wantS || m != wantM {
					t.Fatalf("group %d: %d and %d, want %d and %d", o, s, m, wantS, wantM)
				}
			}
		}
	}
}

// packed is the root of the mean squared error of x after packing, over that of x.
func packed(d tensor.DType, x []float32) float64 {
	f, _ := Of(d)
	buf, y := make([]byte, len(x)/f.Group*f.Bytes), make([]float32, len(x))
	f.Pack(buf, x)
	f.Unpack(y, buf)
	return distance(x, y)
}

// distance is the root of the mean squared distance of y from x, over that of x from zero.
func distance(x, y []float32) float64 {
	e, n := 0.0, 0.0
	for i := range x {
		e += float64(x[i]-y[i]) * float64(x[i]-y[i])
		n += float64(x[i]) * float64(x[i])
	}
	return math.Sqrt(e / n)
}

// The point of the larger blocks: at fewer bits than Q4_1 the error is smaller.
func TestPackKIsBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 256*100)
	for _, c := range []struct {
		name  string
		value func() float64
	}{
		{"normal", func() float64 { return r.NormFloat64() * 0.02 }},
		{"long tails", func() float64 { return r.NormFloat64() * math.Exp(0.5*r.NormFloat64()) }},
		{"off centre", func() float64 { return r.NormFloat64() - 2 }},
	} {
		for i := range x {
			x[i] = float32(c.value())
		}
		if k, plain := packed(tensor.Q4_K, x), packed(tensor.Q4_1, x); !(k < 0.95*plain) {
			t.Errorf("%s: q4_k errs by %.4f, q4_1 by %.4f", c.name, k, plain)
		}
	}
}

// More bits, less error: about half of it for each bit.
func TestPackBitsPay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 256*100)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 0.02)
	}
	order := []tensor.DType{tensor.Q4_0, tensor.Q4_K, tensor.Q5_0, tensor.Q5_K, tensor.Q6_K, tensor.Q8_0}
	for i := 1; i < len(order); i++ {
		if e, more := packed(order[i-1], x), packed(order[i], x); !(more < 0.9*e) {
			t.Errorf("%v errs by %.4f, %v by %.4f", order[i-1], e, order[i], more)
		}
	}
	for d, most := range map[tensor.DType]float64{tensor.Q4_K: 0.075, tensor.Q5_K: 0.037, tensor.Q6_K: 0.022, tensor.Q5_0: 0.047} {
		if e := packed(d, x); !(e < most) {
			t.Errorf("%v errs by %.4f, want below %g", d, e, most)
		}
	}
}

// What has no good answer still has one: constants come back, nothing panics.
func TestPackKEdges(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q5_0} {
		packEdges(t, d)
	}
}

func packEdges(t *testing.T, d tensor.DType) {
	f, _ := Of(d)
	buf, y := make([]byte, 256/f.Group*f.Bytes), make([]float32, 256)
	for _, v := range []float64{0, 1, -1, 1e-30, -1e-30, 1e-42, 3e38, math.Inf(1), math.Inf(-1), math.NaN()} {
		for _, only := range []bool{false, true} {
			x := make([]float32, 256)
			for i := range x {
				if !only || i == 77 {
					x[i] = float32(v)
				}
			}
			f.Pack(buf, x)
			f.Unpack(y, buf)
			if math.Abs(v) > 1 || v != v || math.Abs(v) < 1e-20 && v != 0 {
				continue // beyond float16
			}
			for i := range x {
				if math.Abs(float64(x[i]-y[i])) > 1e-3*math.Abs(v)+1e-7 {
					t.Errorf("%v: %v, alone %v: value %d became %v", d, v, only, i, y[i])
					break
				}
			}
		}
	}
}
