//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor/quant"
)

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
	opaque:    true,
	eightRows: maxTileRows,

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
	high:      avx2High,
	widenF16:  func(dst []float32, src []uint16) { avx2WidenF16(&dst[0], &src[0], len(dst)/lanes) },
	widenBF16: func(dst []float32, src []uint16) { avx2WidenBF16(&dst[0], &src[0], len(dst)/lanes) },
	int8:      avx2INT8Products,
	int8Outliers: func(acc []float32, data []byte, scale, x []float32, cols []int32) {
		avx2INT8Outliers(&acc[0], &data[0], &scale[0], &x[0], &cols[0], len(cols))
	},
	unpackINT8: func(dst []float32, data []byte, scale []float32, cols int) {
		avx2UnpackINT8(&dst[0], &data[0], &scale[0], cols/4)
	},
	quantiseRow: func(row *int8Row, q []int8, outlier []int32, x []float32) {
		avx2QuantiseRow((*byte)(unsafe.Pointer(row)), &q[0], &outlier[0], &x[0], len(x))
	},
	nf4:      avx2NF4Products,
	nf4Panel: avx2NF4PanelProducts,
	unpackNF4: func(dst []float32, data []byte, lines int) {
		avx2UnpackNF4(&dst[0], &data[0], lines, &quant.NF4Levels[0])
	},
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
