package sample

import (
	"fmt"
	"math"
)

// GuidanceParams ask for classifier-free guidance: an answer is moved away from what would follow
// another context, or towards it.
type GuidanceParams struct {
	Scale    float64 `json:"guidance_scale"`      // 1 = none, above 1 away from the other context, below 1 towards it
	Negative string  `json:"negative_prompt"`     // the other context as text, or
	Ids      IDs     `json:"negative_prompt_ids"` // as ids; without either it is the last id of the prompt
}

// maxGuidance bounds the scale: beyond it differences only move logits out of float32.
const maxGuidance = 100

// ValidateGuidance refuses a scale that means nothing; the error is a *FieldError.
func ValidateGuidance(scale float64) error {
	if !(math.Abs(scale) <= maxGuidance) {
		return &FieldError{"guidance_scale", scale, fmt.Sprintf("-%d to %[1]d, 1 for none", maxGuidance)}
	}
	return nil
}

// Guide writes to dst what is to be chosen from, given the logits in the context of a text and in
// the other one: the log-probabilities of the other and scale times what those of the text have
// above them, in float32, as transformers does. other is left as log-probabilities. The error is
// ErrNotFinite.
func Guide(dst, logits, other []float32, scale float64) error {
	for _, l := range [][]float32{logits, other} {
		if _, sound := argmax(l); !sound {
			if err := finite(l); err != nil {
				return err
			}
		}
	}
	copy(dst, logits)
	logSoftmax(dst)
	logSoftmax(other)
	by := float32(scale)
	for i, o := range other {
		dst[i] = float32(by*float32(dst[i]-o)) + o
	}
	return nil
}
