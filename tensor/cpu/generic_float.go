package cpu

import (
	"whorl/tensor"
	"whorl/tensor/quant"
)

// generic is the tier in plain Go: always compiled, exact, and the twin of every other.
var generic = kernels{
	f32: genericF32,
	halves: []halfKernels{
		tensor.F16:  genericHalf(quant.F16ToF32),
		tensor.BF16: genericHalf(quant.BF16ToF32),
	},
	groups:    genericGroups(),
	eightRows: maxTileRows,
	bytePanel: genericBytePanel,
	quantise:  genericQuantise,

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
	round:     genericRound,
	add:       genericAdd,
	mul:       genericMul,
	silu:      genericSiLU,
	gelu:      genericGELU,
	geluTanh:  genericGELUTanh,

	siluSlope:     genericSlope(tensor.SiLU),
	geluSlope:     genericSlope(tensor.GELU),
	geluTanhSlope: genericSlope(tensor.GELUTanh),
	dot:           genericDot,
	rmsNormBack:   genericRMSNormBack,
	layerNormBack: genericLayerNormBack,
	weigh:         genericWeigh,
	turn:          genericTurn,
}

func genericF32(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int, _ *float32) {
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

// genericHalf widens the weights of one column at a time; widening is exact.
func genericHalf(widen func(uint16) float32) halfKernels {
	return halfKernels{
		product: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int, _ *uint16) {
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
		},
		widen: func(dst []float32, src []uint16) {
			for i := range dst {
				dst[i] = widen(src[i])
			}
		},
	}
}
