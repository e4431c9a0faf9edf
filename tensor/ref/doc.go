// Package ref is the oracle: every op of the Device contract as the plainest loop that
// computes it, accumulating in float64 and using the math package. It says what the
// result should be; it does not define the bits (the arithmetic in package tensor does),
// so other devices are compared with it within a tolerance. The one rounding it shares
// with them is the quantisation of activations to 8 bits, which is part of the meaning of
// an Act8 product. It is slow, single-threaded, and never used to serve.
package ref
