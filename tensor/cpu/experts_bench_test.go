package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// sparse is the shape of a mixture of experts: layers are so many that their weights are
// far beyond the caches.
type sparse struct{ layers, hidden, ffn, experts, topK int }

// sparseBench holds the experts of all layers and the operands of a step.
type sparseBench struct {
	sparse
	d           tensor.Device
	specs       []*tensor.ExpertsSpec
	x, dst      tensor.Buffer
	logits      []tensor.Buffer // taken in turns, so that layers read other experts every time
	turn        int
	expertBytes int64 // of one expert
}

func newSparseBench(d tensor.Device, m sparse, t tensor.DType, rows int) *sparseBench {
	r := rand.New(rand.NewPCG(1, 1))
	load := func(out, in int) tensor.Weight {
		data := make([]byte, check(quant.RowBytes(t, in))*out)
		f, _ := quant.Of(t)
		tile, x := make([]byte, f.Bytes*64), make([]float32, f.Group*64) // random blocks, repeated
		for i := range x {
			x[i] = float32(r.NormFloat64()) * 0.02
		}
		f.Pack(tile, x)
		for i := 0; i < len(data); i += copy(data[i:], tile) {
		}
		return check(d.Load(tensor.Matrix{DType: t, Rows: out, Cols: in, Data: data}))
	}
	e := &sparseBench{sparse: m, d: d}
	for range m.layers {
		s := &tensor.ExpertsSpec{Act: tensor.SiLU, TopK: m.topK, Renormalise: true}
		for range m.experts {
			s.Gate, s.Up, s.Down = append(s.Gate, load(m.ffn, m.hidden)), append(s.Up, load(m.ffn, m.hidden)), append(s.Down, load(m.hidden, m.ffn))
		}
		e.specs = append(e.specs, s)
	}
	e.expertBytes = e.specs[0].Gate[0].Bytes() + e.specs[0].Up[0].Bytes() + e.specs[0].Down[0].Bytes()
	buf := func(cols int) tensor.Buffer {
		b, v := check(d.NewBuffer(rows, cols)), make([]float32, rows*cols)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		d.Upload(b, 0, v)
		return b
	}
	e.x, e.dst = buf(m.hidden), buf(m.hidden)
	for range 31 {
		e.logits = append(e.logits, buf(m.experts))
	}
	return e
}

func (e *sparseBench) step() {
	for _, s := range e.specs {
		e.d.Experts(e.dst, e.x, e.logits[e.turn%len(e.logits)], e.x.Rows(), s)
		e.turn++
	}
}

// BenchmarkExperts times layers of experts. GB/s counts the weights of all choices, so with
// many rows it is above what is read. "dense" is a feed-forward of the bytes that a row of
// "8x2" reads.
func BenchmarkExperts(b *testing.B) {
	for _, m := range []struct {
		name string
		sparse
	}{{"dense", sparse{24, 2048, 2 * 5632, 1, 1}}, {"8x2", sparse{6, 2048, 5632, 8, 2}}, {"128x8", sparse{3, 2048, 768, 128, 8}}} {
		for _, rows := range []int{1, 4, 128} {
			b.Run(fmt.Sprintf("%s/rows=%d", m.name, rows), func(b *testing.B) {
				e := newSparseBench(open(b, "auto", 2), m.sparse, tensor.Q4_1, rows)
				e.step()
				b.ResetTimer()
				for range b.N {
					e.step()
				}
				per := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(float64(e.expertBytes)*float64(rows*m.topK*m.layers)/per/1e9, "GB/s")
				b.ReportMetric(float64(rows)/per, "tok/s")
			})
		}
	}
}

// No step allocates once the scratch has its size.
func TestExpertsAllocateNothing(t *testing.T) {
	e := newSparseBench(open(t, "auto", 2), sparse{2, 64, 96, 9, 3}, tensor.Q4_0, 7)
	e.step()
	if n := testing.AllocsPerRun(10, e.step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
