package ref

import (
	"math"

	"whorl/tensor"
)

// Experts computes the experts of each row, one row and expert after the other. Which ones
// are chosen is decided by the float32 logits, as on every device.
func (d *Device) Experts(dst, x, logits tensor.Buffer, n int, s *tensor.ExpertsSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range n {
		odds := logits.(*buffer).row(r)
		top, all, chosenSum := math.Inf(-1), 0.0, 0.0
		for _, v := range odds {
			top = max(top, float64(v))
		}
		for _, v := range odds {
			all += math.Exp(float64(v) - top)
		}
		weights := make([]float64, len(odds))
		for e, v := range odds {
			if rank(odds, e) < s.TopK {
				weights[e] = math.Exp(float64(v)-top) / all
				chosenSum += weights[e]
			}
		}
		sum := make([]float64, dst.Cols())
		for e, w := range weights {
			if rank(odds, e) >= s.TopK {
				continue
			}
			if s.Renormalise {
				w /= chosenSum
			}
			for i, v := range expert(s, e, x.(*buffer).row(r)) {
				sum[i] += w * float64(v)
			}
		}
		y := dst.(*buffer).row(r)
		for i, v := range sum {
			if s.Scale != 0 {
				v *= float64(s.Scale)
			}
			y[i] = float32(float64(y[i]) + v)
		}
	}
}

// rank is how many logits go before number e: greater ones, and equal ones before it.
func rank(logits []float32, e int) int {
	n := 0
	for i, v := range logits {
		if v > logits[e] || v == logits[e] && i < e {
			n++
		}
	}
	return n
}

// expert is the output of expert e for x.
func expert(s *tensor.ExpertsSpec, e int, x []float32) []float32 {
	run := func(x []float32, p tensor.Product) []float32 {
		y := make([]float32, p.W.Rows())
		p.Dst = &buffer{1, len(y), y}
		product(&act{buffer{1, len(x), x}, 1, s.Mode}, &p)
		return y
	}
	mid := run(x, tensor.Product{W: s.Up[e], Gate: s.Gate[e], Act: s.Act})
	return run(mid, tensor.Product{W: s.Down[e]})
}
