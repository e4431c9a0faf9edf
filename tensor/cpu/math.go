package cpu

import "math"

// This file is the pointwise arithmetic of exact1. Every step is one rounded float32
// operation or one fma32, so that a vector tier can follow it operation by operation.
// Products that feed a sum are converted explicitly: the compiler may fuse x*y+z
// otherwise, and does so on arm64 and at GOAMD64=v3.

// fma32 is a*b+c with one rounding.
func fma32(a, b, c float32) float32 {
	// The product of two 24-bit significands is exact in float64, so s is rounded once, to
	// 53 bits. Rounding s to 24 bits is a second rounding, which goes wrong only if s looks
	// like a tie and was not, or in the subnormals, whose ties lie elsewhere.
	s := float64(a)*float64(b) + float64(c)
	if doubtful(s) {
		return fmaSlow(a, b, c, s)
	}
	return float32(s)
}

// doubtful tells whether rounding s, an inexact sum, to float32 may go wrong.
func doubtful(s float64) bool {
	u := math.Float64bits(s)
	return u&(1<<29-1) == 1<<28 || u<<1 < minNormal<<1
}

// minNormal is the float64 of the least normal float32.
const minNormal = (1023 - 126) << 52

// fmaLanes is acc = fma32(w, x, acc) in 16 lanes, the inner loop of every product. It says
// again what fma32 says because the compiler does not inline that.
func fmaLanes(acc, w *[lanes]float32, x float32) {
	for j, a := range acc {
		s := float64(w[j])*float64(x) + float64(a)
		if doubtful(s) {
			acc[j] = fmaSlow(w[j], x, a, s)
		} else {
			acc[j] = float32(s)
		}
	}
}

// fmaSlow makes s sticky: if it is inexact its last bit is set (rounding to odd), so that
// the final rounding sees which side of a tie the exact sum is on.
func fmaSlow(a, b, c float32, s float64) float32 {
	if s-s != 0 { // infinite or NaN
		return float32(s)
	}
	p, z := float64(a)*float64(b), float64(c)
	t := s - p
	err := (p - (s - t)) + (z - t) // exact: s + err = p + z
	if u := math.Float64bits(s); err != 0 && u&1 == 0 {
		if err > 0 == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}

func sqrt32(x float32) float32 {
	// The square root of a float32 rounded to 53 and then 24 bits is rounded right.
	return float32(math.Sqrt(float64(x)))
}

// The constants of exp. Its argument is reduced by n*ln2, in two parts so that the first
// fma is exact, to |r| <= ln2/2, where e^r = 1 + r + r²P(r) to 3e-9 (minimax fit).
const (
	log2e  = 1.44269504088896341
	ln2Hi  = 0.693145751953125 // 15 bits
	ln2Lo  = 1.42860682030941723e-6
	expP4  = 0.0013814595
	expP3  = 0.008368717
	expP2  = 0.04166839
	expP1  = 0.16666521
	expP0  = 0.49999994
	expMax = 89    // e^89 is infinite
	expMin = -87.3 // a little above where e^x becomes subnormal

	// rounder added to and taken from |x| < 2^22 leaves x rounded to an integer, ties even.
	rounder = 3 << 22
)

// exp32 is e^x to about one unit in the last place, and 0 where e^x would be subnormal:
// processors multiply subnormal numbers a hundred times slower, and a few of them among
// the weights of attention made it take four times as long.
func exp32(x float32) float32 {
	if x > expMax {
		x = expMax
	}
	if x < expMin {
		return 0
	}
	n := float32(float32(x*log2e)+rounder) - rounder
	r := fma32(n, -ln2Hi, x)
	r = fma32(n, -ln2Lo, r)
	p := fma32(expP4, r, expP3)
	p = fma32(p, r, expP2)
	p = fma32(p, r, expP1)
	p = fma32(p, r, expP0)
	p = fma32(p, float32(r*r), r) + 1
	// 2^n may not be a float32 but its halves are; the first product is exact.
	k := int32(n)
	return float32(p*pow2(k>>1)) * pow2(k-k>>1)
}

// pow2 is 2^k for -126 <= k <= 127; other k, which only a NaN brings, give nonsense.
func pow2(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

// silu32 is x*sigmoid(x).
func silu32(x float32) float32 { return x / (1 + exp32(-x)) }

// geluTanh32 is the tanh approximation of GELU. Since (1+tanh u)/2 = 1/(1+e^-2u), it is
// x/(1+exp(x*(k0+k1*x²))) without the cancellation of the usual form.
func geluTanh32(x float32) float32 {
	w := fma32(float32(x*x), geluK1, geluK0)
	return x / (1 + exp32(float32(x*w)))
}

const (
	geluK0 = -2 * 0.7978845608028654 // -2*sqrt(2/pi)
	geluK1 = geluK0 * 0.044715
)

// The constants of erf, minimax fits. Below 1: erf z = z + z*S(z²) to 1.2e-9. From 1 on:
// erfc z = exp(L(z) - z²), good to 5e-8 in erfc.
var (
	erfSmall = [7]float32{0.12837917, -0.37612626, 0.112835854, -0.026853813, 0.0051883277, -0.00080101937, 7.853862e-05}
	erfLarge = [9]float32{-0.0021444696, -1.1206557, 0.3528336, -0.09692915, 0.019844461, -0.0027922732, 0.0002500031, -1.2677868e-05, 2.7532758e-07}
)

const (
	sqrtHalf = 0.70710678118654752
	erfMax   = 10.125 // erfc underflows beyond
)

// gelu32 is the exact GELU, x*(1+erf(x/sqrt 2))/2. The negative side uses erfc, so it does
// not cancel.
func gelu32(x float32) float32 { return float32(0.5*x) * erf1(x) }

// erf1 is 1 + erf(x/sqrt 2).
func erf1(x float32) float32 {
	z := float32(x * sqrtHalf)
	if x < 0 {
		z = -z
	}
	var h float32
	if z < 1 {
		e := fma32(z, horner(erfSmall[:], float32(z*z)), z)
		h = 1 + e
		if x < 0 {
			h = 1 - e
		}
	} else {
		if z > erfMax {
			z = erfMax
		}
		h = exp32(fma32(-z, z, horner(erfLarge[:], z)))
		if !(x < 0) {
			h = 2 - h
		}
	}
	return h
}

// horner is the polynomial with coefficients c, constant first.
func horner(c []float32, x float32) float32 {
	p := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		p = fma32(p, x, c[i])
	}
	return p
}

// tanhSmall is the minimax fit P of tanh z = z + z*z²*P(z²) below tanhMid, good to 4e-9.
var tanhSmall = [5]float32{-0.3333328, 0.13331442, -0.053739715, 0.020639086, -0.005704987}

const tanhMid = 0.625

// tanh32 is the hyperbolic tangent. From tanhMid on 1 - 2/(e^2z + 1) loses nothing.
func tanh32(x float32) float32 {
	z := x
	if x < 0 {
		z = -z
	}
	var t float32
	if z < tanhMid {
		s := float32(z * z)
		t = fma32(float32(z*s), horner(tanhSmall[:], s), z)
	} else {
		t = 1 - 2/(exp32(2*z)+1)
	}
	if x < 0 {
		return -t
	}
	return t
}

// softcap32 squashes x smoothly into (-limit, limit).
func softcap32(x, limit float32) float32 { return float32(limit * tanh32(x/limit)) }
