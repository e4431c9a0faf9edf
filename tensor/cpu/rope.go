package cpu

import (
	"fmt"

	"whorl/tensor"
)

// rope is a rotation table. It grows by blocks of positions as they are first needed,
// under the device's lock.
type rope struct {
	spec   tensor.RopeSpec
	blocks [][]float32 // block i: [ropeBlock][2*pairs]: cosines, then sines, of a position
}

// ropeBlock is how many positions are tabled at a time.
const ropeBlock = 64

func (r *rope) RotaryDim() int { return r.spec.RotaryDim }

// NewRope prepares a table.
func (d *Device) NewRope(s tensor.RopeSpec) (tensor.Rope, error) {
	if s.RotaryDim <= 0 || s.RotaryDim%2 != 0 || s.RotaryDim > s.HeadDim {
		return nil, fmt.Errorf("cpu device: rope over %d of %d dimensions: it must be even and within the head", s.RotaryDim, s.HeadDim)
	}
	if len(s.InvFreq) != s.RotaryDim/2 {
		return nil, fmt.Errorf("cpu device: rope over %d dimensions with %d frequencies", s.RotaryDim, len(s.InvFreq))
	}
	s.InvFreq = append([]float32(nil), s.InvFreq...)
	return &rope{spec: s}, nil
}

// reach grows the table to hold position pos.
func (r *rope) reach(pos int) {
	pairs := len(r.spec.InvFreq)
	for len(r.blocks)*ropeBlock <= pos {
		block := make([]float32, ropeBlock*2*pairs)
		for p := range ropeBlock {
			row := block[p*2*pairs:][:2*pairs]
			for i, f := range r.spec.InvFreq {
				at := float32(len(r.blocks)*ropeBlock + p)
				sin, cos := sincos(float32(at * f))
				row[i], row[pairs+i] = cos*r.spec.Scale, sin*r.spec.Scale
			}
		}
		r.blocks = append(r.blocks, block)
	}
}

// apply rotates the heads of a row at position pos, which the table must reach.
func (r *rope) apply(row []float32, pos int) {
	pairs := len(r.spec.InvFreq)
	table := r.blocks[pos/ropeBlock][pos%ropeBlock*2*pairs:][:2*pairs]
	cos, sin := table[:pairs], table[pairs:]
	for h := 0; h < len(row); h += r.spec.HeadDim {
		lo, hi := row[h:h+pairs], row[h+pairs:h+2*pairs]
		for i, c := range cos {
			a, b, s := lo[i], hi[i], sin[i]
			lo[i] = float32(a*c) - float32(b*s)
			hi[i] = float32(b*c) + float32(a*s)
		}
	}
}

// turnBack is the transpose of apply.
func (r *rope) turnBack(row []float32, pos int) {
	pairs := len(r.spec.InvFreq)
	table := r.blocks[pos/ropeBlock][pos%ropeBlock*2*pairs:][:2*pairs]
	cos, sin := table[:pairs], table[pairs:]
	for h := 0; h < len(row); h += r.spec.HeadDim {
		lo, hi := row[h:h+pairs], row[h+pairs:h+2*pairs]
		for i, c := range cos {
			a, b, s := lo[i], hi[i], sin[i]
			lo[i] = float32(a*c) + float32(b*s)
			hi[i] = float32(b*c) - float32(a*s)
		}
	}
}
