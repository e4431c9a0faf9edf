package cpu

import "math"

// sincos gives the sine and cosine of a float32 angle, each rounded from a float64 value
// good to about 1e-15, so nearly always the nearest float32. Only rope tables need it, so
// there is no vector twin. It is our own because the library's may be fused or replaced by
// another on other machines. |x| stays below 2^26 (a position times a frequency <= 1).
func sincos(x float32) (sin, cos float32) {
	// pi/2 in three parts; the first two have 26 bits, so that n times them is exact.
	const (
		p1 = 0x1.921fb5p+0
		p2 = 0x1.110b46p-26
		p3 = 0x1.1a62633145c07p-54
	)
	z := float64(x)
	n := math.RoundToEven(float64(z * (2 / math.Pi)))
	r := z - float64(n*p1)
	r -= float64(n * p2)
	r -= float64(n * p3)
	q := float64(r * r)
	// Taylor series: |r| <= pi/4, so the first terms left out are below 1e-16.
	s := poly64(q, -1.0/1307674368000, 1.0/6227020800, -1.0/39916800, 1.0/362880, -1.0/5040, 1.0/120, -1.0/6, 1)
	c := poly64(q, 1.0/20922789888000, -1.0/87178291200, 1.0/479001600, -1.0/3628800, 1.0/40320, -1.0/720, 1.0/24, -1.0/2, 1)
	s = float64(s * r)
	switch int64(n) & 3 {
	case 0:
		return float32(s), float32(c)
	case 1:
		return float32(c), float32(-s)
	case 2:
		return float32(-s), float32(-c)
	}
	return float32(-c), float32(s)
}

// poly64 is a polynomial in q, coefficient of the highest power first, without fusing.
func poly64(q float64, c ...float64) float64 {
	p := c[0]
	for _, k := range c[1:] {
		p = float64(p*q) + k
	}
	return p
}
