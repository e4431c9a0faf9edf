package tensortest

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// withOutliers makes rows for INT8 weights: one has no outliers, one a few, at both ends
// too, one almost nothing else, one an outlier and nothing besides.
func withOutliers(n, cols int) []float32 {
	x := floats(51, n*cols, 1)
	for r := range n {
		row := x[r*cols : (r+1)*cols]
		for i, v := range row {
			row[i] = max(-5.9, min(v, 5.9))
			switch r % 4 {
			case 1:
				if i == 0 || i%37 == 5 || i == cols-1 {
					row[i] = 6 * float32(1+i%3) * float32(1-i%2*2) // ±6, ±12, ±18
				}
			case 2:
				if i%13 != 0 {
					row[i] = v*40 + float32(math.Copysign(6, float64(v)))
				}
			case 3:
				row[i] = 0
				if i == cols/2 {
					row[i] = -100
				}
			}
		}
	}
	return x
}

func outlierCases() []testCase {
	var out []testCase
	for _, s := range []shape{{1, 17, 64}, {2, 16, 100}, {4, 40, 33}, {5, 7, 1}, {18, 70, 300}, {40, 33, 2}} {
		out = append(out, testCase{
			name: fmt.Sprintf("outliers/int8/%dx%dx%d", s.n, s.rows, s.cols),
			tol:  8 * math.Sqrt(float64(s.cols)) * 0x1p-24,
			run: func(dev tensor.Device) ([]float32, float64) {
				w := must(dev.Load(matrix(tensor.INT8, s.rows, s.cols, 1)))
				a, dst := must(dev.NewAct(s.n, s.cols)), must(dev.NewBuffer(s.n, s.rows))
				dev.Prepare(a, up(dev, s.n, s.cols, withOutliers(s.n, s.cols)), s.n, tensor.Act8)
				dev.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
				return down(dev, dst), 4 * float64(s.cols)
			},
		})
	}
	return out
}

// outliers: what is an outlier in one row changes no other row's bits, wherever the rows
// stand, and an INT8 weight beside others sees its own form of the rows.
func outliers(t *testing.T, d tensor.Device) {
	const n, rows, cols = 14, 37, 96
	x := withOutliers(n, cols)
	w := must(d.Load(matrix(tensor.INT8, rows, cols, 52)))
	other := must(d.Load(matrix(tensor.Q8_0, rows, cols, 53)))
	product := func(x []float32) (out, beside []float32) {
		n := len(x) / cols
		a := must(d.NewAct(n, cols))
		d.Prepare(a, up(d, n, cols, x), n, tensor.Act8)
		y, z := must(d.NewBuffer(n, rows)), must(d.NewBuffer(n, rows))
		d.MatMul(a, []tensor.Product{{W: other, Dst: z}, {W: w, Dst: y}})
		d.MatMul(a, []tensor.Product{{W: w, Gate: other, Act: tensor.SiLU, Dst: z}})
		return down(d, y), down(d, z)
	}
	all, besideAll := product(x)
	for r := range n {
		alone, beside := product(x[r*cols : (r+1)*cols])
		if k := differ(alone, all[r*rows:(r+1)*rows]); k >= 0 {
			t.Errorf("output %d of row %d differs between the row alone and rows with other outliers", k, r)
		}
		if k := differ(beside, besideAll[r*rows:(r+1)*rows]); k >= 0 {
			t.Errorf("output %d of row %d differs beside a gate of another format", k, r)
		}
	}
	if d.Info().Arithmetic != "exact1" {
		return
	}
	m := matrix(tensor.INT8, rows, cols, 52)
	for r := range n {
		for i := range rows {
			got, want := all[r*rows+i], int8Product(m, i, x[r*cols:(r+1)*cols])
			if math.Float32bits(got) != math.Float32bits(want) {
				t.Errorf("output %d of row %d is %x, by the rules %x", i, r, got, want)
				return
			}
		}
	}
}

// int8Product is the product of row i of a matrix with x by the rules.
func int8Product(m tensor.Matrix, i int, x []float32) float32 {
	row := m.Data[i*(4+m.Cols):][:4+m.Cols]
	a := math.Float32frombits(binary.LittleEndian.Uint32(row))
	values := make([]float32, m.Cols)
	quant.UnpackRow(values, m, i)
	outlier := func(v float32) bool { return math.Abs(float64(v)) >= 6 }
	amax := float32(0)
	for _, v := range x {
		if !outlier(v) {
			amax = max(amax, float32(math.Abs(float64(v))))
		}
	}
	s := 0
	for k, v := range x {
		if !outlier(v) && amax > 0 {
			s += int(int8(row[4+k])) * int(math.RoundToEven(float64(float32(v*float32(127/amax)))))
		}
	}
	acc := float32(float32(float32(s)*float32(amax*a)) * float32(1.0/(127*127)))
	for k, v := range x {
		if outlier(v) {
			acc = fma(values[k], v, acc)
		}
	}
	return acc
}
