package ref

import (
	"math"

	"whorl/tensor"
)

// group is the number of columns that share an activation scale.
const group = 32

// Prepare keeps the rows, and their 8-bit forms: per group d = amax/127 and
// q = round-half-even(x * (127/amax)), both in float32 as the arithmetic prescribes.
func (d *Device) Prepare(dst tensor.Act, src tensor.Buffer, n int, mode tensor.Activations) {
	a, b := dst.(*act), src.(*buffer)
	a.n, a.mode = n, mode
	copy(a.values, b.values[:n*b.cols])
	for i := range n {
		row := a.values[i*a.cols : (i+1)*a.cols]
		for g := 0; g < len(row); g += group {
			quantise(a.rounded[i*a.cols+g:], row[g:min(g+group, len(row))])
		}
	}
}

func quantise(dst, x []float32) {
	amax := float32(0)
	for _, v := range x {
		amax = max(amax, float32(math.Abs(float64(v))))
	}
	scale, inverse := amax/127, float32(0)
	if amax > 0 {
		inverse = 127 / amax
	}
	for i, v := range x {
		dst[i] = float32(math.RoundToEven(float64(v*inverse))) * scale
	}
}

// MatMul computes products one element at a time.
func (d *Device) MatMul(in tensor.Act, products []tensor.Product) {
	a := in.(*act)
	for _, p := range products {
		dst := p.Dst.(*buffer)
		for i := range a.n {
			for o := range dst.cols {
				y := a.dot(i, p.W.(*weight), o)
				if p.Bias != nil {
					y += float64(p.Bias.(vector)[o])
				}
				if p.Gate != nil {
					g := a.dot(i, p.Gate.(*weight), o)
					if p.GateBias != nil {
						g += float64(p.GateBias.(vector)[o])
					}
					y *= activate(p.Act, g)
				} else {
					y = activate(p.Act, y)
				}
				if p.Residual != nil {
					y += float64(p.Residual.(*buffer).row(i)[o])
				}
				dst.row(i)[o] = float32(y)
			}
		}
	}
}

// dot multiplies prepared row i with output o of a weight.
func (a *act) dot(i int, w *weight, o int) float64 {
	x := a.values
	if w.dtype.Quantised() && a.mode == tensor.Act8 {
		x = a.rounded
	}
	sum := 0.0
	for k, v := range w.row(o) {
		sum += float64(v) * float64(x[i*a.cols+k])
	}
	return sum
}

func activate(f tensor.Activation, x float64) float64 {
	switch f {
	case tensor.SiLU:
		return x / (1 + math.Exp(-x))
	case tensor.GELU:
		return x * 0.5 * (1 + math.Erf(x/math.Sqrt2))
	case tensor.GELUTanh:
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x
}

// Norm normalises groups of Gain.Len() columns.
func (d *Device) Norm(dst, src tensor.Buffer, n int, s tensor.NormSpec) {
	out, in, gain := dst.(*buffer), src.(*buffer), s.Gain.(vector)
	for i := range n {
		for at := 0; at < in.cols; at += len(gain) {
			x, y := in.row(i)[at:at+len(gain)], out.row(i)[at:at+len(gain)]
			mean, square := 0.0, 0.0
			if s.Kind == tensor.LayerNorm {
				for _, v := range x {
					mean += float64(v)
				}
				mean /= float64(len(x))
			}
			for _, v := range x {
				square += (float64(v) - mean) * (float64(v) - mean)
			}
			scale := 1 / math.Sqrt(square/float64(len(x))+float64(s.Eps))
			for k, v := range x {
				z := (float64(v) - mean) * scale * float64(gain[k])
				if s.Bias != nil {
					z += float64(s.Bias.(vector)[k])
				}
				y[k] = float32(z)
			}
		}
	}
}
