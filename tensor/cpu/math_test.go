package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA rounds once, by arbitrary precision.
func exactFMA(a, b, c float32) float32 {
	x := new(big.Float).SetPrec(1000).SetFloat64(float64(a))
	x.Mul(x, new(big.Float).SetPrec(1000).SetFloat64(float64(b)))
	x.Add(x, new(big.Float).SetPrec(1000).SetFloat64(float64(c)))
	if x.Sign() == 0 {
		return float32(float64(a)*float64(b) + float64(c)) // exact; keeps the sign of zero
	}
	f, _ := x.Float32()
	return f
}

func TestFMAIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(a, b, c float32) {
		t.Helper()
		if got, want := fma32(a, b, c), exactFMA(a, b, c); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	bits := func(exp int) float32 {
		// Few set bits make ties and near-ties common.
		m := uint32(1<<rng.IntN(24) | 1<<rng.IntN(24) | 1<<rng.IntN(24))
		e := uint32(min(max(127+exp+rng.IntN(60)-30, 0), 254)) << 23
		return math.Float32frombits(e | m&0x7fffff | uint32(rng.IntN(2))<<31)
	}
	for range 60000 {
		a, b := bits(0), bits(0)
		check(a, b, bits(0))
		check(a, b, float32(float64(a)*float64(b)*float64(int(1)<<rng.IntN(30))))
		check(a, b, -float32(float64(a)*float64(b)))
	}
	for range 40000 { // subnormal sums and products
		check(bits(-60), bits(-70), bits(-126))
		check(bits(-75), bits(-75), math.Float32frombits(rng.Uint32N(1<<23)))
		check(bits(60), bits(64), bits(120))
	}
	// The classic double rounding: the sum is a hair above a tie that is to go down.
	check(1+0x1p-12, 1+0x1p-12, 0x1p-60)
	check(0x1.000002p0, 0x1p-24, 1)
	check(0x1.000002p0, -0x1p-24, 1)
	for _, a := range []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32} {
		for _, b := range []float32{0, 1, -1, 0.5, math.MaxFloat32, math.SmallestNonzeroFloat32} {
			for _, c := range []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.SmallestNonzeroFloat32} {
				check(a, b, c)
			}
		}
	}
	inf := float32(math.Inf(1))
	if got := fma32(inf, 1, 1); got != inf {
		t.Errorf("fma32(inf, 1, 1) = %g", got)
	}
	if got := fma32(inf, 1, -inf); got == got {
		t.Errorf("fma32(inf, 1, -inf) = %g, want NaN", got)
	}
}

// ulps is the distance of got from the exact want, in units of want's last place.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	unit := math.Max(float64(math.Nextafter32(w, float32(math.Inf(1)))-w), 0x1p-149)
	return math.Abs(float64(got)-want) / unit
}

func TestPolynomials(t *testing.T) {
	gelu := func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }
	for _, c := range []struct {
		name     string
		got      func(float32) float32
		want     func(float64) float64
		from, to float64
		ulps     float64 // allowed error in units of the last place ...
		abs      float64 // ... plus this
	}{
		{"exp", exp32, math.Exp, -87.3, 88.5, 1.5, 0},
		{"silu", silu32, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, -87, 100, 4, 0},
		{"tanh", tanh32, math.Tanh, -12, 12, 2, 0},
		{"gelu", gelu32, gelu, -20, 20, 4, 3e-7},
		{"gelu-tanh", geluTanh32, func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}, -20, 20, 4, 3e-7},
	} {
		worst := 0.0
		const steps = 200000
		for i := range steps {
			x := float32(c.from + (c.to-c.from)*float64(i)/steps)
			want := c.want(float64(x))
			if math.Abs(float64(c.got(x))-want) <= c.abs {
				continue
			}
			e := ulps(c.got(x), want)
			worst = max(worst, e)
			if e > c.ulps {
				t.Fatalf("%s(%g) = %g, want %g: off by %.2f units", c.name, x, c.got(x), want, e)
			}
		}
		t.Logf("%s: worst %.2f units", c.name, worst)
	}
}

func TestPolynomialEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name string
		got  float32
		want float32
	}{
		{"exp 0", exp32(0), 1},
		{"exp -inf", exp32(-inf), 0},
		{"exp inf", exp32(inf), inf},
		{"exp -104", exp32(-104), 0},
		{"exp -87.301", exp32(-87.301), 0},
		{"exp -87.3", exp32(-87.3), 1.2192433e-38},
		{"exp 89", exp32(89), inf},
		{"silu 0", silu32(0), 0},
		{"silu 200", silu32(200), 200},
		{"silu -200", silu32(-200), 0},
		{"gelu 30", gelu32(30), 30},
		{"gelu -30", gelu32(-30), 0},
		{"gelu-tanh 1e30", geluTanh32(1e30), 1e30},
		{"gelu-tanh -1e30", geluTanh32(-1e30), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s = %g, want %g", c.name, c.got, c.want)
		}
	}
	for i, f := range []func(float32) float32{exp32, silu32, gelu32, geluTanh32} {
		if y := f(nan); y == y {
			t.Errorf("function %d of NaN = %g", i, y)
		}
	}
}

func TestSinCos(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	const n = 200000
	for range n {
		x := float32(math.Exp(rng.Float64()*25 - 12))
		sin, cos := sincos(x)
		ws, wc := math.Sincos(float64(x))
		if math.Abs(float64(sin)-ws) > 1e-7 || math.Abs(float64(cos)-wc) > 1e-7 {
			t.Fatalf("sincos(%g) = %g, %g, want %g, %g", x, sin, cos, ws, wc)
		}
		if sin != float32(ws) || cos != float32(wc) {
			wrong++
		}
	}
	if wrong > n/10000 {
		t.Errorf("%d of %d values are not the nearest float32", wrong, n)
	}
}

func BenchmarkFMA(b *testing.B) {
	x := float32(0.5)
	for range b.N {
		x = fma32(x, 0.999, 0.001)
	}
	sink = x
}

var sink float32
