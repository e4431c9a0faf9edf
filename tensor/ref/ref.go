// Package ref is the oracle: every op of the contract in slow and obvious Go.
//
// It computes in float64 and rounds each op's result to float32 once, so it is more
// accurate than any device, and of an arithmetic of its own ("f64"): devices are compared
// with it within a tolerance, never to the bit. Only what defines a result and is not mere
// rounding is done by the letter of the rules: weights are the float32 values of package
// quant, rows that meet quantised weights under Act8 are rounded to 8 bits, and rotation
// angles are float32. Attention is one plain softmax.
//
// It is not for use: it has no threads, and nothing in it is fast.
package ref

import (
	"fmt"
	"math"
	"sync"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// Device is the oracle. It implements [tensor.Device].
type Device struct {
	mu sync.Mutex // makes ops atomic
}

var _ tensor.Device = (*Device)(nil)

// New makes an oracle.
func New() *Device { return &Device{} }

type weight struct {
	m tensor.Matrix
	v []float32 // [rows][cols]
}

func (w *weight) Rows() int           { return w.m.Rows }
func (w *weight) Cols() int           { return w.m.Cols }
func (w *weight) DType() tensor.DType { return w.m.DType }
func (w *weight) Bytes() int64        { return int64(4 * len(w.v)) }
func (w *weight) row(i int) []float32 { return w.v[i*w.m.Cols : (i+1)*w.m.Cols] }

type vector []float32

func (v vector) Len() int { return len(v) }

func vectorOf(v tensor.Vector) vector {
	if v == nil {
		return nil
	}
	return v.(vector)
}

// buffer and act are rows of float32.
type buffer struct {
	rows, cols int
	v          []float32
}

func (b *buffer) Rows() int           { return b.rows }
func (b *buffer) Cols() int           { return b.cols }
func (b *buffer) row(i int) []float32 { return b.v[i*b.cols : (i+1)*b.cols] }

type act struct {
	buffer
	n    int
	mode tensor.Activations
}

type rope struct{ spec tensor.RopeSpec }

func (r *rope) RotaryDim() int { return r.spec.RotaryDim }

type kv struct {
	spec tensor.KVSpec
	k, v map[place][]float32 // [headDim]
}

// place is one head's position in a page of the pool.
type place struct {
	page             int32
	layer, head, pos int
}

func (c *kv) Pages() int { return c.spec.Pages }
func (c *kv) PageBytes() int64 {
	values := int64(c.spec.Layers * c.spec.KVHeads * c.spec.HeadDim * tensor.PageTokens * 2)
	if c.spec.DType == tensor.BF16 {
		return 2 * values
	}
	return 4 * values
}

// written is a head's key or value as the pool holds it.
func (c *kv) written(x []float32) []float32 {
	out := append([]float32(nil), x...)
	if c.spec.DType == tensor.BF16 {
		for i, v := range out {
			out[i] = quant.BF16ToF32(quant.F32ToBF16(v))
		}
	}
	return out
}

// Info names the device.
func (d *Device) Info() tensor.Info {
	return tensor.Info{Name: "ref", Tier: "ref", Arithmetic: "f64", Threads: 1}
}

// Load unpacks m.
func (d *Device) Load(m tensor.Matrix) (tensor.Weight, error) {
	if err := quant.Check(m); err != nil {
		return nil, fmt.Errorf("ref device: load %w", err)
	}
	w := &weight{m: m, v: make([]float32, m.Rows*m.Cols)}
	for i := range m.Rows {
		quant.UnpackRow(w.row(i), m, i)
	}
	w.m.Data = nil
	return w, nil
}

// LoadVector copies v.
func (d *Device) LoadVector(v []float32) (tensor.Vector, error) {
	if len(v) == 0 {
		return nil, fmt.Errorf("ref device: load an empty vector")
	}
	return vector(append([]float32(nil), v...)), nil
}

// NewBuffer makes zeroed workspace.
func (d *Device) NewBuffer(rows, cols int) (tensor.Buffer, error) {
	if rows <= 0 || cols <= 0 {
		return nil, fmt.Errorf("ref device: buffer of %dx%d", rows, cols)
	}
	return &buffer{rows, cols, make([]float32, rows*cols)}, nil
}

// NewAct makes room for rows.
func (d *Device) NewAct(rows, cols int) (tensor.Act, error) {
	if rows <= 0 || cols <= 0 {
		return nil, fmt.Errorf("ref device: activations of %dx%d", rows, cols)
	}
	return &act{buffer: buffer{rows, cols, nil}}, nil
}

// NewRope keeps s.
func (d *Device) NewRope(s tensor.RopeSpec) (tensor.Rope, error) {
	if s.RotaryDim <= 0 || s.RotaryDim%2 != 0 || s.RotaryDim > s.HeadDim || len(s.InvFreq) != s.RotaryDim/2 {
		return nil, fmt.Errorf("ref device: rope over %d of %d dimensions with %d frequencies", s.RotaryDim, s.HeadDim, len(s.InvFreq))
	}
	return &rope{s}, nil
}

// NewKV makes an empty pool.
func (d *Device) NewKV(s tensor.KVSpec) (tensor.KV, error) {
	if s.Layers <= 0 || s.KVHeads <= 0 || s.HeadDim <= 0 || s.Pages <= 0 {
		return nil, fmt.Errorf("ref device: KV pool of %+v", s)
	}
	if err := tensor.CheckKVDType(s.DType); err != nil {
		return nil, fmt.Errorf("ref device: %w", err)
	}
	return &kv{s, map[place][]float32{}, map[place][]float32{}}, nil
}

// Upload copies rows in.
func (d *Device) Upload(dst tensor.Buffer, row int, src []float32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := dst.(*buffer)
	copy(b.v[row*b.cols:][:len(src)], src)
}

// Download copies rows out.
func (d *Device) Download(dst []float32, src tensor.Buffer, row int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := src.(*buffer)
	copy(dst, b.v[row*b.cols:][:len(dst)])
}

// Embed copies rows of the table.
func (d *Device) Embed(dst tensor.Buffer, table tensor.Weight, ids []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, id := range ids {
		copy(dst.(*buffer).row(i), table.(*weight).row(int(id)))
	}
}

// Gather copies rows.
func (d *Device) Gather(dst, src tensor.Buffer, rows []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range rows {
		copy(dst.(*buffer).row(i), src.(*buffer).row(int(r)))
	}
}

// Norm normalises groups of each row.
func (d *Device) Norm(dst, src tensor.Buffer, n int, s tensor.NormSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gain, bias := vectorOf(s.Gain), vectorOf(s.Bias)
	g := len(gain)
	for r := range n {
		for at := 0; at < src.Cols(); at += g {
			x, y := src.(*buffer).row(r)[at:at+g], dst.(*buffer).row(r)[at:at+g]
			mean, square := 0.0, 0.0
			if s.Kind == tensor.LayerNorm {
				for _, v := range x {
					mean += float64(v) / float64(g)
				}
			}
			for _, v := range x {
				square += (float64(v) - mean) * (float64(v) - mean) / float64(g)
			}
			for i, v := range x {
				out := (float64(v) - mean) / math.Sqrt(square+float64(s.Eps)) * float64(gain[i])
				if bias != nil {
					out += float64(bias[i])
				}
				y[i] = float32(out)
			}
		}
	}
}

// Sync has nothing to wait for.
func (d *Device) Sync() error { return nil }

// Close frees nothing.
func (d *Device) Close() error { return nil }
