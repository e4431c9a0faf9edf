package cpu

import (
	"whorl/tensor"
	"whorl/tensor/quant"
)

// soften turns q·k of one query vector, at [from, to) of a split, into exp(score-m); head
// counts within its group. It gives the maximum m and the sum.
func (op *attendOp) soften(s *attendScratch, scores []float32, head, from, to int) (m, l float32) {
	k, seen := op.d.k, scores[from:to]
	if op.slopes == nil && op.spec.Softcap == 0 {
		return k.softmax(seen, op.spec.Scale)
	}
	k.scale(seen, seen, op.spec.Scale)
	if op.slopes != nil {
		k.add(seen, seen, s.bias[head*tensor.AttendSplit+from:])
	}
	if op.spec.Softcap != 0 {
		k.softcap(seen, op.spec.Softcap)
	}
	return k.softmax(seen, 1)
}

// bias fills s.bias with what ALiBi adds for each head of a group at positions [from, to)
// of one split.
func (op *attendOp) bias(s *attendScratch, kvHead, from, to int) {
	at := from % tensor.AttendSplit
	for h := range op.group() {
		bias := s.bias[h*tensor.AttendSplit+at:][:to-from]
		slope := op.slopes[kvHead*op.group()+h]
		if !op.spec.Alibi.BF16 {
			for i := range bias {
				bias[i] = slope * float32(from+i)
			}
			continue
		}
		for i := range bias {
			b := roundBF16(slope * roundBF16(float32(from+i)))
			bias[i] = b * op.spec.Scale
		}
	}
}

// roundBF16 is the nearest bfloat16, ties to even.
func roundBF16(v float32) float32 { return quant.BF16ToF32(quant.F32ToBF16(v)) }
