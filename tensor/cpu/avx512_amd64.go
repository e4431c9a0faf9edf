//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor/quant"
)

// avx512 is the tier in assembly for AVX-512 with byte dot products (F, BW, VL, DQ, VNNI).
var avx512 = kernels{
	f32: func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int) {
		floatRows(&avx512F32, acc, accStride, w, 4*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	f32Then: func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int, next *float32) {
		ahead := uintptr(unsafe.Pointer(next)) - uintptr(unsafe.Pointer(&w[0]))
		floatRows(&avx512F32, acc, accStride, w, 4*wStride, blocks, x, xStride, rows, k, ahead)
	},
	bf16Then: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int, next *uint16) {
		ahead := uintptr(unsafe.Pointer(next)) - uintptr(unsafe.Pointer(&w[0]))
		floatRows(&avx512BF16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, ahead)
	},
	f16: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
		floatRows(&avx512F16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	bf16: func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int) {
		floatRows(&avx512BF16, acc, accStride, w, 2*wStride, blocks, x, xStride, rows, k, floatAhead)
	},
	opaque:    true,
	eightRows: wideTileRows,

	q8_0: func(q *quantArgs) { groupRows(&avx512Q8_0, q) },
	q4_0: func(q *quantArgs) { groupRows(&avx512Q4_0, q) },
	q4_1: func(q *quantArgs) { groupRows(&avx512Q4_1, q) },
	unpackQ8_0: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx512UnpackQ8_0(&dst[0], &data[0], &scale[0], groups)
	},
	unpackQ4_0: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx512UnpackQ4_0(&dst[0], &data[0], &scale[0], groups)
	},
	unpackQ4_1: func(dst []float32, data []byte, scale []uint16, groups int) {
		avx512UnpackQ4_1(&dst[0], &data[0], &scale[0], groups)
	},
	high:      avx512High,
	bytePanel: avx512BytePanel,
	expandQ8_0: func(dst []panelGroup, data []byte, scale []uint16, groups int) {
		avx512ExpandQ8_0(bytesOf(dst), &data[0], &scale[0], groups)
	},
	expandQ4_0: func(dst []panelGroup, data []byte, scale []uint16, groups int) {
		avx512ExpandQ4_0(bytesOf(dst), &data[0], &scale[0], groups)
	},
	expandQ4_1: func(dst []panelGroup, data []byte, scale []uint16, groups int) {
		avx512ExpandQ4_1(bytesOf(dst), &data[0], &scale[0], groups)
	},
	widenF16:  func(dst []float32, src []uint16) { avx512WidenF16(&dst[0], &src[0], len(dst)/lanes) },
	widenBF16: func(dst []float32, src []uint16) { avx512WidenBF16(&dst[0], &src[0], len(dst)/lanes) },
	int8:      int8Products,
	int8Outliers: func(acc []float32, data []byte, scale, x []float32, cols []int32) {
		avx512INT8Outliers(&acc[0], &data[0], &scale[0], &x[0], &cols[0], len(cols))
	},
	unpackINT8: func(dst []float32, data []byte, scale []float32, cols int) {
		avx512UnpackINT8(&dst[0], &data[0], &scale[0], cols/4)
	},
	quantiseRow: quantiseINT8Row,
	nf4:         nf4Products,
	nf4Panel:    nf4PanelProducts,
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

	add:      func(dst, a, b []float32) { avx512Add(&dst[0], &a[0], &b[0], len(dst)) },
	mul:      func(dst, a, b []float32) { avx512Mul(&dst[0], &a[0], &b[0], len(dst)) },
	silu:     func(x []float32) { avx512SiLU(&x[0], len(x)) },
	gelu:     func(x []float32) { avx512GELU(&x[0], len(x)) },
	geluTanh: func(x []float32) { avx512GELUTanh(&x[0], len(x)) },
}

// floatKernels holds the kernels of one float format by rows, from 1.
type floatKernels[T float32 | uint16] struct {
	pairs [maxTileRows]func(acc *float32, accStride uintptr, w *T, wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)
	quads [3]func(acc *float32, accStride uintptr, w *T, wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)
}

var (
	avx512F32 = floatKernels[float32]{
		pairs: [...]func(*float32, uintptr, *float32, uintptr, int, *float32, uintptr, int, uintptr){
			avx512F32x1x2, avx512F32x2x2, avx512F32x3x2, avx512F32x4x2, avx512F32x5x2, avx512F32x6x2,
			avx512F32x7x2, avx512F32x8x2, avx512F32x9x2, avx512F32x10x2, avx512F32x11x2, avx512F32x12x2,
		},
		quads: [...]func(*float32, uintptr, *float32, uintptr, int, *float32, uintptr, int, uintptr){
			avx512F32x1x4, avx512F32x2x4, avx512F32x3x4,
		},
	}
	avx512F16 = floatKernels[uint16]{
		pairs: [...]func(*float32, uintptr, *uint16, uintptr, int, *float32, uintptr, int, uintptr){
			avx512F16x1x2, avx512F16x2x2, avx512F16x3x2, avx512F16x4x2, avx512F16x5x2, avx512F16x6x2,
			avx512F16x7x2, avx512F16x8x2, avx512F16x9x2, avx512F16x10x2, avx512F16x11x2, avx512F16x12x2,
		},
		quads: [...]func(*float32, uintptr, *uint16, uintptr, int, *float32, uintptr, int, uintptr){
			avx512F16x1x4, avx512F16x2x4, avx512F16x3x4,
		},
	}
	avx512BF16 = floatKernels[uint16]{
		pairs: [...]func(*float32, uintptr, *uint16, uintptr, int, *float32, uintptr, int, uintptr){
			avx512BF16x1x2, avx512BF16x2x2, avx512BF16x3x2, avx512BF16x4x2, avx512BF16x5x2, avx512BF16x6x2,
			avx512BF16x7x2, avx512BF16x8x2, avx512BF16x9x2, avx512BF16x10x2, avx512BF16x11x2, avx512BF16x12x2,
		},
		quads: [...]func(*float32, uintptr, *uint16, uintptr, int, *float32, uintptr, int, uintptr){
			avx512BF16x1x4, avx512BF16x2x4, avx512BF16x3x4,
		},
	}
)

// floatAhead is how many bytes before their use weights are asked for, in each of the
// streams of blocks.
const floatAhead = 2048

// floatRows cuts the rows to the kernels at hand. wStride and ahead are in bytes, the
// others in floats.
func floatRows[T float32 | uint16](f *floatKernels[T], acc []float32, accStride int, w []T, wStride, blocks int, x []float32, xStride, rows, k int, ahead uintptr) {
	together := equalParts(rows, maxTileRows)
	for r := 0; r < rows; {
		n := min(rows-r, together)
		a, xr := &acc[r*accStride], &x[r*xStride]
		if n <= len(f.quads) && blocks%4 == 0 {
			f.quads[n-1](a, uintptr(4*accStride), &w[0], uintptr(wStride), blocks/4, xr, uintptr(4*xStride), k, ahead)
		} else {
			f.pairs[n-1](a, uintptr(4*accStride), &w[0], uintptr(wStride), blocks/2, xr, uintptr(4*xStride), k, ahead)
		}
		r += n
	}
}

// quantKernels holds the kernels of one quantised format by rows, from 1.
type quantKernels []func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int)

// groupKernels holds the kernels of a format without super-blocks by rows, from 1.
type groupKernels struct {
	line, scale int // bytes of a group
	rows        [wideTileRows]groupKernel
}

type groupKernel = func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int, ahead, scaleAhead uintptr)

var (
	avx512Q8_0 = groupKernels{512, 32, [...]groupKernel{
		avx512Q8_0x1, avx512Q8_0x2, avx512Q8_0x3, avx512Q8_0x4, avx512Q8_0x5, avx512Q8_0x6,
		avx512Q8_0x7, avx512Q8_0x8, avx512Q8_0x9, avx512Q8_0x10, avx512Q8_0x11, avx512Q8_0x12,
		avx512Q8_0x13, avx512Q8_0x14, avx512Q8_0x15, avx512Q8_0x16,
	}}
	avx512Q4_0 = groupKernels{256, 32, [...]groupKernel{
		avx512Q4_0x1, avx512Q4_0x2, avx512Q4_0x3, avx512Q4_0x4, avx512Q4_0x5, avx512Q4_0x6,
		avx512Q4_0x7, avx512Q4_0x8, avx512Q4_0x9, avx512Q4_0x10, avx512Q4_0x11, avx512Q4_0x12,
		avx512Q4_0x13, avx512Q4_0x14, avx512Q4_0x15, avx512Q4_0x16,
	}}
	avx512Q4_1 = groupKernels{256, 64, [...]groupKernel{
		avx512Q4_1x1, avx512Q4_1x2, avx512Q4_1x3, avx512Q4_1x4, avx512Q4_1x5, avx512Q4_1x6,
		avx512Q4_1x7, avx512Q4_1x8, avx512Q4_1x9, avx512Q4_1x10, avx512Q4_1x11, avx512Q4_1x12,
		avx512Q4_1x13, avx512Q4_1x14, avx512Q4_1x15, avx512Q4_1x16,
	}}
)

// groupsAhead is how many groups before their use values and scales are asked for.
const groupsAhead = 32

// groupRows is quantRows for kernels that are told what to ask for. Where rows take turns on
// the same blocks, all but the first find these in the cache and ask for what follows.
func groupRows(f *groupKernels, q *quantArgs) {
	together, ahead := equalParts(q.rows, wideTileRows), groupsAhead
	for r := 0; r < q.rows; {
		n := min(q.rows-r, together)
		f.rows[n-1](&q.acc[r*q.accStride], uintptr(4*q.accStride), &q.data[0], &q.scale[0], q.blocks,
			(*byte)(unsafe.Pointer(&q.x[r*q.groups])), uintptr(q.groups)*unsafe.Sizeof(quantGroup{}), q.groups,
			uintptr(ahead*f.line), uintptr(ahead*f.scale))
		r += n
		ahead = q.blocks * q.groups
	}
}

func quantRows(f quantKernels, q *quantArgs) {
	together := equalParts(q.rows, len(f))
	for r := 0; r < q.rows; {
		n := min(q.rows-r, together)
		f[n-1](&q.acc[r*q.accStride], uintptr(4*q.accStride), &q.data[0], &q.scale[0], q.blocks,
			(*byte)(unsafe.Pointer(&q.x[r*q.groups])), uintptr(q.groups)*unsafe.Sizeof(quantGroup{}), q.groups)
		r += n
	}
}
