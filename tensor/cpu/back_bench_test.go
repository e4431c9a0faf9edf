package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"whorl/tensor"
	"whorl/tensor/cpu"
)

// BenchmarkBackward times the ops of a block's way back one by one, next to float dot products on registers: "share" is
// the part of these that an op's multiplications reach, the median of pairs. Of attention the scores are counted once
// for each of its six products.
func BenchmarkBackward(b *testing.B) {
	const rows = 1024
	for _, m := range []llama{smol135m, llama1b} {
		for _, threads := range []int{1, 2} {
			d := check(cpu.Open(cpu.Options{Threads: threads}))
			c := check(d.NewCeiling(64 << 20))
			e := newBench(d, llama{1, m.hidden, m.ffn, m.heads, m.kvHeads, m.headDim, 32, m.block, m.head}, rows, 0)
			rng := rand.New(rand.NewPCG(1, 2))
			buf := func(n, cols int) tensor.Buffer {
				x := make([]float32, n*cols)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				t := check(d.NewBuffer(n, cols))
				d.Upload(t, 0, x)
				return t
			}
			l, piece, q, kv := e.blocks[0], 256, m.heads*m.headDim, m.kvHeads*m.headDim
			product := func(n, from, to int, w tensor.Weight) func() {
				dst, dy := buf(n, to), buf(n, from)
				return func() { d.MatMulBack(dst, dy, n, w, false) }
			}
			flops := func(n, from, to int) float64 { return 2 * float64(n) * float64(from) * float64(to) }
			attend := func(lengths ...int) func() {
				batch := &tensor.Batch{}
				for s, n := range lengths {
					batch.Seqs = append(batch.Seqs, tensor.KVView{})
					for p := range n {
						batch.Rows = append(batch.Rows, tensor.Row{Seq: int32(s), Pos: int32(p)})
					}
				}
				dq, dk, dv, dout, out, xq, k, v := buf(rows, q), buf(rows, kv), buf(rows, kv), buf(rows, q), buf(rows, q), buf(rows, q), buf(rows, kv), buf(rows, kv)
				spec := tensor.AttendSpec{Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.headDim, Scale: 0.125, Totals: buf(rows, 2*m.heads)}
				return func() { d.AttendBack(dq, dk, dv, dout, out, xq, k, v, batch, spec) }
			}
			scores := func(n, count int) float64 { return 6 * 2 * float64(count) * float64(n) * float64(n+1) / 2 * float64(q) }
			for _, o := range []struct {
				name  string
				do    func()
				flops float64
			}{
				{"O", product(rows, m.hidden, q, l.o), flops(rows, m.hidden, q)},
				{"K", product(rows, kv, m.hidden, l.k), flops(rows, kv, m.hidden)},
				{"Down", product(piece, m.hidden, m.ffn, l.down), flops(piece, m.hidden, m.ffn)},
				{"Up", product(piece, m.ffn, m.hidden, l.up), flops(piece, m.ffn, m.hidden)},
				{"Attend1x1024", attend(1024), scores(1024, 1)},
				{"Attend32x32", attend(slices.Repeat([]int{32}, 32)...), scores(32, 32)},
			} {
				b.Run(fmt.Sprintf("%d/%d/%s", m.hidden, threads, o.name), func(b *testing.B) {
					o.do()
					var shares, times []float64
					for b.Loop() {
						at := time.Now()
						dots := float64(c.Dot(tensor.F32)) / time.Since(at).Seconds()
						at = time.Now()
						o.do()
						took := time.Since(at).Seconds()
						shares, times = append(shares, o.flops/took/dots), append(times, took)
					}
					slices.Sort(shares)
					slices.Sort(times)
					b.ReportMetric(shares[len(shares)/2], "share")
					b.ReportMetric(times[0]*1e6, "best-us")
					b.ReportMetric(0, "ns/op")
				})
			}
			d.Close()
		}
	}
}
