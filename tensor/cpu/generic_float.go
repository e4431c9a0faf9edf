package cpu

import (
	"whorl/tensor/quant"
)

// generic is the tier in plain Go: always compiled, exact, and the twin of every other.
var generic = kernels{
	f32:        genericF32,
	f32Then:    genericF32Then,
	bf16Then:   genericBF16Then,
	f16:        genericF16,
	bf16:       genericBF16,
	eightRows:  maxTileRows,
	q8_0:       genericQ8_0,
	q4_0:       genericQ4_0,
	q4_1:       genericQ4_1,
	unpackQ8_0: genericUnpackQ8_0,
	unpackQ4_0: genericUnpackQ4_0,
	unpackQ4_1: genericUnpackQ4_1,
	high:       genericHigh,
	bytePanel:  genericBytePanel,
	expandQ8_0: genericExpandQ8_0,
	expandQ4_0: genericExpandQ4_0,
	expandQ4_1: genericExpandQ4_1,
	widenF16:   genericWidenF16,
	widenBF16:  genericWidenBF16,
	quantise:   genericQuantise,

	int8:         genericINT8,
	int8Outliers: genericINT8Outliers,
	unpackINT8:   genericUnpackINT8,
	quantiseRow:  genericQuantiseRow,
	nf4:          genericNF4,
	nf4Panel:     genericNF4Panel,
	unpackNF4:    genericUnpackNF4,

	rmsNorm:   genericRMSNorm,
	layerNorm: genericLayerNorm,
	softmax:   genericSoftmax,
	softcap:   genericSoftcap,
	blend:     genericBlend,
	scale:     genericScale,
	add:       genericAdd,
	mul:       genericMul,
	silu:      genericSiLU,
	gelu:      genericGELU,
	geluTanh:  genericGELUTanh,
}

func genericF32(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int) {
	for b := range blocks {
		for r := range rows {
			a := (*[lanes]float32)(acc[r*accStride+b*lanes:])
			wb := w[b*wStride:]
			for i, v := range x[r*xStride : r*xStride+k] {
				fmaLanes(a, (*[lanes]float32)(wb[i*lanes:]), v)
			}
		}
	}
}

func genericF32Then(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int, _ *float32) {
	genericF32(acc, accStride, w, wStride, blocks, x, xStride, rows, k)
}

// genericHalf widens the weights of one column at a time; widening is exact.
func genericHalf(widen func(uint16) float32, acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
	var wk [lanes]float32
	for b := range blocks {
		for i := range k {
			for j, h := range w[b*wStride+i*lanes:][:lanes] {
				wk[j] = widen(h)
			}
			for r := range rows {
				fmaLanes((*[lanes]float32)(acc[r*accStride+b*lanes:]), &wk, x[r*xStride+i])
			}
		}
	}
}

func genericF16(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
	genericHalf(quant.F16ToF32, acc, accStride, w, wStride, blocks, x, xStride, rows, k)
}

func genericBF16(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
	genericHalf(quant.BF16ToF32, acc, accStride, w, wStride, blocks, x, xStride, rows, k)
}

func genericBF16Then(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int, _ *uint16) {
	genericBF16(acc, accStride, w, wStride, blocks, x, xStride, rows, k)
}
