package ref

import (
	"math"

	"whorl/tensor"
)

// Add adds scaled rows.
func (d *Device) Add(dst, src tensor.Buffer, rows []int32, n int, scale float32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		to := i
		if rows != nil {
			to = int(rows[i])
		}
		y := dst.(*buffer).row(to)
		for j, v := range src.(*buffer).row(i) {
			y[j] = float32(float64(y[j]) + float64(scale)*float64(v))
		}
	}
}

// Activate applies an activation.
func (d *Device) Activate(dst, gate tensor.Buffer, n int, act tensor.Activation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		y := dst.(*buffer).row(i)
		for j, v := range y {
			if gate == nil {
				y[j] = float32(activate(act, float64(v)))
			} else {
				y[j] = float32(activate(act, float64(gate.(*buffer).row(i)[j])) * float64(v))
			}
		}
	}
}

// Round rounds to bfloat16.
func (d *Device) Round(dst tensor.Buffer, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		y := dst.(*buffer).row(i)
		for j, v := range y {
			y[j] = float32(bf16(float64(v)))
		}
	}
}

// Scale multiplies and caps.
func (d *Device) Scale(dst tensor.Buffer, n int, factor, softcap float32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		y := dst.(*buffer).row(i)
		for j, v := range y {
			w := float64(v) * float64(factor)
			if softcap != 0 {
				w = float64(softcap) * math.Tanh(w/float64(softcap))
			}
			y[j] = float32(w)
		}
	}
}
