package nn

import (
	"fmt"
	"math"
	"reflect"

	"whorl/tensor"
)

// The kinds of rotary scaling, by the names of the reference library.
const (
	RopeDefault = "default"
	RopeLinear  = "linear"
	RopeLlama3  = "llama3"
	// RopeFactors divides each frequency by a factor that the file carries (GGUF's
	// rope_freqs), where the parameters behind the factors are not known.
	RopeFactors = "factors"
)

// Rope is the rotary embedding of a model. Theta is float32 since the reference computes
// frequencies in float32. Fields that the Kind does not use are zero.
type Rope struct {
	Kind       string    `json:"kind"`
	Theta      float32   `json:"theta"`
	Dim        int       `json:"dim"` // rotated elements of a head
	Factor     float32   `json:"factor,omitempty"`
	LowFreq    float32   `json:"low_freq,omitempty"`
	HighFreq   float32   `json:"high_freq,omitempty"`
	OldContext int       `json:"old_context,omitempty"`
	Factors    []float32 `json:"factors,omitempty"` // len Dim/2
}

// Validate checks that the parameters of the kind are there and make sense.
func (r Rope) Validate() error {
	if r.Dim <= 0 || r.Dim%2 != 0 {
		return fmt.Errorf("rope: %d rotated elements a head: want a positive even number", r.Dim)
	}
	if !finite(r.Theta) || r.Theta <= 0 {
		return fmt.Errorf("rope: theta is %v", r.Theta)
	}
	switch r.Kind {
	case RopeDefault:
		return nil
	case RopeLinear:
		return positive("factor", r.Factor)
	case RopeLlama3:
		if err := positive("factor", r.Factor); err != nil {
			return err
		}
		if err := positive("low_freq_factor", r.LowFreq); err != nil {
			return err
		}
		if !finite(r.HighFreq) || r.HighFreq <= r.LowFreq {
			return fmt.Errorf("rope: high_freq_factor %v is not above low_freq_factor %v", r.HighFreq, r.LowFreq)
		}
		if r.OldContext <= 0 {
			return fmt.Errorf("rope: original_max_position_embeddings is %d", r.OldContext)
		}
		return nil
	case RopeFactors:
		if len(r.Factors) != r.Dim/2 {
			return fmt.Errorf("rope: %d frequency factors, want %d", len(r.Factors), r.Dim/2)
		}
		for _, f := range r.Factors {
			if err := positive("a frequency factor", f); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("rope type %q is not supported: supported are default, linear, llama3", r.Kind)
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

func positive(name string, v float32) error {
	if !finite(v) || v <= 0 {
		return fmt.Errorf("rope: %s is %v, want a positive number", name, v)
	}
	return nil
}

// Spec computes the rotation for heads of headDim elements.
func (r Rope) Spec(headDim int) tensor.RopeSpec {
	return tensor.RopeSpec{HeadDim: headDim, RotaryDim: r.Dim, InvFreq: r.InvFreq(), Scale: 1}
}

// InvFreq computes the Dim/2 inverse frequencies with the float32 steps of the reference:
// 1 / theta^(2i/Dim), then the scaling of the Kind. Every float32 operation is rounded by
// an explicit conversion, so that no compiler fuses two.
func (r Rope) InvFreq() []float32 {
	freq := make([]float32, r.Dim/2)
	for i := range freq {
		exponent := float32(2*i) / float32(r.Dim)
		freq[i] = 1 / float32(math.Pow(float64(r.Theta), float64(exponent)))
		switch r.Kind {
		case RopeLinear:
			freq[i] /= r.Factor
		case RopeLlama3:
			freq[i] = r.llama3(freq[i])
		case RopeFactors:
			freq[i] /= r.Factors[i]
		}
	}
	return freq
}

// llama3 stretches one frequency: long waves by the full factor, short ones not at all,
// those between by a mixture.
func (r Rope) llama3(freq float32) float32 {
	old := float32(r.OldContext)
	longest, shortest := old/r.LowFreq, old/r.HighFreq
	wave := float32(2*math.Pi) / freq
	if wave < shortest {
		return freq
	}
	if wave > longest {
		return freq / r.Factor
	}
	smooth := float32(float32(old/wave)-r.LowFreq) / float32(r.HighFreq-r.LowFreq)
	slow := float32(float32(1-smooth)*freq) / r.Factor
	return slow + float32(smooth*freq)
}

// Equal compares all parameters.
func (r Rope) Equal(o Rope) bool { return reflect.DeepEqual(r, o) }
