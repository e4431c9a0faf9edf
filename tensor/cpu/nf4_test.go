package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestNF4Kernels(t *testing.T) {
	for rows := 1; rows <= 18; rows++ {
		for _, blocks := range []int{2, 4, 6} {
			for _, groups := range []int{1, 3} {
				r := rand.New(rand.NewPCG(uint64(rows), uint64(groups)))
				data := make([]byte, blocks*groups*nf4Lines*4*lanes)
				for i := range data {
					data[i] = byte(r.Uint32())
				}
				scale := fill(make([]float32, blocks*groups*lanes), 1, 0.2)
				stride, xStride := blocks*lanes+3, groups*nf4Group+5
				x := fill(make([]float32, rows*xStride), 2, 1)
				name := fmt.Sprintf("nf4, %d rows, %d blocks, %d groups", rows, blocks, groups)
				twins(t, name, func(k *kernels, mem func(int) []float32) {
					acc := fill(mem((rows-1)*stride+blocks*lanes), 3, 1)
					k.nf4(&nf4Args{acc: acc, accStride: stride, data: data, scale: scale, blocks: blocks, x: x, xStride: xStride, rows: rows, groups: groups})
				})
				twins(t, "panel of "+name, func(k *kernels, mem func(int) []float32) {
					acc := fill(mem((rows-1)*stride+blocks*lanes), 3, 1)
					k.nf4Panel(&nf4PanelArgs{acc: acc, accStride: stride, panel: fill(make([]float32, 2*groups*nf4Group*lanes), 4, 1),
						scale: scale, scaleStride: groups * lanes, x: x, xStride: xStride, rows: rows, groups: groups})
				})
				for _, lines := range []int{1, 4, nf4Lines} {
					twins(t, "unpack "+name, func(k *kernels, mem func(int) []float32) {
						k.unpackNF4(mem(lines*8*lanes), data, lines)
					})
				}
			}
		}
	}
}
