package ref

import (
	"encoding/binary"
	"math"
	"testing"

	"whorl/tensor"
)

// These are sums a reader can do in the head: the oracle itself has nobody to be compared
// with.

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func rows(t *testing.T, d *Device, n int, v ...float32) tensor.Buffer {
	t.Helper()
	b, err := d.NewBuffer(n, len(v)/n)
	must(t, b, err)
	d.Upload(b, 0, v)
	return b
}

func f32(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func expect(t *testing.T, d *Device, b tensor.Buffer, want ...float32) {
	t.Helper()
	got := make([]float32, b.Rows()*b.Cols())
	d.Download(got, b, 0)
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestProductByHand(t *testing.T) {
	d := New()
	w, err := d.Load(tensor.Matrix{DType: tensor.F32, Rows: 2, Cols: 2, Data: f32(1, 2, 3, 4)})
	must(t, w, err)
	gate, err := d.Load(tensor.Matrix{DType: tensor.F32, Rows: 2, Cols: 2, Data: f32(1, 0, 0, 1)})
	must(t, gate, err)
	bias, err := d.LoadVector([]float32{10, 20})
	must(t, bias, err)
	a, err := d.NewAct(1, 2)
	must(t, a, err)
	x, dst := rows(t, d, 1, 1, -1), rows(t, d, 1, 0, 0)
	d.Prepare(a, x, 1, tensor.Act8)

	d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
	expect(t, d, dst, -1, -1)
	d.MatMul(a, []tensor.Product{{W: w, Bias: bias, Residual: x, Dst: dst}})
	expect(t, d, dst, 10, 18)
	d.MatMul(a, []tensor.Product{{W: w, Gate: gate, Dst: dst}})
	expect(t, d, dst, -1, 1)
	d.MatMul(a, []tensor.Product{{W: w, Gate: gate, Act: tensor.SiLU, Dst: dst}})
	expect(t, d, dst, float32(-1/(1+math.Exp(-1))), float32(1/(1+math.E)))
}

// With 127 in a group its 8-bit form is whole numbers.
func TestEightBitActivations(t *testing.T) {
	d := New()
	block := make([]byte, 34) // scale 1, all ones
	binary.LittleEndian.PutUint16(block, 0x3c00)
	for i := range 32 {
		block[2+i] = 1
	}
	w, err := d.Load(tensor.Matrix{DType: tensor.Q8_0, Rows: 1, Cols: 32, Data: block})
	must(t, w, err)
	a, err := d.NewAct(1, 32)
	must(t, a, err)
	v := make([]float32, 32)
	v[0], v[1], v[2] = 127, 0.4, 1.6
	x, dst := rows(t, d, 1, v...), rows(t, d, 1, 0)
	d.Prepare(a, x, 1, tensor.Act8)
	d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
	expect(t, d, dst, 129)
	d.Prepare(a, x, 1, tensor.ActF32)
	d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
	expect(t, d, dst, 129)
	v[2] = 1.2
	d.Upload(x, 0, v)
	d.Prepare(a, x, 1, tensor.ActF32)
	d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
	expect(t, d, dst, 128.6)
	d.Prepare(a, x, 1, tensor.Act8)
	d.MatMul(a, []tensor.Product{{W: w, Dst: dst}})
	expect(t, d, dst, 128)
}

func TestNormByHand(t *testing.T) {
	d := New()
	gain, err := d.LoadVector([]float32{1, 2})
	must(t, gain, err)
	x := rows(t, d, 1, 1, 7, 3, 4) // two groups
	dst := rows(t, d, 1, 0, 0, 0, 0)
	d.Norm(dst, x, 1, tensor.NormSpec{Gain: gain})
	expect(t, d, dst, 0.2, 2.8, 0.84852814, 2.2627417)
	d.Norm(dst, x, 1, tensor.NormSpec{Kind: tensor.LayerNorm, Gain: gain, Bias: gain})
	expect(t, d, dst, 0, 4, 0, 4)
}

func TestAttendByHand(t *testing.T) {
	d := New()
	kv, err := d.NewKV(tensor.KVSpec{Layers: 1, KVHeads: 1, HeadDim: 2, Pages: 1})
	must(t, kv, err)
	rope, err := d.NewRope(tensor.RopeSpec{HeadDim: 2, RotaryDim: 2, InvFreq: []float32{1}, Scale: 1})
	must(t, rope, err)
	b := &tensor.Batch{Rows: []tensor.Row{{Pos: 0}, {Pos: 1}}, Seqs: []tensor.KVView{{Pages: []int32{0}}}}
	spec := tensor.AttendSpec{Heads: 1, KVHeads: 1, HeadDim: 2, Scale: 1}

	// Equal scores average the values seen so far.
	q, k, v, dst := rows(t, d, 2, 0, 0, 0, 0), rows(t, d, 2, 1, 2, 3, 4), rows(t, d, 2, 2, 4, 6, 8), rows(t, d, 2, 0, 0, 0, 0)
	d.Attend(dst, q, k, v, kv, b, spec)
	expect(t, d, dst, 2, 4, 4, 6)
	// A score 2 above the other: weights e²/(1+e²) and 1/(1+e²).
	q = rows(t, d, 2, 0, 0, 1, 0)
	d.Attend(dst, q, k, v, kv, b, spec)
	p := float32(1 / (1 + math.Exp(-2)))
	expect(t, d, dst, 2, 4, 2*(1-p)+6*p, 4*(1-p)+8*p)
	// Position 1 turns (1, 0) by one radian.
	spec.Rope = rope
	q = rows(t, d, 2, 1, 0, 1, 0)
	d.Attend(dst, q, k, v, kv, b, spec)
	expect(t, d, q, 1, 0, float32(math.Cos(1)), float32(math.Sin(1)))
}

func TestRefusals(t *testing.T) {
	d := New()
	if _, err := d.Load(tensor.Matrix{DType: tensor.F32, Rows: 1, Cols: 2, Data: make([]byte, 7)}); err == nil {
		t.Error("a matrix with 7 bytes was loaded")
	}
	if _, err := d.NewRope(tensor.RopeSpec{HeadDim: 4, RotaryDim: 6, InvFreq: make([]float32, 3)}); err == nil {
		t.Error("a rotation beyond the head was made")
	}
	if _, err := d.NewBuffer(0, 3); err == nil {
		t.Error("a buffer of no rows was made")
	}
}
