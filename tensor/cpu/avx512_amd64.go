//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// avx512 is the tier in assembly for AVX-512 with byte dot products (F, BW, VL, DQ, VNNI).
var avx512 = kernels{
	f32: floatProducts(byRows[floatRows[float32]]{quads: avx512F32x4, pairs: avx512F32x2}),
	halves: []halfKernels{
		tensor.F16:  halvesOf(byRows[floatRows[uint16]]{quads: avx512F16x4, pairs: avx512F16x2}, avx512WidenF16),
		tensor.BF16: halvesOf(byRows[floatRows[uint16]]{quads: avx512BF16x4, pairs: avx512BF16x2}, avx512WidenBF16),
	},
	opaque: true,
	groups: []groupKernels{
		tensor.Q8_0: groupsAheadOf(layouts[tensor.Q8_0], avx512Q8_0, avx512UnpackQ8_0, avx512ExpandQ8_0),
		tensor.Q4_0: groupsAheadOf(layouts[tensor.Q4_0], avx512Q4_0, avx512UnpackQ4_0, avx512ExpandQ4_0),
		tensor.Q4_1: groupsAheadOf(layouts[tensor.Q4_1], avx512Q4_1, avx512UnpackQ4_1, avx512ExpandQ4_1),
		tensor.Q5_0: groupsOf(avx512Q5_0, avx512UnpackQ5_0, avx512ExpandQ5_0),
		tensor.Q4_K: groupsOf(avx512Q4_K, avx512UnpackQ4_K, avx512ExpandQ4_K),
		tensor.Q5_K: groupsOf(avx512Q5_K, avx512UnpackQ5_K, avx512ExpandQ5_K),
		tensor.Q6_K: groupsOf(avx512Q6_K, avx512UnpackQ6_K, avx512ExpandQ6_K),
	},
	eightRows: wideTileRows,
	bytePanel: panelProducts([]panelRows{plainPanel: avx512Panel, minimumPanel: avx512PanelMinimum, halfPanel: avx512PanelHalves}),
	int8:      int8Products(byRows[int8Kernel]{pairs: avx512INT8}),
	int8Outliers: func(acc []float32, data []byte, scale, x []float32, cols []int32) {
		avx512INT8Outliers(&acc[0], &data[0], &scale[0], &x[0], &cols[0], len(cols))
	},
	unpackINT8: func(dst []float32, data []byte, scale []float32, cols int) {
		avx512UnpackINT8(&dst[0], &data[0], &scale[0], cols/4)
	},
	quantiseRow: func(row *int8Row, q []int8, outlier []int32, x []float32) {
		avx512QuantiseRow((*byte)(unsafe.Pointer(row)), &q[0], &outlier[0], &x[0], len(x))
	},
	nf4: nf4Products(byRows[nf4Kernel]{quads: avx512NF4x4, pairs: avx512NF4x2}),
	nf4Panel: func(a *nf4PanelArgs) {
		together := equalParts(a.rows, len(avx512NF4Panel))
		for r := 0; r < a.rows; r += together {
			n := min(together, a.rows-r)
			avx512NF4Panel[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.panel[0], uintptr(4*a.groups*nf4Group*lanes),
				&a.scale[0], uintptr(4*a.scaleStride), &a.x[r*a.xStride], uintptr(4*a.xStride), a.groups)
		}
	},
	unpackNF4: func(dst []float32, data []byte, lines int) {
		avx512UnpackNF4(&dst[0], &data[0], lines, &quant.NF4Levels[0])
	},
	quantise: func(q []quantGroup, x []float32) {
		avx512Quantise((*byte)(unsafe.Pointer(&q[0])), &x[0], len(q))
	},
	rmsNorm: func(dst, src, gain []float32, eps float32) {
		avx512RMSNorm(&dst[0], &src[0], &gain[0], len(src), eps)
	},
	layerNorm: func(dst, src, gain, bias []float32, eps float32) {
		avx512LayerNorm(&dst[0], &src[0], &gain[0], unsafe.SliceData(bias), len(src), eps)
	},
	softmax: func(s []float32, scale float32) (m, l float32) { return avx512Softmax(&s[0], len(s), scale) },
	softcap: func(x []float32, limit float32) { avx512Softcap(&x[0], len(x), limit) },
	blend:   func(o, p []float32, a, b float32) { avx512Blend(&o[0], &p[0], len(o), a, b) },
	scale:   func(dst, src []float32, f float32) { avx512Scale(&dst[0], &src[0], len(dst), f) },
	round:   func(x []float32) { avx512Round(&x[0], len(x)) },

	add:      func(dst, a, b []float32) { avx512Add(&dst[0], &a[0], &b[0], len(dst)) },
	mul:      func(dst, a, b []float32) { avx512Mul(&dst[0], &a[0], &b[0], len(dst)) },
	silu:     func(x []float32) { avx512SiLU(&x[0], len(x)) },
	gelu:     func(x []float32) { avx512GELU(&x[0], len(x)) },
	geluTanh: func(x []float32) { avx512GELUTanh(&x[0], len(x)) },

	siluSlope:     func(x []float32) { avx512SiLUSlope(&x[0], len(x)) },
	geluSlope:     func(x []float32) { avx512GELUSlope(&x[0], len(x)) },
	geluTanhSlope: func(x []float32) { avx512GELUTanhSlope(&x[0], len(x)) },
	rmsNormBack: func(dst, src, dy, gain []float32, eps float32) {
		avx512RMSNormBack(&dst[0], &src[0], &dy[0], &gain[0], len(src), eps)
	},
	layerNormBack: func(dst, src, dy, gain []float32, eps float32) {
		avx512LayerNormBack(&dst[0], &src[0], &dy[0], &gain[0], len(src), eps)
	},
	weigh: func(x, dp []float32, m, inv, d, scale, limit float32) {
		if limit != 0 {
			avx512WeighCapped(&x[0], &dp[0], len(x), m, inv, d, scale, limit)
		} else {
			avx512Weigh(&x[0], &dp[0], len(x), m, inv, d, scale)
		}
	},
	dot: func(a, b []float32) float32 { return avx512Inner(&a[0], &b[0], len(a)) },
	turn: func(dst []float32, dstStride int, src []float32, srcStride int) {
		_, _ = dst[15*dstStride+15], src[15*srcStride+15]
		avx512Turn(&dst[0], uintptr(4*dstStride), &src[0], uintptr(4*srcStride))
	},
}
