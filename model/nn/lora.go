package nn

import "whorl/tensor"

// LoRA is what an adapter adds to the matrices of one block: beside W·x+bias, the product of
// parameter p gives
//
//	Scale[p] * (B[p]·(A[p]·x))
//
// in float32. A is [rank][in] and B is [out][rank]; both are nil where the adapter changes
// nothing. Parameters that a checkpoint fuses may share one A. A LoRA is immutable.
type LoRA struct {
	A, B  [NumParams]tensor.Weight
	Scale [NumParams]float32
}

// Bytes is the memory that A and B hold on the device.
func (l *LoRA) Bytes() int64 {
	var sum int64
	for p, a := range l.A {
		if a == nil {
			continue
		}
		sum += l.B[p].Bytes()
		shared := false
		for _, before := range l.A[:p] {
			shared = shared || before == a
		}
		if !shared {
			sum += a.Bytes()
		}
	}
	return sum
}
