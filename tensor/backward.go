package tensor

// Backward are the ops of a device that can also go backward: each takes the gradient of a
// loss by what an op of [Device] put out, and gives that by what the op read. Parameters are
// frozen and get none. The rules of Device hold for these ops too: they are queued, work on
// the first n rows, and panic on operands that do not fit. Buffers of one call are different
// ones, unless said otherwise.
//
// What an op needs of the forward pass is handed in: it is what that op read or put out
// under [ActF32]. Rounding to 8 bits has no gradient.
type Backward interface {
	// MatMulBack is dst = Wᵀ·dy for each of n rows, or dst + Wᵀ·dy if add: the gradient by the
	// rows of a product with W, [dy.Cols()][dst.Cols()].
	MatMulBack(dst, dy Buffer, n int, w Weight, add bool)
	// NormBack is the gradient by src of Norm(_, src, n, s). dst may be dy.
	NormBack(dst, src, dy Buffer, n int, s NormSpec)
	// ActivateBack turns, in place, the gradient by act(gate)*up into that by up, and gate
	// into the gradient by gate. If gate is nil, the gradient by act(up) becomes that by up.
	// up stays.
	ActivateBack(d, gate, up Buffer, n int, act Activation)
	// AttendBack writes the gradients by the queries, keys and values that Attend was given,
	// before their rotation. b holds whole sequences, whose positions begin at 0; its pages
	// and s.Layer do not count. q and k are as Attend left them, rotated; v is what it was given;
	// out what it put out over a cache of float32, s.Totals what it wrote there, and dout the gradient by out.
	AttendBack(dq, dk, dv, dout, out, q, k, v Buffer, b *Batch, s AttendSpec)
	// ExpertsBack writes the gradients by x and by logits of what Experts adds to rows whose
	// gradient is dy. Which experts a row has is fixed. The way that x takes through the
	// router's product to the logits is the caller's: dlogits begins it. The spec is not kept.
	ExpertsBack(dx, dlogits, dy, x, logits Buffer, n int, s *ExpertsSpec)
}
