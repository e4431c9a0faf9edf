package tensortest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
	"whorl/tensor/ref"
)

// Run holds a device against the oracle and against itself.
func Run(t *testing.T, d tensor.Device) {
	t.Run("oracle", func(t *testing.T) {
		oracle := ref.New()
		for _, c := range casesFor(d) {
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
	t.Run("experts", func(t *testing.T) {
		expertsBatches(t, d)
		expertsGuards(t, d)
		expertsPoison(t, d)
	})
	t.Run("chunks", func(t *testing.T) { chunks(t, d) })
	t.Run("unseen", func(t *testing.T) { unseen(t, d) })
	t.Run("copies", func(t *testing.T) { copies(t, d) })
	t.Run("caches", func(t *testing.T) { caches(t, d) })
	t.Run("windows", func(t *testing.T) { windows(t, d) })
	t.Run("guards", func(t *testing.T) { guards(t, d) })
	t.Run("poison", func(t *testing.T) { poison(t, d) })
	t.Run("outliers", func(t *testing.T) { outliers(t, d) })
	t.Run("rounds", func(t *testing.T) { rounds(t, d) })
	t.Run("concurrent", func(t *testing.T) { concurrent(t, d) })
	t.Run("refusals", func(t *testing.T) { refusals(t, d) })
	_, back := d.(tensor.Backward)
	if back {
		t.Run("backward", func(t *testing.T) { backward(t, d) })
	}
	if d.Info().Arithmetic == "exact1" {
		t.Run("unfused", func(t *testing.T) { unfused(t, d) })
		t.Run("rules", func(t *testing.T) {
			rules(t, d)
			expertsRules(t, d)
			if back {
				backRules(t, d)
			}
		})
	}
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

// guards: an op on n rows leaves the rows after them alone.
func guards(t *testing.T, d tensor.Device) {
	const n, all, cols, rows = 3, 5, 64, 40
	const guard = 12345
	buf := func(width int, seed uint64) tensor.Buffer {
		x := floats(seed, all*width, 1)
		for i := n * width; i < len(x); i++ {
			x[i] = guard
		}
		return up(d, all, width, x)
	}
	intact := func(op string, b tensor.Buffer) {
		t.Helper()
		for i, v := range down(d, b)[n*b.Cols():] {
			if v != guard {
				t.Errorf("%s: wrote %v behind its rows, at %d", op, v, i)
				return
			}
		}
	}
	x, y := buf(cols, 1), buf(rows, 2)
	d.Norm(x, x, n, tensor.NormSpec{Gain: must(d.LoadVector(floats(3, cols, 1))), Eps: 1e-5})
	intact("norm", x)
	a := must(d.NewAct(all, cols))
	for _, f := range quant.All() {
		if cols%f.Group != 0 {
			continue
		}
		w := must(d.Load(matrix(f.DType, rows, cols, 4)))
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			d.Prepare(a, x, n, mode)
			d.MatMul(a, []tensor.Product{{W: w, Gate: w, Act: tensor.SiLU, Residual: y, Dst: y}})
			intact("product of "+f.DType.String(), y)
		}
	}
	table := must(d.Load(matrix(tensor.Q8_0, rows, cols, 5)))
	d.Embed(x, table, []int32{1, 2, 3})
	intact("embed", x)
	gathered := buf(cols, 10)
	d.Gather(gathered, x, []int32{0, 0, 2})
	intact("gather", gathered)
	q, k, v, dst := buf(64, 6), buf(32, 7), buf(32, 8), buf(64, 9)
	kv := must(d.NewKV(tensor.KVSpec{Layers: 1, KVHeads: 2, HeadDim: 16, Pages: 1}))
	b := &tensor.Batch{Rows: []tensor.Row{{Pos: 0}, {Pos: 1}, {Pos: 2}}, Seqs: []tensor.KVView{{Pages: []int32{0}}}}
	rope := must(d.NewRope(tensor.RopeSpec{HeadDim: 16, RotaryDim: 4, InvFreq: []float32{1, 0.1}, Scale: 1}))
	d.Attend(dst, q, k, v, kv, b, tensor.AttendSpec{Heads: 4, KVHeads: 2, HeadDim: 16, Scale: 0.25, Rope: rope})
	for _, b := range []tensor.Buffer{q, k, v, dst} {
		intact("attend", b)
	}
}

// poison: an infinity or a NaN in a row shows in all of its outputs and in no other row's,
// in every format. A device that hid it would serve nonsense.
func poison(t *testing.T, d tensor.Device) {
	const rows = 20
	for _, f := range quant.All() {
		cols := max(f.Group, 32) * 2
		w := must(d.Load(matrix(f.DType, rows, cols, 71)))
		a, dst := must(d.NewAct(3, cols)), must(d.NewBuffer(3, rows))
		for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
			x := floats(72, 3*cols, 1)
			x[cols+5] = float32(bad)
			for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
				d.Prepare(a, up(d, 3, cols, x), 3, mode)
				d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
				for i, y := range down(d, dst) {
					if finite := y-y == 0; finite == (i/rows == 1) {
						t.Errorf("%v %v: %v in row 1 makes output %d of row %d %v", f.DType, mode, bad, i%rows, i/rows, y)
						break
					}
				}
			}
		}
	}
}

// concurrent: several goroutines share the device, each with buffers of its own.
func concurrent(t *testing.T, d tensor.Device) {
	var some []testCase
	var want [][]float32
	for i, c := range casesFor(d) {
		if i%5 == 0 {
			v, _ := c.run(d)
			some, want = append(some, c), append(want, v)
		}
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range some {
				i = (i + g*len(some)/4) % len(some) // each starts elsewhere
				got, _ := some[i].run(d)
				if k := differ(got, want[i]); k >= 0 {
					t.Errorf("%s: element %d differs beside other goroutines", some[i].name, k)
				}
			}
		})
	}
	all.Wait()
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

// Output is what one case gave.
type Output struct {
	Case   string
	Values []float32
}

// Outputs runs every case on d.
func Outputs(d tensor.Device) []Output {
	var out []Output
	for _, c := range casesFor(d) {
		v, _ := c.run(d)
		out = append(out, Output{c.name, v})
	}
	return out
}

// Same checks that two devices gave the same bits in every case.
func Same(t *testing.T, got, want []Output) {
	t.Helper()
	for i, w := range want {
		if k := differ(got[i].Values, w.Values); k >= 0 {
			g, v := got[i].Values[k], w.Values[k]
			t.Errorf("%s: element %d is %v (%08x), want %v (%08x)", w.Case, k, g, math.Float32bits(g), v, math.Float32bits(v))
		}
	}
}

// Hashes sums the bits of outputs up, a line for a case: committed, they let another
// machine prove that it rounds like the one before.
func Hashes(outputs []Output) string {
	var sb strings.Builder
	for _, o := range outputs {
		h := sha256.New()
		binary.Write(h, binary.LittleEndian, o.Values)
		fmt.Fprintf(&sb, "%x %s\n", h.Sum(nil)[:8], o.Case)
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
