package sample

import (
	"errors"
	"fmt"
	"math"
)

// blockSize is how many logits are looked at together. Nearly all blocks hold nothing of
// interest, and telling so takes a fraction of what a look at each logit does.
const blockSize = 64

type block = *[blockSize]float32

// argmax is the id of the best logit, of equals the lowest. sound tells that all are
// finite; that not all are is certain only if [finite] agrees. There must be a logit.
func argmax(logits []float32) (best int32, sound bool) {
	top := logits[0]
	var odd float32 // 0 unless something is no number, or sums are too great for one
	i := 0
	for ; i+blockSize <= len(logits); i += blockSize {
		b := block(logits[i:])
		better := 0
		for j := 0; j < blockSize; j += 4 {
			w, x, y, z := b[j], b[j+1], b[j+2], b[j+3]
			if w > top || x > top || y > top || z > top {
				better++ // no way out: the loop is to be the same for all blocks
			}
			odd += (w + x) - (w + x) + ((y + z) - (y + z))
		}
		if better > 0 {
			for j, l := range b {
				if l > top {
					best, top = int32(i+j), l
				}
			}
		}
	}
	for ; i < len(logits); i++ {
		l := logits[i]
		if l > top {
			best, top = int32(i), l
		}
		odd += l - l
	}
	return best, odd == 0
}

// finite refuses logits that no healthy model gives.
func finite(logits []float32) error {
	if len(logits) == 0 {
		return errors.New("sample: no logits")
	}
	for id, l := range logits {
		if l-l != 0 { // NaN for NaN and infinities
			return fmt.Errorf("sample: %w: %v at id %d", ErrNotFinite, l, id)
		}
	}
	return nil
}

// scale says how far a logit is from the best, in units of the temperature.
type scale struct{ best, inverse float64 }

// scaleOf measures by a positive temperature. Its inverse is finite, so that the distance
// of the best is 0.
func scaleOf(best float32, temperature float64) scale {
	return scale{float64(best), min(1/temperature, math.MaxFloat64)}
}

func (s scale) of(l float32) float64 { return (float64(l) - s.best) * s.inverse }

// above appends to list the logits at most reach below the best, in the order of ids, and
// without weights. All are with infinite reach.
func (s scale) above(list []candidate, logits []float32, reach float64) []candidate {
	width := reach / s.inverse
	// No logit within reach is below low, whatever was rounded here.
	low := float32(s.best - width - 1e-6*(math.Abs(s.best)+width))
	for i := 0; i < len(logits); i += blockSize {
		rest := logits[i:min(i+blockSize, len(logits))]
		if len(rest) == blockSize && !reaches(block(rest), low) {
			continue
		}
		for j, l := range rest {
			if l >= low {
				if v := s.of(l); v >= -reach {
					list = append(list, candidate{id: int32(i + j), logit: v})
				}
			}
		}
	}
	return list
}

// reaches tells whether a block has a logit of at least low.
func reaches(b block, low float32) bool {
	for j := 0; j < blockSize; j += 4 {
		if b[j] >= low || b[j+1] >= low || b[j+2] >= low || b[j+3] >= low {
			return true
		}
	}
	return false
}

// weights gives exp of the distances of up to blockSize logits.
func (s scale) weights(w *[blockSize]float64, logits []float32) []float64 {
	if len(logits) < blockSize {
		for i, l := range logits {
			w[i] = s.of(l)
		}
	} else {
		b := block(logits)
		for i := 0; i < blockSize; i += 4 { // four registers: a conversion waits for what was in its own
			x, y, z, u := float64(b[i]), float64(b[i+1]), float64(b[i+2]), float64(b[i+3])
			w[i], w[i+1] = (x-s.best)*s.inverse, (y-s.best)*s.inverse
			w[i+2], w[i+3] = (z-s.best)*s.inverse, (u-s.best)*s.inverse
		}
	}
	x := w[:min(len(logits), blockSize)]
	Exp(x)
	return x
}

// sums appends the sum of weights of each block to list and gives their total.
func (s scale) sums(list []float64, logits []float32) ([]float64, float64) {
	var total float64
	for i := 0; i < len(logits); i += blockSize {
		sum := s.sum(logits[i:min(i+blockSize, len(logits))])
		list = append(list, sum)
		total += sum
	}
	return list, total
}

// total is the sum of all weights.
func (s scale) total(logits []float32) (total float64) {
	for i := 0; i < len(logits); i += blockSize {
		total += s.sum(logits[i:min(i+blockSize, len(logits))])
	}
	return total
}

// sum is that of the weights of up to blockSize logits.
func (s scale) sum(logits []float32) float64 {
	var w [blockSize]float64
	var a, b, c, d float64
	x := s.weights(&w, logits)
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
	}
	for _, v := range x {
		a += v
	}
	return (a + b) + (c + d)
}

// pick is where the sum of weights reaches u; sums are those of blocks.
func (s scale) pick(logits []float32, sums []float64, u float64) int32 {
	b, last := 0, len(sums)-1
	for b < last && u >= sums[b] {
		u -= sums[b]
		b++
	}
	for ; ; b-- { // at most to the block of the best
		var w [blockSize]float64
		drawn := int32(-1)
		from := b * blockSize
		for i, weight := range s.weights(&w, logits[from:min(from+blockSize, len(logits))]) {
			if weight > 0 { // rounding may leave a rest: the last id with any weight has it
				drawn = int32(from + i)
			}
			if u -= weight; u < 0 {
				break
			}
		}
		if drawn >= 0 {
			return drawn
		}
	}
}
