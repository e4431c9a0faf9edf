package cpu

import (
	"fmt"
	"testing"

	"whorl/tensor"
)

// BenchmarkKernels times products on weights that stay in the second-level cache: what
// the instructions cost, apart from memory. Ops count a multiplication and an addition.
func BenchmarkKernels(b *testing.B) {
	const blocks, groups = 8, 16 // whole super-blocks
	data := make([]byte, blocks*groups*512)
	scale := make([]uint16, blocks*groups*2*lanes)
	for _, tier := range archTiers() {
		for _, rows := range []int{1, 4, 12} {
			q := quantArgs{
				acc: make([]float32, rows*blocks*lanes), accStride: blocks * lanes, data: data, scale: scale,
				blocks: blocks, x: make([]quantGroup, rows*groups), rows: rows, groups: groups,
			}
			w := make([]float32, blocks*groups*group*lanes)
			x := make([]float32, rows*groups*group)
			report := func(name string, bytes int, f func()) {
				b.Run(fmt.Sprintf("%s/%s/rows=%d", tier.name, name, rows), func(b *testing.B) {
					for range b.N {
						f()
					}
					per := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(float64(bytes)/per/1e9, "GB/s")
					b.ReportMetric(2*float64(rows*blocks*lanes*groups*group)/per/1e9, "Gop/s")
				})
			}
			groupFormats(func(d tensor.DType, l *groupLayout) {
				report(d.String(), blocks*groups*(l.lineBytes()+2*l.words), func() { tier.k.groups[d].product(&q) })
			})
			const cols = groups * group
			report("int8", blocks*lanes*(cols+4), func() {
				tier.k.int8(&int8Args{acc: q.acc, accStride: q.accStride, data: data, scale: w[:blocks*lanes], blocks: blocks,
					q: make([]int8, rows*cols), rows: make([]int8Row, rows), cols: cols})
			})
			report("nf4", blocks*lanes*cols*9/16, func() {
				tier.k.nf4(&nf4Args{acc: q.acc, accStride: q.accStride, data: data, scale: w[:blocks*cols/nf4Group*lanes], blocks: blocks,
					x: x, xStride: cols, rows: rows, groups: cols / nf4Group})
			})
			report("f32", len(w)*4, func() {
				tier.k.f32(q.acc, q.accStride, w, groups*group*lanes, blocks, x, groups*group, rows, groups*group, nil)
			})
		}
	}
}
