package nn

import (
	"fmt"

	"whorl/tensor"
)

// Params are the loaded parameters of a block, indexed by [Param]: Weight for matrices,
// Gain for the norms, Bias for the biases of either (nil where the Spec asks for none).
type Params struct {
	Weight [NumParams]tensor.Weight
	Gain   [NumParams]tensor.Vector
	Bias   [NumParams]tensor.Vector
	// Expert[e] holds Gate, Up and Down of expert e, where there are experts.
	Expert []Expert
}

// Expert is one MLP of a mixture.
type Expert struct{ Gate, Up, Down tensor.Weight }

// SetVector puts a loaded gain or bias in its place.
func (p *Params) SetVector(n Need, v tensor.Vector) {
	if n.Bias {
		p.Bias[n.Param] = v
	} else {
		p.Gain[n.Param] = v
	}
}

// SetMatrix puts a loaded matrix of a block of Spec s in its place.
func (p *Params) SetMatrix(s Spec, n Need, w tensor.Weight) {
	if !s.ofExpert(n.Param) {
		p.Weight[n.Param] = w
		return
	}
	if p.Expert == nil {
		p.Expert = make([]Expert, s.Experts)
	}
	*p.Expert[n.Expert].matrix(n.Param) = w
}

// ofExpert tells the parameters that every expert has of its own.
func (s Spec) ofExpert(p Param) bool {
	return s.Experts > 0 && (p == Gate || p == Up || p == Down)
}

func (e *Expert) matrix(p Param) *tensor.Weight {
	switch p {
	case Gate:
		return &e.Gate
	case Up:
		return &e.Up
	}
	return &e.Down
}

// held gives the memory that a need's parameter takes on the device, or an error if it is
// missing.
func (p *Params) held(s Spec, n Need) (int64, error) {
	var w tensor.Weight
	var v tensor.Vector
	switch {
	case n.Bias:
		v = p.Bias[n.Param]
	case n.Vector():
		v = p.Gain[n.Param]
	case !s.ofExpert(n.Param):
		w = p.Weight[n.Param]
	case n.Expert < len(p.Expert):
		w = *p.Expert[n.Expert].matrix(n.Param)
	}
	switch {
	case w != nil:
		return w.Bytes(), nil
	case v != nil:
		return 4 * n.Values(), nil
	}
	return 0, fmt.Errorf("block: parameter %s is missing", n.Param)
}
