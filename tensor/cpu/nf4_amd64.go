//go:build amd64 && !purego

package cpu

import "whorl/tensor/quant"

// The kernels of NF4 weights by rows, from 1: over pairs of blocks, and over runs of four
// for few rows, whose sums would otherwise wait for each other.
type nf4Kernel = func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)

var (
	avx512NF4Pairs = [maxNF4Rows]nf4Kernel{
		avx512NF4x1x2, avx512NF4x2x2, avx512NF4x3x2, avx512NF4x4x2, avx512NF4x5x2, avx512NF4x6x2, avx512NF4x7x2, avx512NF4x8x2,
	}
	avx512NF4Quads = [...]nf4Kernel{avx512NF4x1x4, avx512NF4x2x4, avx512NF4x3x4}
)

func nf4Products(a *nf4Args) {
	together := equalParts(a.rows, maxNF4Rows)
	for r := 0; r < a.rows; r += together {
		n := min(together, a.rows-r)
		f, runs := avx512NF4Pairs[n-1], a.blocks/2
		if n <= len(avx512NF4Quads) && a.blocks%4 == 0 {
			f, runs = avx512NF4Quads[n-1], a.blocks/4
		}
		f(&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], runs,
			&a.x[r*a.xStride], uintptr(4*a.xStride), a.groups, &quant.NF4Levels[0])
	}
}

// avx512NF4Panels holds the kernels on a panel of levels by rows, from 1.
var avx512NF4Panels = [maxTileRows]func(acc *float32, accStride uintptr, panel *float32, apart uintptr, scale *float32, scaleStride uintptr, x *float32, xStride uintptr, groups int){
	avx512NF4Panelx1, avx512NF4Panelx2, avx512NF4Panelx3, avx512NF4Panelx4, avx512NF4Panelx5, avx512NF4Panelx6,
	avx512NF4Panelx7, avx512NF4Panelx8, avx512NF4Panelx9, avx512NF4Panelx10, avx512NF4Panelx11, avx512NF4Panelx12,
}

func nf4PanelProducts(a *nf4PanelArgs) {
	together := equalParts(a.rows, maxTileRows)
	for r := 0; r < a.rows; r += together {
		n := min(together, a.rows-r)
		avx512NF4Panels[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.panel[0], uintptr(4*a.groups*nf4Group*lanes),
			&a.scale[0], uintptr(4*a.scaleStride), &a.x[r*a.xStride], uintptr(4*a.xStride), a.groups)
	}
}
