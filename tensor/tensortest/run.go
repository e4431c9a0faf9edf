package tensortest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
	"whorl/tensor/ref"
)

// Run holds a device against the oracle and against itself.
func Run(t *testing.T, d tensor.Device) {
	t.Run("oracle", func(t *testing.T) {
		oracle := ref.New()
		for _, c := range cases() {
			want, scale := c.run(oracle)
			got, _ := c.run(d)
			worst, at := 0.0, 0
			for i := range want {
				e := math.Abs(float64(got[i]) - float64(want[i]))
				if !(e <= worst) { // NaN is worst of all
					worst, at = e, i
				}
			}
			if len(got) != len(want) || !(worst <= c.tol*max(scale, 1)) {
				t.Errorf("%s: element %d is %v, want %v: off by %.3g, allowed %.3g", c.name, at, got[at], want[at], worst, c.tol*scale)
			}
		}
	})
	t.Run("batch", func(t *testing.T) { batches(t, d) })
	t.Run("chunks", func(t *testing.T) { chunks(t, d) })
	t.Run("refusals", func(t *testing.T) { refusals(t, d) })
}

// batches: a row's product has the same bits alone, in any batch, at any place in it.
func batches(t *testing.T, d tensor.Device) {
	for _, f := range quant.All() {
		cols, rows := max(f.Group, 32)*3, 37
		w := must(d.Load(matrix(f.DType, rows, cols, 41)))
		x := floats(42, 17*cols, 1)
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			alone := make([][]float32, 17)
			for n := 1; n <= 17; n++ {
				a, dst := must(d.NewAct(n, cols)), must(d.NewBuffer(n, rows))
				d.Prepare(a, up(d, n, cols, x[(17-n)*cols:]), n, mode) // the last n rows
				d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
				out := down(d, dst)
				for i := range n {
					row := 17 - n + i
					got := out[i*rows : (i+1)*rows]
					if i == 0 {
						alone[row] = slices.Clone(got)
					} else if k := differ(got, alone[row]); k >= 0 {
						t.Errorf("%v %v: output %d of row %d differs between batches", f.DType, mode, k, row)
					}
				}
			}
			one := must(d.NewAct(1, cols))
			dst := must(d.NewBuffer(1, rows))
			for row := range 17 {
				d.Prepare(one, up(d, 1, cols, x[row*cols:(row+1)*cols]), 1, mode)
				d.MatMul(one, []tensor.Product{{W: w, Dst: dst}})
				if k := differ(down(d, dst), alone[row]); k >= 0 {
					t.Errorf("%v %v: output %d of row %d differs from the row alone", f.DType, mode, k, row)
				}
			}
		}
	}
}

// chunks: attention has the same bits however the positions before came in.
func chunks(t *testing.T, d tensor.Device) {
	for _, a := range attends {
		want := a.run(d, 1<<20)
		for _, chunk := range []int{1, 3, 64, 65, 257} {
			if k := differ(a.run(d, chunk), want); k >= 0 {
				t.Errorf("%+v: output %d differs with chunks of %d", a, k, chunk)
			}
		}
	}
	// A whole prompt at once and row by row.
	a := attend{6, 2, 40, 40, []int{300}, []int{300}}
	whole, byRow := a.run(d, 1<<20), attend{6, 2, 40, 40, []int{300}, []int{1}}.run(d, 1)
	if k := differ(whole[299*6*40:], byRow); k >= 0 {
		t.Errorf("output %d of the last row differs between prefill and decode", k)
	}
}

// refusals: a matrix that is none is an error, never a crash.
func refusals(t *testing.T, d tensor.Device) {
	for _, m := range []tensor.Matrix{
		{DType: tensor.F32, Rows: 2, Cols: 2, Data: make([]byte, 15)},
		{DType: tensor.Q4_1, Rows: 1, Cols: 33, Data: make([]byte, 40)},
		{DType: tensor.F32, Rows: 0, Cols: 4},
		{DType: tensor.F32, Rows: -1, Cols: -4, Data: make([]byte, 16)},
		{DType: 99, Rows: 1, Cols: 32, Data: make([]byte, 32)},
	} {
		if _, err := d.Load(m); err == nil {
			t.Errorf("a %v matrix of %dx%d with %d bytes was loaded", m.DType, m.Rows, m.Cols, len(m.Data))
		}
	}
}

// Same checks that two devices give the same bits in every case.
func Same(t *testing.T, a, b tensor.Device) {
	t.Helper()
	for _, c := range cases() {
		x, _ := c.run(a)
		y, _ := c.run(b)
		if k := differ(x, y); k >= 0 {
			t.Errorf("%s: element %d is %v (%08x) on %v and %v (%08x) on %v", c.name, k,
				x[k], math.Float32bits(x[k]), a.Info(), y[k], math.Float32bits(y[k]), b.Info())
		}
	}
}

// Hashes sums up the bits of every case, a line each: committed, they let another machine
// prove that it rounds like the one before.
func Hashes(d tensor.Device) string {
	var sb strings.Builder
	for _, c := range cases() {
		out, _ := c.run(d)
		h := sha256.New()
		binary.Write(h, binary.LittleEndian, out)
		fmt.Fprintf(&sb, "%s %s\n", hex.EncodeToString(h.Sum(nil)[:8]), c.name)
	}
	return sb.String()
}

// differ is the first element whose bits differ, -1 if none does.
func differ(a, b []float32) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}
