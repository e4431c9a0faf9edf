package nn

import (
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// AlibiSlopes are the slopes of heads by the rule of BLOOM: powers of 2^(-8/c), where c is
// the largest power of two that is at most heads, and for the heads beyond c the odd powers
// of 2^(-4/c). Steps are rounded as the reference rounds them.
func AlibiSlopes(heads int) []float32 {
	c := 1
	for 2*c <= heads {
		c *= 2
	}
	slopes := make([]float32, heads)
	base, between := alibiBase(c), alibiBase(2*c)
	for i := range slopes {
		if i < c {
			slopes[i] = float32(math.Pow(float64(base), float64(i+1)))
		} else {
			slopes[i] = float32(math.Pow(float64(between), float64(2*(i-c)+1)))
		}
	}
	return slopes
}

func alibiBase(c int) float32 {
	return float32(math.Pow(2, -math.Pow(2, -(math.Log2(float64(c))-3))))
}

// alibi loads the slopes of a block; nil if it has none.
func (s Spec) alibi(dev tensor.Device) (*tensor.AlibiSpec, error) {
	if s.Alibi == NoAlibi {
		return nil, nil
	}
	slopes := AlibiSlopes(s.Heads)
	if s.Alibi == AlibiBF16 {
		bf16, _ := quant.Of(tensor.BF16)
		packed := make([]byte, len(slopes)*bf16.Bytes)
		bf16.Pack(packed, slopes)
		bf16.Unpack(slopes, packed)
	}
	v, err := dev.LoadVector(slopes)
	if err != nil {
		return nil, err
	}
	return &tensor.AlibiSpec{Slopes: v, BF16: s.Alibi == AlibiBF16}, nil
}
