package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// llama is the shape of a model and one copy of its ops' operands: enough to time a step.
type llama struct {
	layers, hidden, ffn, heads, kvHeads, headDim, vocab int
	block, head                                         tensor.DType
}

var (
	smol135m  = llama{30, 576, 1536, 9, 3, 64, 49152, tensor.Q4_1, tensor.Q8_0}
	llama1b   = llama{22, 2048, 5632, 32, 4, 64, 32000, tensor.Q4_1, tensor.Q8_0}
	benchRows = []int{1, 2, 4, 8, 16, 128}
)

type benchLayer struct{ q, k, v, o, gate, up, down tensor.Weight }

// bench holds a model's weights and the workspace for rows rows.
type bench struct {
	llama
	d                                   tensor.Device
	blocks                              []benchLayer
	lm                                  tensor.Weight
	gain                                tensor.Vector
	rope                                tensor.Rope
	kv                                  tensor.KV
	x, h, q, k, v, att, mid, logits     tensor.Buffer
	aHidden, aAtt, aMid                 tensor.Act
	qkv, o, gateUp, down, logitsProduct []tensor.Product
	batch                               tensor.Batch
	weightBytes                         int64
}

func check[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newBench(d tensor.Device, m llama, rows, past int) *bench {
	r := rand.New(rand.NewPCG(1, 1))
	load := func(t tensor.DType, out, in int) tensor.Weight {
		n := check(quant.RowBytes(t, in)) * out
		data := make([]byte, n)
		f, _ := quant.Of(t)
		tile := make([]byte, f.Bytes*64) // random blocks, repeated
		x := make([]float32, f.Group*64)
		for i := range x {
			x[i] = float32(r.NormFloat64()) * 0.02
		}
		f.Pack(tile, x)
		for i := 0; i < n; i += copy(data[i:], tile) {
		}
		return check(d.Load(tensor.Matrix{DType: t, Rows: out, Cols: in, Data: data}))
	}
	e := &bench{llama: m, d: d}
	for range m.layers {
		e.blocks = append(e.blocks, benchLayer{
			load(m.block, m.heads*m.headDim, m.hidden), load(m.block, m.kvHeads*m.headDim, m.hidden), load(m.block, m.kvHeads*m.headDim, m.hidden),
			load(m.block, m.hidden, m.heads*m.headDim), load(m.block, m.ffn, m.hidden), load(m.block, m.ffn, m.hidden), load(m.block, m.hidden, m.ffn),
		})
	}
	e.lm = load(m.head, m.vocab, m.hidden)
	ones := make([]float32, m.hidden)
	freq := make([]float32, m.headDim/2)
	for i := range ones {
		ones[i] = 1
	}
	for i := range freq {
		freq[i] = 1 / float32(i+1)
	}
	e.gain = check(d.LoadVector(ones))
	e.rope = check(d.NewRope(tensor.RopeSpec{HeadDim: m.headDim, RotaryDim: m.headDim, InvFreq: freq, Scale: 1}))
	pages := (past+rows)/tensor.PageTokens + 1
	e.kv = check(d.NewKV(tensor.KVSpec{Layers: m.layers, KVHeads: m.kvHeads, HeadDim: m.headDim, Pages: pages}))
	buf := func(cols int) tensor.Buffer { return check(d.NewBuffer(rows, cols)) }
	e.x, e.h, e.q, e.k, e.v = buf(m.hidden), buf(m.hidden), buf(m.heads*m.headDim), buf(m.kvHeads*m.headDim), buf(m.kvHeads*m.headDim)
	e.att, e.mid, e.logits = buf(m.heads*m.headDim), buf(m.ffn), check(d.NewBuffer(min(rows, 16), m.vocab))
	e.aHidden, e.aAtt, e.aMid = check(d.NewAct(rows, m.hidden)), check(d.NewAct(rows, m.heads*m.headDim)), check(d.NewAct(rows, m.ffn))
	e.qkv, e.o, e.gateUp, e.down, e.logitsProduct = make([]tensor.Product, 3), make([]tensor.Product, 1), make([]tensor.Product, 1), make([]tensor.Product, 1), make([]tensor.Product, 1)
	view := tensor.KVView{}
	for p := range pages {
		view.Pages = append(view.Pages, int32(p))
	}
	e.batch.Seqs = []tensor.KVView{view}
	for i := range rows {
		e.batch.Rows = append(e.batch.Rows, tensor.Row{Pos: int32(past + i)})
	}
	in := make([]float32, rows*m.hidden)
	for i := range in {
		in[i] = float32(r.NormFloat64())
	}
	d.Upload(e.x, 0, in)
	for _, l := range e.blocks {
		for _, w := range []tensor.Weight{l.q, l.k, l.v, l.o, l.gate, l.up, l.down} {
			e.weightBytes += w.Bytes()
		}
	}
	e.weightBytes += e.lm.Bytes()
	return e
}

// step is one pass of all rows through the model; head says whether logits are wanted (of
// at most 16 rows).
func (e *bench) step(head bool) {
	d, n := e.d, len(e.batch.Rows)
	norm := tensor.NormSpec{Gain: e.gain, Eps: 1e-5}
	for i := range e.blocks {
		l := &e.blocks[i]
		d.Norm(e.h, e.x, n, norm)
		d.Prepare(e.aHidden, e.h, n, tensor.Act8)
		e.qkv[0] = tensor.Product{W: l.q, Dst: e.q}
		e.qkv[1] = tensor.Product{W: l.k, Dst: e.k}
		e.qkv[2] = tensor.Product{W: l.v, Dst: e.v}
		d.MatMul(e.aHidden, e.qkv)
		d.Attend(e.att, e.q, e.k, e.v, e.kv, &e.batch, tensor.AttendSpec{Layer: i, Heads: e.heads, KVHeads: e.kvHeads, HeadDim: e.headDim, Scale: 0.125, Rope: e.rope})
		d.Prepare(e.aAtt, e.att, n, tensor.Act8)
		e.o[0] = tensor.Product{W: l.o, Residual: e.x, Dst: e.x}
		d.MatMul(e.aAtt, e.o)
		d.Norm(e.h, e.x, n, norm)
		d.Prepare(e.aHidden, e.h, n, tensor.Act8)
		e.gateUp[0] = tensor.Product{W: l.up, Gate: l.gate, Act: tensor.SiLU, Dst: e.mid}
		d.MatMul(e.aHidden, e.gateUp)
		d.Prepare(e.aMid, e.mid, n, tensor.Act8)
		e.down[0] = tensor.Product{W: l.down, Residual: e.x, Dst: e.x}
		d.MatMul(e.aMid, e.down)
	}
	if head {
		d.Norm(e.h, e.x, min(n, 16), norm)
		d.Prepare(e.aHidden, e.h, min(n, 16), tensor.Act8)
		e.logitsProduct[0] = tensor.Product{W: e.lm, Dst: e.logits}
		d.MatMul(e.aHidden, e.logitsProduct)
	}
}

// BenchmarkModel times the ops of a whole step: tok/s counts rows.
func BenchmarkModel(b *testing.B) {
	for _, m := range []struct {
		name string
		llama
	}{{"135m", smol135m}, {"1.1b", llama1b}} {
		for threads := 1; threads <= 2; threads++ {
			for _, rows := range benchRows {
				b.Run(fmt.Sprintf("%s/threads=%d/rows=%d", m.name, threads, rows), func(b *testing.B) {
					e := newBench(open(b, "auto", threads), m.llama, rows, 128)
					e.step(true)
					b.ResetTimer()
					for range b.N {
						e.step(true)
					}
					b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "tok/s")
					b.ReportMetric(float64(e.weightBytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}

// No op allocates once its workspace has its size, also where attention shares out splits.
func TestStepsAllocateNothing(t *testing.T) {
	small := llama{2, 64, 128, 4, 2, 16, 96, tensor.Q4_1, tensor.F32}
	for _, rows := range []int{1, 7} {
		e := newBench(open(t, "auto", 2), small, rows, 600)
		e.step(true)
		if n := testing.AllocsPerRun(10, func() { e.step(true) }); n != 0 {
			t.Errorf("%d rows: %v allocations a step", rows, n)
		}
	}
}
