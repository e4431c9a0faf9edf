package sample

import "math"

// Our own exp rounds alike on every processor, so that a seed means the same ids (with
// typical-p that hangs on the logarithm too), and several can be under way at once. Of the
// argument, a multiple of log(2)/256 is taken by table and exponent, and the rest, at most
// log(2)/512, by a polynomial.
const (
	steps = 256
	// ln2High has few enough bits that its product with a number of steps is exact.
	ln2High = 0x1.62e42fep-1 / steps
	ln2Low  = math.Ln2/steps - ln2High
	// rounder is so great that adding it rounds to a whole number, in the lowest bits.
	rounder = 3 << 51
	// lowest is where exp becomes 0: nothing of this size changes a sum that has the best's 1.
	lowest = -700
)

// fractions are 2^(i/256): products of square roots, which are rounded alike everywhere.
var fractions = func() (t [steps]float64) {
	for i := range t {
		t[i] = 1
		for root, bit := math.Sqrt2, steps/2; bit > 0; root, bit = math.Sqrt(root), bit/2 {
			if i&bit != 0 {
				t[i] *= root
			}
		}
	}
	return t
}()

// Exp replaces numbers of at most 0 by their exponentials, within 2e-15 of each. What is
// converted below is not fused with what comes after it.
func Exp(x []float64) {
	for i, v := range x {
		if v < lowest {
			x[i] = 0
			continue
		}
		shifted := float64(v*(steps/math.Ln2)) + rounder
		n := math.Float64bits(shifted)
		whole := shifted - rounder
		r := (v - float64(whole*ln2High)) - float64(whole*ln2Low)
		r2 := float64(r * r)
		p := r + float64(r2*(0.5+float64(r*(1./6))+float64(r2*(1./24))))
		f := fractions[n%steps]
		x[i] = math.Float64frombits(math.Float64bits(f+float64(f*p)) + n/steps<<52)
	}
}
