package tensortest

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// rules checks products and norms of a device of the arithmetic "cpu1" against its rules
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
				if mode == tensor.Act8 && f.DType == tensor.INT8 {
					want[i] = int8Product(m, i, x)
				} else if mode == tensor.Act8 && eightBit(f.DType) {
					want[i] = quantProduct(f, m.Data[i*cols/f.Group*f.Bytes:][:cols/f.Group*f.Bytes], x)
				} else if f.DType == tensor.NF4 {
					want[i] = nf4Product(m, i, x)
				} else {
					values := make([]float32, cols)
					quant.UnpackRow(values, m, i)
					for k, v := range values {
						want[i] = fma(v, x[k], want[i])
					}
				}
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

// eightBit tells the formats whose products take groups of rows in 8 bits.
func eightBit(t tensor.DType) bool {
	switch t {
	case tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K:
		return true
	}
	return false
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
