// Package tensortest is the conformance suite of the Device contract. Run holds a device
// against the oracle within derived tolerances and checks that its bits do not depend on
// how rows are batched, chunked or placed, nor reach past them; a device of the arithmetic
// "exact1" is also held against its rules word by word. Same and Hashes compare the bits of
// two devices, or of a device and a golden file made on another machine
// (testdata/exact1.txt). It tests contracts, not speed.
//
// Tolerances. Every op is compared in units of the sum of the magnitudes that were added
// (the condition of a sum): a float32 accumulation of n terms errs by at most
// n*2^-24 of that sum, and in practice by about sqrt(n)*2^-24; the suite allows
// 8*sqrt(n)*2^-24. The oracle dequantises exactly and quantises activations by the same
// rule, so quantised formats need no more.
package tensortest
