package nn

import (
	"errors"
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
	RopeYarn    = "yarn"
	// RopeDynamic raises the base with the length of the session, and RopeLong chooses one
	// of two lists of factors by it: see Rope.At.
	RopeDynamic = "dynamic"
	RopeLong    = "longrope"
	// RopeNone leaves queries and keys as they are.
	RopeNone = "none"
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
	Factors    []float32 `json:"factors,omitempty"` // len Dim/2; of short sessions, if Kind is RopeLong
	Long       []float32 `json:"long,omitempty"`    // len Dim/2; of sessions longer than OldContext
	BetaFast   float32   `json:"beta_fast,omitempty"`
	BetaSlow   float32   `json:"beta_slow,omitempty"`
	Untruncate bool      `json:"untruncate,omitempty"` // yarn's range of dimensions is not rounded
	Magnitude  float32   `json:"magnitude,omitempty"`  // multiplies cos and sin; 0: one
}

// LengthDependent tells the kinds that are fixed by the length of a session.
func (r Rope) LengthDependent() bool { return r.Kind == RopeDynamic || r.Kind == RopeLong }

// At is the rotation of a session of at most length positions, of a kind that no longer
// depends on it. The reference re-scales while it generates; a session must not, since its
// stages and its replays have to agree, so it is what one forward pass at that length has.
func (r Rope) At(length int) Rope {
	switch r.Kind {
	case RopeDynamic:
		r.Kind = RopeDefault
		if length > r.OldContext {
			// float32 steps, as the reference takes them
			stretch := float32(float32(r.Factor*float32(length))/float32(r.OldContext)) - float32(r.Factor-1)
			power := float64(r.Dim) / float64(r.Dim-2)
			r.Theta *= float32(math.Pow(float64(stretch), power))
		}
		r.Factor, r.OldContext = 0, 0
	case RopeLong:
		r.Kind = RopeFactors
		if length > r.OldContext {
			r.Factors = r.Long
		}
		r.Long, r.OldContext = nil, 0
	}
	return r
}

// Validate checks that the parameters of the kind are there and make sense.
func (r Rope) Validate() error {
	if r.Kind == RopeNone {
		return nil
	}
	if r.Dim <= 0 || r.Dim%2 != 0 {
		return fmt.Errorf("rope: %d rotated elements a head: want a positive even number", r.Dim)
	}
	if !finite(r.Theta) || r.Theta <= 0 {
		return fmt.Errorf("rope: theta is %v", r.Theta)
	}
	if !finite(r.Magnitude) || r.Magnitude < 0 {
		return fmt.Errorf("rope: the factor of cos and sin is %v", r.Magnitude)
	}
	switch r.Kind {
	case RopeDefault:
		return nil
	case RopeLinear:
		return positive("factor", r.Factor)
	case RopeLlama3:
		return r.validateLlama3()
	case RopeFactors:
		return r.factors(r.Factors)
	case RopeLong:
		return errors.Join(r.factors(r.Factors), r.factors(r.Long), r.context())
	case RopeYarn:
		err := errors.Join(positive("factor", r.Factor), positive("beta_fast", r.BetaFast), positive("beta_slow", r.BetaSlow), r.context())
		if err == nil && r.Theta == 1 {
			return fmt.Errorf("rope: theta is 1, which yarn cannot scale")
		}
		return err
	case RopeDynamic:
		if r.Dim < 4 {
			return fmt.Errorf("rope: %d rotated elements a head: dynamic scaling wants 4 or more", r.Dim)
		}
		return errors.Join(positive("factor", r.Factor), r.context())
	}
	return fmt.Errorf("rope type %q is not supported: supported are default, linear, dynamic, yarn, longrope, llama3", r.Kind)
}

func (r Rope) validateLlama3() error {
	if err := errors.Join(positive("factor", r.Factor), positive("low_freq_factor", r.LowFreq)); err != nil {
		return err
	}
	if !finite(r.HighFreq) || r.HighFreq <= r.LowFreq {
		return fmt.Errorf("rope: high_freq_factor %v is not above low_freq_factor %v", r.HighFreq, r.LowFreq)
	}
	return r.context()
}

func (r Rope) context() error {
	if r.OldContext <= 0 {
		return fmt.Errorf("rope: original_max_position_embeddings is %d", r.OldContext)
	}
	return nil
}

func (r Rope) factors(list []float32) error {
	if len(list) != r.Dim/2 {
		return fmt.Errorf("rope: %d frequency factors, want %d", len(list), r.Dim/2)
	}
	for _, f := range list {
		if err := positive("a frequency factor", f); err != nil {
			return err
		}
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

func positive(name string, v float32) error {
	if !finite(v) || v <= 0 {
		return fmt.Errorf("rope: %s is %v, want a positive number", name, v)
	}
	return nil
}

// Spec computes the rotation for heads of headDim elements; where it depends on the
// session's length, that of a short one.
func (r Rope) Spec(headDim int) tensor.RopeSpec {
	scale := r.Magnitude
	if scale == 0 {
		scale = 1
	}
	return tensor.RopeSpec{HeadDim: headDim, RotaryDim: r.Dim, InvFreq: r.At(0).InvFreq(), Scale: scale}
}

// InvFreq computes the Dim/2 inverse frequencies with the float32 steps of the reference:
// 1 / theta^(2i/Dim), then the scaling of the Kind. Every float32 operation is rounded by
// an explicit conversion, so that no compiler fuses two.
func (r Rope) InvFreq() []float32 {
	freq := make([]float32, r.Dim/2)
	low, width := r.yarnRange()
	for i := range freq {
		exponent := float32(2*i) / float32(r.Dim)
		power := float32(math.Pow(float64(r.Theta), float64(exponent)))
		switch r.Kind {
		case RopeDefault:
			freq[i] = 1 / power
		case RopeLinear:
			freq[i] = float32(1/power) / r.Factor
		case RopeLlama3:
			freq[i] = r.llama3(1 / power)
		case RopeFactors:
			freq[i] = 1 / float32(r.Factors[i]*power)
		case RopeYarn:
			ramp := float32(float32(i)-low) / width
			keep := 1 - min(max(ramp, 0), 1) // of the frequency that is not stretched
			slow := float32(1/float32(r.Factor*power)) * float32(1-keep)
			freq[i] = slow + float32(float32(1/power)*keep)
		}
	}
	return freq
}

// yarnRange gives the first and the number of the dimensions over which yarn goes from
// keeping to stretching: from those that turn BetaFast times over the old context to those
// that turn BetaSlow times.
func (r Rope) yarnRange() (low, width float32) {
	if r.Kind != RopeYarn {
		return 0, 0
	}
	turning := func(times float32) float64 {
		return float64(r.Dim) * math.Log(float64(r.OldContext)/(float64(times)*2*math.Pi)) / (2 * math.Log(float64(r.Theta)))
	}
	from, to := turning(r.BetaFast), turning(r.BetaSlow)
	if !r.Untruncate {
		from, to = math.Floor(from), math.Ceil(to)
	}
	from, to = max(from, 0), min(to, float64(r.Dim-1))
	if from == to {
		to += 0.001
	}
	return float32(from), float32(to - from)
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
