//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor/quant"
)

// The kernels of the tier "avx2" by rows, and how rows are shared out among them.

var avx2High = highKernels{
	q5_0: assembly(quantKernels{avx2Q5_0x1, avx2Q5_0x2, avx2Q5_0x3, avx2Q5_0x4}, avx2UnpackQ5_0, nil),
	q4_k: assembly(quantKernels{avx2Q4_Kx1, avx2Q4_Kx2, avx2Q4_Kx3, avx2Q4_Kx4}, avx2UnpackQ4_K, nil),
	q5_k: assembly(quantKernels{avx2Q5_Kx1, avx2Q5_Kx2, avx2Q5_Kx3, avx2Q5_Kx4}, avx2UnpackQ5_K, nil),
	q6_k: assembly(quantKernels{avx2Q6_Kx1, avx2Q6_Kx2, avx2Q6_Kx3, avx2Q6_Kx4}, avx2UnpackQ6_K, nil),
}

var (
	avx2Q8_0 = quantKernels{avx2Q8_0x1, avx2Q8_0x2, avx2Q8_0x3, avx2Q8_0x4}
	avx2Q4_0 = quantKernels{avx2Q4_0x1, avx2Q4_0x2, avx2Q4_0x3, avx2Q4_0x4}
	avx2Q4_1 = quantKernels{avx2Q4_1x1, avx2Q4_1x2, avx2Q4_1x3, avx2Q4_1x4}
)

// avx2FloatKernels holds the kernels of one float format: quad takes one row and four blocks,
// whose sums hide each other's latency; rows[r-1] takes r rows and as many blocks as fill
// the registers.
type avx2FloatKernels[T float32 | uint16] struct {
	quad avx2FloatKernel[T]
	rows [6]avx2FloatKernel[T]
}

type avx2FloatKernel[T float32 | uint16] func(acc *float32, accStride uintptr, w *T, wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)

// avx2FloatBlocks is the number of blocks of rows[r-1].
var avx2FloatBlocks = [6]int{2, 2, 2, 1, 1, 1}

var (
	avx2F32  = avx2FloatKernels[float32]{avx2F32x1x4, [6]avx2FloatKernel[float32]{avx2F32x1x2, avx2F32x2x2, avx2F32x3x2, avx2F32x4x1, avx2F32x5x1, avx2F32x6x1}}
	avx2F16  = avx2FloatKernels[uint16]{avx2F16x1x4, [6]avx2FloatKernel[uint16]{avx2F16x1x2, avx2F16x2x2, avx2F16x3x2, avx2F16x4x1, avx2F16x5x1, avx2F16x6x1}}
	avx2BF16 = avx2FloatKernels[uint16]{avx2BF16x1x4, [6]avx2FloatKernel[uint16]{avx2BF16x1x2, avx2BF16x2x2, avx2BF16x3x2, avx2BF16x4x1, avx2BF16x5x1, avx2BF16x6x1}}
)

// avx2FloatRows is floatRows for these.
func avx2FloatRows[T float32 | uint16](f *avx2FloatKernels[T], acc []float32, accStride int, w []T, wStride, blocks int, x []float32, xStride, rows, k int, ahead uintptr) {
	together := equalParts(rows, len(f.rows))
	for r := 0; r < rows; {
		n := min(rows-r, together)
		kernel, each := f.rows[n-1], avx2FloatBlocks[n-1]
		if n == 1 && blocks%4 == 0 {
			kernel, each = f.quad, 4
		}
		kernel(&acc[r*accStride], uintptr(4*accStride), &w[0], uintptr(wStride), blocks/each, &x[r*xStride], uintptr(4*xStride), k, ahead)
		r += n
	}
}

var avx2INT8 = [...]func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, q *int8, qStride uintptr, rows *byte, turns int){
	avx2INT8x1, avx2INT8x2, avx2INT8x3, avx2INT8x4, avx2INT8x5, avx2INT8x6,
}

func avx2INT8Products(a *int8Args) {
	together := equalParts(len(a.rows), len(avx2INT8))
	for r := 0; r < len(a.rows); r += together {
		n := min(together, len(a.rows)-r)
		avx2INT8[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], a.blocks,
			&a.q[r*a.cols], uintptr(a.cols), (*byte)(unsafe.Pointer(&a.rows[r])), a.cols/int8Pad)
	}
}

var avx2NF4 = [...]nf4Kernel{avx2NF4x1, avx2NF4x2, avx2NF4x3, avx2NF4x4}

func avx2NF4Products(a *nf4Args) {
	together := equalParts(a.rows, len(avx2NF4))
	for r := 0; r < a.rows; r += together {
		n := min(together, a.rows-r)
		avx2NF4[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], a.blocks,
			&a.x[r*a.xStride], uintptr(4*a.xStride), a.groups, &quant.NF4Levels[0])
	}
}

var avx2NF4Panels = [...]func(acc *float32, accStride uintptr, panel, scale, x *float32, xStride uintptr, groups int){
	avx2NF4Panelx1, avx2NF4Panelx2, avx2NF4Panelx3, avx2NF4Panelx4, avx2NF4Panelx5, avx2NF4Panelx6,
}

func avx2NF4PanelProducts(a *nf4PanelArgs) {
	together := equalParts(a.rows, len(avx2NF4Panels))
	for r := 0; r < a.rows; r += together {
		n := min(together, a.rows-r)
		for b := range 2 {
			avx2NF4Panels[n-1](&a.acc[r*a.accStride+b*lanes], uintptr(4*a.accStride), &a.panel[b*a.groups*nf4Group*lanes],
				&a.scale[b*a.scaleStride], &a.x[r*a.xStride], uintptr(4*a.xStride), a.groups)
		}
	}
}
