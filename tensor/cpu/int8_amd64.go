//go:build amd64 && !purego

package cpu

import "unsafe"

// avx512INT8 holds the kernels of INT8 weights by rows, from 1.
var avx512INT8 = [maxTileRows]func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, q *int8, qStride uintptr, rows *byte, turns int){
	avx512INT8x1, avx512INT8x2, avx512INT8x3, avx512INT8x4, avx512INT8x5, avx512INT8x6,
	avx512INT8x7, avx512INT8x8, avx512INT8x9, avx512INT8x10, avx512INT8x11, avx512INT8x12,
}

func int8Products(a *int8Args) {
	together := equalParts(len(a.rows), maxTileRows)
	for r := 0; r < len(a.rows); r += together {
		n := min(together, len(a.rows)-r)
		avx512INT8[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], a.blocks/2,
			&a.q[r*a.cols], uintptr(a.cols), (*byte)(unsafe.Pointer(&a.rows[r])), a.cols/int8Pad)
	}
}

func quantiseINT8Row(row *int8Row, q []int8, outlier []int32, x []float32) {
	avx512QuantiseRow((*byte)(unsafe.Pointer(row)), &q[0], &outlier[0], &x[0], len(x))
}
