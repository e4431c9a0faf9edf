package ref

import (
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// Prepare refers to the rows of src.
func (d *Device) Prepare(dst tensor.Act, src tensor.Buffer, n int, mode tensor.Activations) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := dst.(*act)
	a.v = src.(*buffer).v[:n*a.cols]
	a.n, a.mode = n, mode
}

// MatMul runs the products one by one.
func (d *Device) MatMul(a tensor.Act, products []tensor.Product) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range products {
		product(a.(*act), &products[i])
	}
}

func product(a *act, p *tensor.Product) {
	dst := p.Dst.(*buffer)
	for r := range a.n {
		y := linear(p.W.(*weight), vectorOf(p.Bias), a, r)
		if p.Gate != nil {
			for i, g := range linear(p.Gate.(*weight), vectorOf(p.GateBias), a, r) {
				y[i] *= activate(p.Act, g)
			}
		} else {
			for i := range y {
				y[i] = activate(p.Act, y[i])
			}
		}
		for i, v := range y {
			if p.Scale != 0 {
				v *= float64(p.Scale)
			}
			if p.Residual != nil {
				v += float64(p.Residual.(*buffer).row(r)[i])
			}
			dst.row(r)[i] = float32(v)
		}
	}
}

// linear is W·a + bias for row r.
func linear(w *weight, bias vector, a *act, r int) []float64 {
	x := make([]float64, a.cols)
	for i, v := range a.row(r) {
		x[i] = float64(v)
	}
	if f, _ := quant.Of(w.m.DType); a.mode == tensor.Act8 {
		switch f.Product {
		case quant.GroupProduct:
			roundTo8(x)
		case quant.RowProduct:
			roundRow(x)
		}
	}
	y := make([]float64, w.m.Rows)
	for i := range y {
		for k, v := range w.row(i) {
			y[i] += float64(v) * x[k]
		}
		if bias != nil {
			y[i] += float64(bias[i])
		}
	}
	return y
}

// roundTo8 replaces each group of 32 by the values its 8-bit form stands for.
func roundTo8(x []float64) {
	for ; len(x) > 0; x = x[32:] {
		amax := float32(0)
		for _, v := range x[:32] {
			amax = max(amax, float32(math.Abs(v)))
		}
		d, id := amax/127, 127/amax
		if amax < 0x1p-120 {
			d, id = 0, 0
		}
		for i, v := range x[:32] {
			x[i] = float64(d) * math.RoundToEven(float64(float32(v)*id))
		}
	}
}

// roundRow replaces the values of a row that are no outliers by what their 8-bit form
// stands for.
func roundRow(x []float64) {
	outlier := func(v float64) bool { return math.Abs(v) >= 6 }
	amax := 0.0
	for _, v := range x {
		if !outlier(v) {
			amax = max(amax, math.Abs(v)) // a NaN stays
		}
	}
	unit := 127 / float32(amax)
	if amax < 0x1p-120 {
		amax, unit = 0, 0
	}
	for i, v := range x {
		if !outlier(v) {
			x[i] = amax / 127 * math.RoundToEven(float64(float32(v)*unit))
		}
	}
}

func activate(a tensor.Activation, x float64) float64 {
	switch a {
	case tensor.SiLU:
		return x / (1 + math.Exp(-x))
	case tensor.GELU:
		return x / 2 * math.Erfc(-x/math.Sqrt2)
	case tensor.GELUTanh:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x
}
