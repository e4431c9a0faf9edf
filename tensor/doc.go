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
// every batch composition, chunking, thread count and tier. The rules of "exact1":
//
//   - Every value is float32 with IEEE rounding, no flush to zero, no approximate
//     reciprocal. "fma(a, b, c)" below is one fused multiply-add with one rounding; any
//     other product or sum is rounded on its own. The bits of a NaN are not promised.
//   - Float product (float weights, or quantised weights under [ActF32], dequantised to
//     float32 first): acc = 0; for k = 0..K-1: acc = fma(w[k], x[k], acc).
//   - NF4 product (NF4 weights in both modes): acc = 0; for groups of 64 in rising order, with
//     their scale d and levels l: s = 0; for k in the group: s = fma(l[k], x[k], s); then
//     acc = fma(s, d, acc).
//   - Quantised product ([Act8] with quantised weights): x is cut in groups of 32;
//     per group amax = max|x|, d = amax/127, id = 127/amax, q = round-half-even(x*id);
//     below amax = 2^-120, where id would overflow, d and q are 0; a group with an
//     infinity or a NaN makes the row's results NaN. For groups in rising order, with the
//     exact integer s = sum(qw*qx) and the exact integer t = sum(qx): p = fma(float(s), dw, 0),
//     acc = fma(p, d, acc), and for formats with a minimum acc = fma(mw, d*float(t), acc)
//     after it. In Q4_K and Q5_K, whose groups have scales sc and minima m of 6 bits,
//     dw = d'*float(sc) and mw = -(dmin'*float(m)) with the block's own d' and dmin'. Q6_K
//     has a scale sc for each half of a group: with the exact sums s1, s2 of the halves
//     p = fma(float(s1), dw1, 0), p = fma(float(s2), dw2, p), acc = fma(p, d, acc), where
//     dw = d'*float(sc). All of these dw and mw are exact, and finite: what other scales
//     give is not promised. Formats without such a form are unpacked and take the float
//     product.
//   - INT8 product ([Act8] with INT8 weights, LLM.int8() decided for each row by itself): the
//     columns with |x| >= 6 are outliers. Of the others amax = max|x|, q =
//     round-half-even(x*(127/amax)); below amax = 2^-120, amax and q are 0; a NaN is no
//     outlier and makes amax one. With the exact integer s = sum(qw*q) over the row and the
//     magnitude aw of the weight's row: acc = (float(s)*(amax*aw))*float(1/16129). Then for
//     the outliers, k rising: acc = fma(w[k], x[k], acc), w dequantised.
//   - Reductions over a row (norms, softmax sums) run in 16 lanes, lane j taking
//     elements j, j+16, ...; lanes are then added pairwise: j with j+8, +4, +2, +1.
//     Squares are summed by fma.
//   - RMS norm: inv = 1/sqrt(sum(x²)/n + eps), y = (x*inv)*gain. Layer norm: c = x - sum(x)/n,
//     inv = 1/sqrt(sum(c²)/n + eps), y = (c*inv)*gain [+ bias].
//   - Rotation: cos and sin of float(pos)*InvFreq[i] are rounded to float32, then scaled;
//     lo' = lo*cos - hi*sin, hi' = hi*cos + lo*sin.
//   - Attention: a row at position pos sees positions 0..pos, or with a window W only those
//     from max(0, pos-W+1) on. The walk is cut in splits of [AttendSplit] positions, counted
//     from position 0. In a split, over the positions seen and no others: scores; their
//     maximum m, p = exp(score-m), l = sum(p) with lane 0 at the first position seen, and
//     o = sum(p*v), a float product over rising positions. The splits of a row in which it
//     sees a position are merged in rising order into M, L, O, which start as the first such
//     split's: n = max(M, m), a = exp(M-n), b = exp(m-n), L = fma(L, a, l*b),
//     O = fma(O, a, o*b), M = n. The result is O*(1/L). What a row sees is all that counts:
//     not the rows beside it, nor what the cache holds elsewhere.
//   - A BF16 cache rounds keys, after the rotation, and values to bfloat16, to nearest, ties
//     to even, when it is written; what it holds then takes the place of the rows' own.
//   - Scores: s = (q·k)*scale, where q·k is a float product over rising dimensions. With
//     ALiBi s = s + bias, where bias = slope*float(position of k), or with BF16
//     bias = bf16(slope*bf16(float(position)))*scale, bf16 rounding to nearest, ties to even.
//     With a soft cap s = cap*tanh(s/cap) after that.
//   - Experts: of a row's logits m = max, e = exp(logit-m), l = sum(e), p = e*(1/l). The
//     TopK experts of greatest logits are chosen, of equal ones the first. To renormalise,
//     p is divided by the sum of the chosen p, added from 0 in the order of experts. With y
//     made by the rules of products, acc = 0 and for the chosen in the order of experts
//     acc = fma(y, p, acc); dst = dst + acc, or dst + acc*Scale.
//   - Round: to the nearest bfloat16, ties to even, held as a float32; half a step beyond the
//     largest one and more is infinite; a NaN keeps its upper half and becomes quiet.
//   - An epilogue's steps (bias, activation, gate, scale, residual) and the ops Add, Activate
//     and Scale are rounded one by one: a fused product has the bits of its parts.
//   - exp, silu, gelu, tanh, sin and cos are the project's own polynomials (package cpu,
//     math.go and sincos.go, which any other implementation copies operation by operation).
//     exp is 0 below -87.3, where it would soon be subnormal.
//
// # Backward
//
// The rules of "exact1" for the ops of [Backward]. Sums in lanes are those of reductions
// above, with fma of the two factors; where nothing else is said, a step is rounded on its own.
//
//   - Transposed product, of weights dequantised to float32 in every format: acc = 0; for the
//     rows i = 0.. of W: acc[j] = fma(W[i][j], dy[i], acc[j]). dst is acc, or dst + acc.
//   - Norms: inv as in the forward norm, h = x*inv or, of a layer norm, c*inv, and t = dy*gain.
//     m = sum(h*t)/n in lanes. RMS: dx = fma(-h, m, t)*inv. Layer: a = sum(t)/n in lanes,
//     dx = fma(-h, m, t-a)*inv.
//   - Activations: dx = dy*f(x), or beside a gate dup = d*act(gate) and
//     dgate = (d*up)*f(gate), where act is the forward's and f its derivative: of SiLU with
//     s = 1/(1+exp(-x)): f = fma(x*s, 1-s, s); of the tanh GELU with
//     s = 1/(1+exp(x*fma(x*x, k1, k0))): f = fma((x*s)*(1-s), -fma(x*x, 3*k1, k0), s); of GELU:
//     f = fma(x, exp((x*x)*-0.5)*(2*pi)^-1/2, h/2), where h = 1 + erf(x/sqrt 2). In each, x
//     is first brought to within ±100, beyond which f is a constant.
//   - Attention: for each row and head the splits' m and l, merged as in the forward, give M and
//     L; inv = 1/L; p = exp(score-M)*inv. D = sum(dout*out) in lanes over the head's
//     dimensions; dp = dout·v, a float product over rising dimensions; ds = p*(dp-D). With a
//     soft cap r = score/cap, ds = ds*fma(-r, r, 1). Then ds = ds*scale. dq = sum(ds*k), a
//     float product over the positions seen, rising. dv = sum(p*dout) and dk = sum(ds*q), float
//     products over the rows that see the position, rising, and in a row over the heads that
//     share it, rising. q and k are the rotated ones; dq and dk are then turned back:
//     lo = lo'*cos + hi'*sin, hi = hi'*cos - lo'*sin.
//   - Experts: y and p as in the forward; dys = dy, or dy*Scale. Of each chosen expert the gradient
//     by its output is dys*p, which goes back by the rules of products and activations:
//     dx = the sum over the chosen, in the order of experts from 0, of Upᵀ·dup + Gateᵀ·dgate.
//     g = sum(dys*y) in lanes is the gradient by p, and with c = sum(p*g), by fma from 0 in
//     the order of experts, that by the logits is p*(g-c) of the chosen and, of the others, 0 if p was
//     renormalised and else -(p*c).
package tensor
