//go:build amd64 && !purego

package cpu

import "unsafe"

// avx2 is the tier in assembly for AVX2, FMA and F16C. Rows meet weights as they are stored:
// bytes of a panel would first have to be widened.
var avx2 = kernels{
	f32: func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int) {
		avx2FloatRows(&avx2F32, acc, accStride, w, 4*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	f32Then: func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int, next *float32) {
		ahead := uintptr(unsafe.Pointer(next)) - uintptr(unsafe.Pointer(&w[0]))
		avx2FloatRows(&avx2F32, acc, accStride, w, 4*wStride, blocks, x, xStride, rows, k, ahead)
	},
	bf16Then: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int, next *uint16) {
		ahead := uintptr(unsafe.Pointer(next)) - uintptr(unsafe.Pointer(&w[0]))
		avx2FloatRows(&avx2BF16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, ahead)
	},
	f16: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
		avx2FloatRows(&avx2F16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	bf16: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
		avx2FloatRows(&avx2BF16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	q8_0: func(q *quantArgs) { quantRows(avx2Q8_0, q) },
	q4_0: func(q *quantArgs) { quantRows(avx2Q4_0, q) },
	q4_1: func(q *quantArgs) { quantRows(avx2Q4_1, q) },
	unpackQ8_0: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx2UnpackQ8_0(&dst[0], &data[0], &scale[0], groups)
	},
	unpackQ4_0: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx2UnpackQ4_0(&dst[0], &data[0], &scale[0], groups)
	},
	unpackQ4_1: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx2UnpackQ4_1(&dst[0], &data[0], &scale[0], groups)
	},
	high:         avx2High,
	widenF16:     func(dst []float32, src []uint16) { avx2WidenF16(&dst[0], &src[0], len(dst)/lanes) },
	widenBF16:    func(dst []float32, src []uint16) { avx2WidenBF16(&dst[0], &src[0], len(dst)/lanes) },
	int8:         genericINT8,
	int8Outliers: genericINT8Outliers,
	unpackINT8:   genericUnpackINT8,
	quantiseRow:  genericQuantiseRow,
	nf4:          genericNF4,
	unpackNF4:    genericUnpackNF4,
	quantise: func(q []quantGroup, x []float32) {
		avx2Quantise((*byte)(unsafe.Pointer(&q[0])), &x[0], len(q))
	},
	rmsNorm: func(dst, src, gain []float32, eps float32) {
		avx2RMSNorm(&dst[0], &src[0], &gain[0], len(src), eps)
	},
	layerNorm: func(dst, src, gain, bias []float32, eps float32) {
		avx2LayerNorm(&dst[0], &src[0], &gain[0], unsafe.SliceData(bias), len(src), eps)
	},
	softmax: func(s []float32, scale float32) (m, l float32) { return avx2Softmax(&s[0], len(s), scale) },
	softcap: func(x []float32, limit float32) { avx2Softcap(&x[0], len(x), limit) },
	blend:   func(o, p []float32, a, b float32) { avx2Blend(&o[0], &p[0], len(o), a, b) },
	scale:   func(dst, src []float32, f float32) { avx2Scale(&dst[0], &src[0], len(dst), f) },

	add:      func(dst, a, b []float32) { avx2Add(&dst[0], &a[0], &b[0], len(dst)) },
	mul:      func(dst, a, b []float32) { avx2Mul(&dst[0], &a[0], &b[0], len(dst)) },
	silu:     func(x []float32) { avx2SiLU(&x[0], len(x)) },
	gelu:     func(x []float32) { avx2GELU(&x[0], len(x)) },
	geluTanh: func(x []float32) { avx2GELUTanh(&x[0], len(x)) },
}

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
