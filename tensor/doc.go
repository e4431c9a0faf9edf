// Package tensor is the contract between models and the devices that compute them.
//
// It names data types, the ragged batch, and [Device]: about a dozen coarse ops that
// take descriptors, so that a new model family needs no new op. It holds no arithmetic:
// ref is the slow oracle, cpu the fast one, gpu the CUDA one, and tensortest the suite
// that all of them must pass. It knows nothing of files, sessions or the network.
//
// # One arithmetic
//
// Devices of one [Info.Arithmetic] give the same bits for the same weights and modes at
// every batch composition, chunking, thread count and tier. The rules of "cpu1":
//
//   - Every value is float32 with IEEE rounding, no flush to zero, no approximate
//     reciprocal. "fma(a, b, c)" below is one fused multiply-add with one rounding.
//   - Float product (float weights, or quantised weights under [ActF32], dequantised to
//     float32 first): acc = 0; for k = 0..K-1: acc = fma(w[k], x[k], acc).
//   - Quantised product ([Act8] with quantised weights): x is cut in groups of 32;
//     per group amax = max|x|, d = amax/127, id = 127/amax (0 if amax is 0),
//     q = round-half-even(x*id). For groups in rising order, with the exact integer
//     s = sum(qw*qx) and the exact integer t = sum(qx):
//     acc = fma(float(s), dw*d, acc), and for formats with a minimum
//     acc = fma(mw, d*float(t), acc) after it. Formats without such a form are
//     unpacked and take the float product.
//   - Reductions over a row (norms, softmax sums, q·k) run in 16 lanes, lane j taking
//     elements j, j+16, ...; lanes are then added pairwise: j with j+8, +4, +2, +1.
//   - Attention walks positions from 0 in splits of [AttendSplit] positions. In a
//     split: scores, their maximum m, p = exp(score-m), l = sum(p), o = sum(p*v) by
//     fma over rising positions. Splits are merged in rising order.
//   - exp, silu, gelu, tanh, sin and cos are the project's own polynomials.
package tensor
