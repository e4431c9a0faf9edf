//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// avx2 is the tier in assembly for AVX2, FMA and F16C. Rows meet weights as they are stored:
// bytes of a panel would first have to be widened.
var avx2 = kernels{
	f32: floatProducts(byRows[floatRows[float32]]{avx2F32x4, avx2F32x2, avx2F32x1}),
	halves: []halfKernels{
		tensor.F16:  halvesOf(byRows[floatRows[uint16]]{avx2F16x4, avx2F16x2, avx2F16x1}, avx2WidenF16),
		tensor.BF16: halvesOf(byRows[floatRows[uint16]]{avx2BF16x4, avx2BF16x2, avx2BF16x1}, avx2WidenBF16),
	},
	opaque: true,
	groups: []groupKernels{
		tensor.Q8_0: groupsOf(avx2Q8_0, avx2UnpackQ8_0, nil),
		tensor.Q4_0: groupsOf(avx2Q4_0, avx2UnpackQ4_0, nil),
		tensor.Q4_1: groupsOf(avx2Q4_1, avx2UnpackQ4_1, nil),
		tensor.Q5_0: groupsOf(avx2Q5_0, avx2UnpackQ5_0, nil),
		tensor.Q4_K: groupsOf(avx2Q4_K, avx2UnpackQ4_K, nil),
		tensor.Q5_K: groupsOf(avx2Q5_K, avx2UnpackQ5_K, nil),
		tensor.Q6_K: groupsOf(avx2Q6_K, avx2UnpackQ6_K, nil),
	},
	eightRows: maxTileRows,
	int8:      int8Products(byRows[int8Kernel]{singles: avx2INT8}),
	int8Outliers: func(acc []float32, data []byte, scale, x []float32, cols []int32) {
		avx2INT8Outliers(&acc[0], &data[0], &scale[0], &x[0], &cols[0], len(cols))
	},
	unpackINT8: func(dst []float32, data []byte, scale []float32, cols int) {
		avx2UnpackINT8(&dst[0], &data[0], &scale[0], cols/4)
	},
	quantiseRow: func(row *int8Row, q []int8, outlier []int32, x []float32) {
		avx2QuantiseRow((*byte)(unsafe.Pointer(row)), &q[0], &outlier[0], &x[0], len(x))
	},
	nf4: nf4Products(byRows[nf4Kernel]{singles: avx2NF4}),
	nf4Panel: func(a *nf4PanelArgs) {
		together := equalParts(a.rows, len(avx2NF4Panel))
		for r := 0; r < a.rows; r += together {
			n := min(together, a.rows-r)
			for b := range 2 {
				avx2NF4Panel[n-1](&a.acc[r*a.accStride+b*lanes], uintptr(4*a.accStride), &a.panel[b*a.groups*nf4Group*lanes],
					&a.scale[b*a.scaleStride], &a.x[r*a.xStride], uintptr(4*a.xStride), a.groups)
			}
		}
	},
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
	round:   func(x []float32) { avx2Round(&x[0], len(x)) },

	add:      func(dst, a, b []float32) { avx2Add(&dst[0], &a[0], &b[0], len(dst)) },
	mul:      func(dst, a, b []float32) { avx2Mul(&dst[0], &a[0], &b[0], len(dst)) },
	silu:     func(x []float32) { avx2SiLU(&x[0], len(x)) },
	gelu:     func(x []float32) { avx2GELU(&x[0], len(x)) },
	geluTanh: func(x []float32) { avx2GELUTanh(&x[0], len(x)) },

	siluSlope:     func(x []float32) { avx2SiLUSlope(&x[0], len(x)) },
	geluSlope:     func(x []float32) { avx2GELUSlope(&x[0], len(x)) },
	geluTanhSlope: func(x []float32) { avx2GELUTanhSlope(&x[0], len(x)) },
	rmsNormBack: func(dst, src, dy, gain []float32, eps float32) {
		avx2RMSNormBack(&dst[0], &src[0], &dy[0], &gain[0], len(src), eps)
	},
	layerNormBack: func(dst, src, dy, gain []float32, eps float32) {
		avx2LayerNormBack(&dst[0], &src[0], &dy[0], &gain[0], len(src), eps)
	},
	weigh: func(x, dp []float32, m, inv, d, scale, limit float32) {
		if limit != 0 {
			avx2WeighCapped(&x[0], &dp[0], len(x), m, inv, d, scale, limit)
		} else {
			avx2Weigh(&x[0], &dp[0], len(x), m, inv, d, scale)
		}
	},
	dot: func(a, b []float32) float32 { return avx2Inner(&a[0], &b[0], len(a)) },
	turn: func(dst []float32, dstStride int, src []float32, srcStride int) {
		_, _ = dst[15*dstStride+15], src[15*srcStride+15]
		avx2Turn(&dst[0], uintptr(4*dstStride), &src[0], uintptr(4*srcStride))
	},
}
