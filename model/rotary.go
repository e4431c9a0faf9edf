package model

import (
	"whorl/model/nn"
)

// RopeFields says how a family reads its rotary embedding from config.json.
type RopeFields struct {
	Family       string
	Theta        float64 // the base where none is given
	HeadDim      int
	MaxPositions int
	// Partial is the part of a head that is rotated where partial_rotary_factor is not
	// given; 0: the family has no such field.
	Partial float64
	// OldContext is original_max_position_embeddings where the family keeps it outside of
	// the scaling's parameters; 0: it does not.
	OldContext int
	// OnlyLong: "yarn" is an old name of longrope, and other kinds of scaling are refused.
	OnlyLong bool
}

// Read reads rope_parameters (transformers 5) or rope_theta with rope_scaling (4). A file
// that carries both must say the same twice.
func (x RopeFields) Read(f *Fields) nn.Rope {
	x.Theta = f.FloatOr("rope_theta", x.Theta)
	if x.Partial != 0 {
		x.Partial = f.FloatOr("partial_rotary_factor", x.Partial)
	} else {
		f.Only("partial_rotary_factor", "1", "1.0")
	}
	v4, v5 := f.Object("rope_scaling"), f.Object("rope_parameters")
	switch {
	case v4 == nil && v5 == nil:
		return x.plain(f)
	case v4 == nil:
		return x.Scaled(v5)
	case v5 == nil:
		return x.Scaled(v4)
	}
	b := x.Scaled(v5)
	x.Theta = float64(b.Theta)
	a := x.Scaled(v4)
	if !a.Equal(b) {
		f.Fail("rope_scaling", "disagrees with rope_parameters: remove one of them")
	}
	return b
}

func (x RopeFields) plain(f *Fields) nn.Rope {
	r := nn.Rope{Kind: nn.RopeDefault, Theta: float32(x.Theta), Dim: x.HeadDim}
	if x.Partial != 0 {
		if x.Partial < 0 || x.Partial > 1 {
			f.Fail("partial_rotary_factor", "is %v, want a part of one", x.Partial)
			return r
		}
		r.Dim = int(float64(x.HeadDim) * x.Partial)
	}
	return r
}

// Scaled reads an object of parameters of one kind of scaling; those that the kind does
// not use are refused.
func (x RopeFields) Scaled(f *Fields) nn.Rope {
	if x.Partial != 0 {
		x.Partial = f.FloatOr("partial_rotary_factor", x.Partial)
	} else {
		f.Only("partial_rotary_factor", "1", "1.0")
	}
	x.Theta = f.FloatOr("rope_theta", x.Theta)
	r := x.plain(f)
	legacy := f.StringOr("type", nn.RopeDefault)
	r.Kind = f.StringOr("rope_type", legacy)
	float := func(name string, def float64) float32 { return float32(f.FloatOr(name, def)) }
	old := x.MaxPositions
	if x.OldContext != 0 {
		old = x.OldContext
	}
	if x.OnlyLong && r.Kind != nn.RopeDefault {
		if r.Kind != nn.RopeLong && r.Kind != "su" && r.Kind != nn.RopeYarn {
			f.Fail("rope_type", "is %q, which is not supported in a %s model: default and longrope are", r.Kind, x.Family)
			return r
		}
		r.Kind = nn.RopeLong
	}
	switch r.Kind {
	case nn.RopeDefault:
		f.Skip("original_max_position_embeddings") // it scales nothing
	case nn.RopeLinear:
		r.Factor = float("factor", 0)
	case nn.RopeLlama3:
		r.Factor = float("factor", 0)
		r.LowFreq, r.HighFreq = float("low_freq_factor", 0), float("high_freq_factor", 0)
		r.OldContext = f.IntOr("original_max_position_embeddings", old)
	case nn.RopeDynamic:
		// Transformers stretches from max_position_embeddings, whatever else is said.
		r.Factor, r.OldContext = float("factor", 0), x.MaxPositions
		f.Skip("original_max_position_embeddings")
	case nn.RopeYarn:
		x.yarn(f, &r, old)
	case nn.RopeLong, "su": // the latter is what the first Phi-3 configurations say
		x.long(f, &r, old)
	default:
		f.Fail("rope_type", "is %q, which is not supported: supported are default, linear, dynamic, yarn, longrope, llama3", r.Kind)
	}
	f.Rest(x.Family)
	return r
}

func (x RopeFields) yarn(f *Fields, r *nn.Rope, old int) {
	r.OldContext = f.IntOr("original_max_position_embeddings", old)
	factor := f.FloatOr("factor", float64(x.MaxPositions)/float64(max(r.OldContext, 1)))
	r.Factor = float32(factor)
	r.BetaFast, r.BetaSlow = float32(f.FloatOr("beta_fast", 32)), float32(f.FloatOr("beta_slow", 1))
	r.Untruncate = !f.BoolOr("truncate", !f.Null("truncate")) // null is false to transformers
	scale, all := f.FloatOr("mscale", 0), f.FloatOr("mscale_all_dim", 0)
	r.Magnitude = attentionFactor(f, nn.YarnMagnitude(factor, scale, all))
}

func (x RopeFields) long(f *Fields, r *nn.Rope, old int) {
	r.Kind = nn.RopeLong
	r.OldContext = f.IntOr("original_max_position_embeddings", old)
	if x.OldContext != 0 && r.OldContext != x.OldContext {
		f.Fail("original_max_position_embeddings", "is %d, but the model's own is %d: they must be equal", r.OldContext, x.OldContext)
	}
	r.Factors, r.Long = f.Floats("short_factor"), f.Floats("long_factor")
	factor := f.FloatOr("factor", float64(x.MaxPositions)/float64(max(r.OldContext, 1)))
	r.Magnitude = attentionFactor(f, nn.LongMagnitude(factor, r.OldContext))
}

// attentionFactor reads what multiplies cos and sin. Zero would blind attention to positions
// and stands for "one" in nn.Rope.
func attentionFactor(f *Fields, def float32) float32 {
	v := float32(f.FloatOr("attention_factor", float64(def)))
	if v <= 0 {
		f.Fail("attention_factor", "is %v, want a positive number", v)
	}
	return v
}
