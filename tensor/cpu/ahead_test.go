package cpu

import (
	"testing"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/cpu/pool"
	"whorl/tensor/quant"
)

// testWeight loads a matrix of these values, or of zeros.
func testWeight(t *testing.T, d *Device, dt tensor.DType, rows, cols int, values []float32) *weight {
	t.Helper()
	n, err := quant.RowBytes(dt, cols)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, n*rows)
	if values != nil {
		f, ok := quant.Of(dt)
		if !ok {
			t.Fatalf("no format %v", dt)
		}
		f.Pack(data, values)
	}
	w, err := d.Load(tensor.Matrix{DType: dt, Rows: rows, Cols: cols, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*weight)
}

// What threads read ahead are the first tiles that they take of the products to come, and
// never lies outside of these weights.
func TestReadsAheadWhatComesNext(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.INT8, tensor.NF4, tensor.Q8_0, tensor.Q4_1, tensor.Q6_K} {
		d, err := Open(Options{Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		const cols = 512
		q, k := testWeight(t, d, dt, 1000, cols, nil), testWeight(t, d, dt, 96, cols, nil)
		up, gate := testWeight(t, d, dt, 704, cols, nil), testWeight(t, d, dt, 704, cols, nil)
		buf := func(n int) tensor.Buffer {
			b, err := d.NewBuffer(80, n)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		a, err := d.NewAct(80, cols)
		if err != nil {
			t.Fatal(err)
		}
		qkv := []tensor.Product{{W: q, Dst: buf(1000)}, {W: k, Dst: buf(96)}}
		mlp := []tensor.Product{{W: up, Gate: gate, Dst: buf(704)}}
		step := func(n int) {
			d.Prepare(a, buf(cols), n, tensor.Act8)
			d.MatMul(a, qkv)
			d.MatMul(a, mlp)
		}
		step(1)
		if f := d.pool.Expected(); f != nil {
			t.Fatalf("%v: after the first step a forecast of %+v", dt, f)
		}
		step(1)
		f := q.forecast
		if f == nil || d.pool.Expected() != &f.reads || f.next != up.forecast || up.forecast.next != f {
			t.Fatalf("%v: after two steps not what they began with comes next", dt)
		}
		// The caller takes the last tile, k's; the workers q's first and second.
		begins(t, dt, f.reads[0], k)
		begins(t, dt, f.reads[1], q)
		begins(t, dt, f.reads[2], q)
		for _, read := range up.forecast.reads {
			begins(t, dt, read, up, gate)
		}
		if at := f.reads[1][0].Values; at != uintptr(unsafe.Pointer(&q.data[0])) {
			t.Errorf("%v: the first worker begins %d bytes into the weight", dt, at-uintptr(unsafe.Pointer(&q.data[0])))
		}
		step(80) // a prompt
		if f := d.pool.Expected(); f != nil {
			t.Errorf("%v: a prompt is followed by a forecast", dt)
		}
		d.Close()
	}
}

// begins checks that a thread reads from these weights, within their memory.
func begins(t *testing.T, dt tensor.DType, read []pool.Read, weights ...*weight) {
	t.Helper()
	if len(read) != len(weights) {
		t.Fatalf("%v: reads %d weights, want %d", dt, len(read), len(weights))
	}
	for i, w := range weights {
		within(t, dt, w.data, read[i].Values, read[i].Chunks*pool.AheadChunk)
		within(t, dt, w.scales, read[i].Scales, read[i].Chunks*read[i].ScaleChunk)
		if read[i].Chunks == 0 {
			t.Errorf("%v: nothing is read", dt)
		}
	}
}

func within(t *testing.T, dt tensor.DType, mem []byte, at uintptr, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if at < base || at+uintptr(n) > base+uintptr(len(mem)) {
		t.Errorf("%v: %d bytes from %d on of %d", dt, n, int(at-base), len(mem))
	}
}
