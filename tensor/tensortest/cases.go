package tensortest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// testCase is one computation on a device: its outputs, and how far each may be from the
// oracle's.
type testCase struct {
	name string
	run  func(d tensor.Device) (out []float32, scale float64)
	tol  float64 // of scale
}

// must unwraps a handle; the suite's shapes are valid, so an error is a failed test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// floats makes deterministic values around zero, nearly normal: sums of four uniform ones,
// since the library's normal ones lean on functions that differ between machines.
func floats(seed uint64, n int, scale float32) []float32 {
	r := rand.New(rand.NewPCG(seed, 17))
	out := make([]float32, n)
	for i := range out {
		sum := r.Float64() + r.Float64() + r.Float64() + r.Float64()
		out[i] = float32((sum-2)*math.Sqrt2*1.25) * scale
	}
	return out
}

// matrix makes a weight in a format: packed from floats, or of random blocks with tame
// scales where blocks are large, so that all their bits are in play.
func matrix(d tensor.DType, rows, cols int, seed uint64) tensor.Matrix {
	f, _ := quant.Of(d)
	if ruleFormats[d].tame == nil {
		values := floats(seed, rows*cols, 0.1)
		return must(quant.PackMatrix(d, rows, cols, func(i int) []float32 { return values[i*cols : (i+1)*cols] }))
	}
	data := make([]byte, rows*cols/f.Group*f.Bytes)
	r := rand.New(rand.NewPCG(seed, 23))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for block := data; len(block) > 0; block = block[f.Bytes:] {
		for i, v := range ruleFormats[d].tame {
			binary.LittleEndian.PutUint16(block[i:], quant.F32ToF16(v))
		}
	}
	return tensor.Matrix{DType: d, Rows: rows, Cols: cols, Data: data}
}

// up uploads rows into a new buffer.
func up(d tensor.Device, rows, cols int, values []float32) tensor.Buffer {
	b := must(d.NewBuffer(rows, cols))
	d.Upload(b, 0, values)
	return b
}

// down downloads all rows of a buffer.
func down(d tensor.Device, b tensor.Buffer) []float32 {
	out := make([]float32, b.Rows()*b.Cols())
	d.Download(out, b, 0)
	if err := d.Sync(); err != nil {
		panic(err)
	}
	return out
}

// shape is rows of a batch, outputs and inputs of a product.
type shape struct{ n, rows, cols int }

// shapes cover single rows and many, outputs that fill no vector, widths of one group up to
// several, and more rows than a device is likely to take at a time.
func shapes(group int) []shape {
	return []shape{{1, 1, group}, {1, 16, group}, {3, 17, 3 * group}, {7, 64, 2 * group}, {17, 33, 5 * group}, {70, 48, 4 * group}, {131, 20, group}}
}

func cases() []testCase {
	var out []testCase
	for _, f := range quant.All() {
		for _, s := range shapes(max(f.Group, 32)) {
			for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
				if mode == tensor.ActF32 && !f.DType.Quantised() {
					continue
				}
				out = append(out, product(f.DType, s, mode))
			}
		}
	}
	for _, a := range []tensor.Activation{tensor.NoActivation, tensor.SiLU, tensor.GELU, tensor.GELUTanh} {
		out = append(out, epilogue(a, false), epilogue(a, true))
	}
	for _, cols := range []int{32, 64, 96, 576, 1000} {
		out = append(out, norm(tensor.RMSNorm, cols, cols), norm(tensor.LayerNorm, cols, cols))
	}
	out = append(out, norm(tensor.RMSNorm, 128, 32))
	for _, a := range attends {
		out = append(out, a.testCase())
	}
	out = append(out, embeds()...)
	out = append(out, pointwise()...)
	out = append(out, outlierCases()...)
	for _, e := range expertsCases() {
		out = append(out, e.testCase())
	}
	for _, a := range halves() {
		out = append(out, a.testCase())
	}
	return out
}

func product(d tensor.DType, s shape, mode tensor.Activations) testCase {
	return testCase{
		name: fmt.Sprintf("matmul/%v/%dx%dx%d/%v", d, s.n, s.rows, s.cols, mode),
		tol:  8 * math.Sqrt(float64(s.cols)) * 0x1p-24,
		run: func(dev tensor.Device) ([]float32, float64) {
			w := must(dev.Load(matrix(d, s.rows, s.cols, 1)))
			a := must(dev.NewAct(s.n, s.cols))
			dev.Prepare(a, up(dev, s.n, s.cols, floats(2, s.n*s.cols, 1)), s.n, mode)
			dst := must(dev.NewBuffer(s.n, s.rows))
			dev.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
			return down(dev, dst), 0.1 * float64(s.cols)
		},
	}
}

// epilogue checks bias, gate, activation and residual on two products that share rows.
func epilogue(act tensor.Activation, gate bool) testCase {
	const n, rows, cols = 5, 40, 64
	return testCase{
		name: fmt.Sprintf("epilogue/%d/gate=%v", act, gate), tol: 64 * 0x1p-24,
		run: func(dev tensor.Device) ([]float32, float64) {
			load := func(seed uint64, d tensor.DType) tensor.Weight { return must(dev.Load(matrix(d, rows, cols, seed))) }
			vec := func(seed uint64) tensor.Vector { return must(dev.LoadVector(floats(seed, rows, 1))) }
			x := up(dev, n, cols, floats(3, n*cols, 1))
			a := must(dev.NewAct(n, cols))
			dev.Prepare(a, x, n, tensor.Act8)
			residual := up(dev, n, rows, floats(4, n*rows, 1))
			one := tensor.Product{W: load(5, tensor.F32), Bias: vec(6), Act: act, Residual: residual, Dst: residual}
			two := tensor.Product{W: load(7, tensor.Q8_0), Act: act, Dst: must(dev.NewBuffer(n, rows))}
			if gate {
				one.Gate, one.GateBias = load(8, tensor.F32), vec(9)
				two.Gate = load(10, tensor.Q8_0)
			}
			dev.MatMul(a, []tensor.Product{one, two})
			return append(down(dev, one.Dst), down(dev, two.Dst)...), 8
		},
	}
}

func norm(kind tensor.NormKind, cols, group int) testCase {
	const n = 3
	return testCase{
		name: fmt.Sprintf("norm/%d/%d/%d", kind, cols, group), tol: 8 * math.Sqrt(float64(group)) * 0x1p-24,
		run: func(dev tensor.Device) ([]float32, float64) {
			s := tensor.NormSpec{Kind: kind, Gain: must(dev.LoadVector(floats(11, group, 1))), Eps: 1e-5}
			if kind == tensor.LayerNorm {
				s.Bias = must(dev.LoadVector(floats(12, group, 1)))
			}
			x := up(dev, n, cols, floats(13, n*cols, 2))
			dst := must(dev.NewBuffer(n, cols))
			dev.Norm(dst, x, n, s)
			dev.Norm(x, x, n, s) // in place
			return append(down(dev, dst), down(dev, x)...), 4
		},
	}
}

func embeds() []testCase {
	var out []testCase
	for _, f := range quant.All() {
		cols := max(f.Group, 32) * 2
		out = append(out, testCase{
			name: fmt.Sprintf("embed/%v", f.DType),
			run: func(dev tensor.Device) ([]float32, float64) {
				table := must(dev.Load(matrix(f.DType, 21, cols, 31)))
				rows, picked := must(dev.NewBuffer(4, cols)), must(dev.NewBuffer(3, cols))
				dev.Embed(rows, table, []int32{20, 0, 7, 7})
				dev.Gather(picked, rows, []int32{2, 0, 0})
				return append(down(dev, rows), down(dev, picked)...), 1
			},
		})
	}
	return out
}
