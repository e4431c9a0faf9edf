package tensortest

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// rules checks products and norms of a device of the arithmetic "exact1" against its rules
// written out word by word (package tensor), with fma by arbitrary precision. It is what
// the goldens rest on: tiers that agree could still be wrong together.
func rules(t *testing.T, d tensor.Device) {
	const rows = 5
	for _, f := range quant.All() {
		cols := max(96, 2*f.Group)
		x := floats(61, cols, 1)
		m := matrix(f.DType, rows, cols, 62)
		w := must(d.Load(m))
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			a, dst := must(d.NewAct(1, cols)), must(d.NewBuffer(1, rows))
			d.Prepare(a, up(d, 1, cols, x), 1, mode)
			d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
			want := make([]float32, rows)
			for i := range want {
				want[i] = ruleProduct(f, m, i, x, mode)
			}
			if k := differ(down(d, dst), want); k >= 0 {
				t.Errorf("%v %v: output %d is %x, by the rules %x", f.DType, mode, k, down(d, dst)[k], want[k])
			}
		}
	}
	const cols = 96
	x, gain := floats(61, cols, 1), floats(63, cols, 1)
	dst := must(d.NewBuffer(1, cols))
	d.Norm(dst, up(d, 1, cols, x), 1, tensor.NormSpec{Gain: must(d.LoadVector(gain)), Eps: 1e-5})
	if k := differ(down(d, dst), rmsNorm(x, gain, 1e-5)); k >= 0 {
		t.Errorf("rms norm: element %d is not by the rules", k)
	}
}

// ruleProduct is an output of row i of a matrix.
func ruleProduct(f quant.Format, m tensor.Matrix, i int, x []float32, mode tensor.Activations) float32 {
	switch {
	case f.Product == quant.LevelProduct:
		return nf4Product(m, i, x)
	case f.Product == quant.RowProduct && mode == tensor.Act8:
		return int8Product(m, i, x)
	case f.Product == quant.GroupProduct && mode == tensor.Act8:
		size := len(x) / f.Group * f.Bytes
		return quantProduct(f, m.Data[i*size:][:size], x)
	}
	values, sum := make([]float32, len(x)), float32(0)
	quant.UnpackRow(values, m, i)
	for k, v := range values {
		sum = fma(v, x[k], sum)
	}
	return sum
}

// nf4Product is an output of NF4 weights: rows of groups with a scale before their codes,
// the first column of a byte in its high half.
func nf4Product(m tensor.Matrix, row int, x []float32) float32 {
	const group, bytes = 64, 4 + 32
	data, acc := m.Data[row*len(x)/group*bytes:], float32(0)
	for g := range len(x) / group {
		src, sum := data[g*bytes:][:bytes], float32(0)
		for k, v := range x[g*group:][:group] {
			code := src[4+k/2] >> (4 - k%2*4) & 15
			sum = fma(quant.NF4Levels[code], v, sum)
		}
		acc = fma(sum, math.Float32frombits(binary.LittleEndian.Uint32(src)), acc)
	}
	return acc
}

// fma is a*b+c rounded once.
func fma(a, b, c float32) float32 {
	wide := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
	s := wide(a)
	s.Mul(s, wide(b)).Add(s, wide(c))
	out, _ := s.Float32()
	return out
}

func rmsNorm(x, gain []float32, eps float32) []float32 {
	var lane [16]float32
	for i, v := range x {
		lane[i%16] = fma(v, v, lane[i%16])
	}
	for h := 8; h > 0; h /= 2 {
		for j := range h {
			lane[j] = float32(lane[j] + lane[j+h])
		}
	}
	mean := float32(lane[0] / float32(len(x)))
	inv := 1 / float32(math.Sqrt(float64(float32(mean+eps))))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float32(v*inv) * gain[i])
	}
	return out
}
