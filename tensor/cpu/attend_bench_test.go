package cpu_test

import (
	"fmt"
	"testing"
	"time"

	"whorl/tensor"
)

// BenchmarkAttendDecode times the attention of one row over a long past, layer after layer
// of a cache far larger than the processor's, and beside it how fast the same threads read
// memory: share is the part of that at which keys and values go by. Windows read only
// themselves.
func BenchmarkAttendDecode(b *testing.B) {
	for _, s := range []struct {
		name                          string
		heads, kvHeads, headDim, past int
		window                        int
		softcap                       float32
		alibi                         bool
		cache                         tensor.DType
	}{
		{"135m", 9, 3, 64, 4096, 0, 0, false, tensor.F32},
		{"135m", 9, 3, 64, 4096, 0, 0, false, tensor.BF16},
		{"1.1b", 32, 4, 64, 4096, 0, 0, false, tensor.F32},
		{"1.1b", 32, 4, 64, 4096, 0, 0, false, tensor.BF16},
		{"8b", 32, 8, 128, 4096, 0, 0, false, tensor.F32},
		{"8b", 32, 8, 128, 4096, 0, 0, false, tensor.BF16},
		{"8b", 32, 8, 128, 128, 0, 0, false, tensor.F32},
		{"8b-window", 32, 8, 128, 32768, 4096, 0, false, tensor.F32},
		{"8b-softcap", 32, 8, 128, 4096, 0, 50, false, tensor.F32},
		{"falcon-rw", 32, 32, 64, 2048, 0, 0, true, tensor.F32},
		{"falcon-rw", 32, 32, 64, 2048, 0, 0, true, tensor.BF16},
	} {
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("%s/%v/past=%d/threads=%d", s.name, s.cache, s.past, threads), func(b *testing.B) {
				d := open(b, "auto", threads)
				seen := s.past
				if s.window > 0 {
					seen = s.window
				}
				position := s.kvHeads * s.headDim * 8 // bytes of keys and values in a layer
				if s.cache == tensor.BF16 {
					position /= 2
				}
				bytes := seen * position
				layers := max(1, 512<<20/(s.past*position))
				spec := tensor.AttendSpec{Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim, Scale: 0.125, Window: s.window, Softcap: s.softcap}
				if s.alibi {
					spec.Alibi = &tensor.AlibiSpec{Slopes: check(d.LoadVector(make([]float32, s.heads))), BF16: true}
				}
				kv := check(d.NewKV(tensor.KVSpec{Layers: layers, KVHeads: s.kvHeads, HeadDim: s.headDim, Pages: s.past / tensor.PageTokens, DType: s.cache}))
				buf := func(rows, heads int) tensor.Buffer { return check(d.NewBuffer(rows, heads*s.headDim)) }
				batch := &tensor.Batch{Seqs: []tensor.KVView{{}}}
				for p := range s.past / tensor.PageTokens {
					batch.Seqs[0].Pages = append(batch.Seqs[0].Pages, int32(p))
				}
				const chunk = 64
				fill := *batch
				q, k, v, dst := buf(chunk, s.heads), buf(chunk, s.kvHeads), buf(chunk, s.kvHeads), buf(chunk, s.heads)
				for l := range layers { // commits the memory
					at := spec
					at.Layer, at.Window = l, 1
					for p := 0; p < s.past; p += chunk {
						fill.Rows = fill.Rows[:0]
						for i := range chunk {
							fill.Rows = append(fill.Rows, tensor.Row{Pos: int32(p + i)})
						}
						d.Attend(dst, q, k, v, kv, &fill, at)
					}
				}
				batch.Rows = []tensor.Row{{Pos: int32(s.past - 1)}}
				ceiling := check(d.NewCeiling(256 << 20))
				ceiling.Read()
				var read int64
				var reading, attending time.Duration
				b.ResetTimer()
				for range b.N {
					for l := range layers {
						spec.Layer = l
						d.Attend(dst, q, k, v, kv, batch, spec)
					}
					attending += b.Elapsed()
					b.ResetTimer()
					read += ceiling.Read()
					reading += b.Elapsed()
					b.ResetTimer()
				}
				rate := float64(b.N*layers*bytes) / attending.Seconds()
				b.ReportMetric(rate/1e9, "GB/s")
				b.ReportMetric(rate/(float64(read)/reading.Seconds()), "share")
				b.ReportMetric(attending.Seconds()*1e6/float64(b.N*layers), "us/layer")
			})
		}
	}
}
