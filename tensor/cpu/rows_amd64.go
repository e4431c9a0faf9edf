//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"whorl/tensor/quant"
)

// Kernels in assembly take a fixed number of rows and blocks. Here is how rows are shared
// out among those of a tier.

// byRows are kernels of one product: over runs of four blocks, whose sums hide each other's
// latency, for few rows; over pairs; and over single blocks, for rows that fill the
// registers so.
type byRows[K any] struct {
	quads   []K // from 1 row on
	pairs   []K // from 1 row on
	singles []K // for more rows than pairs
}

// most is how many rows a kernel takes at most.
func (f *byRows[K]) most() int { return len(f.pairs) + len(f.singles) }

// pick gives the kernel for so many rows and blocks, and how many runs of blocks these are.
func (f *byRows[K]) pick(rows, blocks int) (kernel K, runs int) {
	switch {
	case rows <= len(f.quads) && blocks%4 == 0:
		return f.quads[rows-1], blocks / 4
	case rows <= len(f.pairs):
		return f.pairs[rows-1], blocks / 2
	}
	return f.singles[rows-len(f.pairs)-1], blocks
}

// floatRows is a kernel of float products; its strides are in bytes.
type floatRows[T float32 | uint16] = func(acc *float32, accStride uintptr, w *T, wStride uintptr, n int, x *float32, xStride uintptr, k int, ahead uintptr)

// floatAhead is how many bytes before their use weights are asked for, in each of the
// streams of blocks.
const floatAhead = 2048

func floatProducts[T float32 | uint16](f byRows[floatRows[T]]) floatKernel[T] {
	return func(acc []float32, accStride int, w []T, wStride, blocks int, x []float32, xStride, rows, k int, next *T) {
		ahead := uintptr(floatAhead)
		if next != nil {
			ahead = uintptr(unsafe.Pointer(next)) - uintptr(unsafe.Pointer(&w[0]))
		}
		together := equalParts(rows, f.most())
		for r := 0; r < rows; r += together {
			n := min(rows-r, together)
			kernel, runs := f.pick(n, blocks)
			kernel(&acc[r*accStride], uintptr(4*accStride), &w[0], uintptr(wStride)*unsafe.Sizeof(w[0]), runs, &x[r*xStride], uintptr(4*xStride), k, ahead)
		}
	}
}

// halvesOf makes the kernels of a format of 16-bit floats.
func halvesOf(products byRows[floatRows[uint16]], widen func(dst *float32, src *uint16, n int)) halfKernels {
	return halfKernels{
		product: floatProducts(products),
		widen:   func(dst []float32, src []uint16) { widen(&dst[0], &src[0], len(dst)/lanes) },
	}
}

// groupRows are kernels of quantised products by rows, from 1.
type groupRows = []func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int)

// aheadRows are such kernels that are told what to ask for.
type aheadRows = []func(acc *float32, accStride uintptr, data *byte, scale *uint16, blocks int, x *byte, xStride uintptr, groups int, ahead, scaleAhead uintptr)

// groupsOf makes the kernels of a format of those in assembly; expand may be nil.
func groupsOf(products groupRows, unpack func(dst *float32, data *byte, scale *uint16, groups int), expand func(dst, data *byte, scale *uint16, groups int)) groupKernels {
	k := groupKernels{
		product: func(q *quantArgs) {
			together := equalParts(q.rows, len(products))
			for r := 0; r < q.rows; r += together {
				n := min(q.rows-r, together)
				products[n-1](&q.acc[r*q.accStride], uintptr(4*q.accStride), &q.data[0], &q.scale[0], q.blocks,
					(*byte)(unsafe.Pointer(&q.x[r*q.groups])), uintptr(q.groups)*unsafe.Sizeof(quantGroup{}), q.groups)
			}
		},
		unpack: func(dst []float32, data []byte, scale []uint16, groups int) {
			unpack(&dst[0], &data[0], &scale[0], groups)
		},
	}
	if expand != nil {
		k.expand = func(dst []panelGroup, data []byte, scale []uint16, groups int) {
			expand(bytesOf(dst), &data[0], &scale[0], groups)
		}
	}
	return k
}

// groupsAhead is how many groups before their use values and scales are asked for.
const groupsAhead = 32

// groupsAheadOf is groupsOf for kernels that are told what to ask for. Where rows take turns
// on the same blocks, all but the first find these in the cache and ask for what follows.
func groupsAheadOf(l layout, products aheadRows, unpack func(dst *float32, data *byte, scale *uint16, groups int), expand func(dst, data *byte, scale *uint16, groups int)) groupKernels {
	k := groupsOf(nil, unpack, expand)
	bytes, scaleBytes := l.size(group)
	line, scale := uintptr(bytes), uintptr(scaleBytes)
	k.product = func(q *quantArgs) {
		together, ahead := equalParts(q.rows, len(products)), uintptr(groupsAhead)
		for r := 0; r < q.rows; r += together {
			n := min(q.rows-r, together)
			products[n-1](&q.acc[r*q.accStride], uintptr(4*q.accStride), &q.data[0], &q.scale[0], q.blocks,
				(*byte)(unsafe.Pointer(&q.x[r*q.groups])), uintptr(q.groups)*unsafe.Sizeof(quantGroup{}), q.groups,
				ahead*line, ahead*scale)
			ahead = uintptr(q.blocks * q.groups)
		}
	}
	return k
}

// panelRows are kernels of products with panels of bytes, by rows, from 1.
type panelRows = []func(acc *float32, accStride uintptr, panel *byte, x *byte, xStride uintptr, groups, times int, out *float32, outStride uintptr, add bool)

func panelProducts(forms []panelRows) func(a *panelArgs) {
	return func(a *panelArgs) {
		kernels := forms[a.form]
		together := equalParts(a.rows, len(kernels))
		for r := 0; r < a.rows; {
			n := min(a.rows-r, together)
			times := (a.rows - r) / n
			kernels[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), bytesOf(a.panel), (*byte)(unsafe.Pointer(&a.x[r*a.xStride])),
				uintptr(a.xStride)*unsafe.Sizeof(quantGroup{}), len(a.panel)/2, times, &a.out[r*a.outStride], uintptr(4*a.outStride), a.add)
			r += n * times
		}
	}
}

func bytesOf(panel []panelGroup) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(panel))) }

type int8Kernel = func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, q *int8, qStride uintptr, rows *byte, turns int)

func int8Products(f byRows[int8Kernel]) func(a *int8Args) {
	return func(a *int8Args) {
		together := equalParts(len(a.rows), f.most())
		for r := 0; r < len(a.rows); r += together {
			kernel, runs := f.pick(min(together, len(a.rows)-r), a.blocks)
			kernel(&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], runs,
				&a.q[r*a.cols], uintptr(a.cols), (*byte)(unsafe.Pointer(&a.rows[r])), a.cols/int8Pad)
		}
	}
}

type nf4Kernel = func(acc *float32, accStride uintptr, data *byte, scale *float32, n int, x *float32, xStride uintptr, groups int, levels *float32)

func nf4Products(f byRows[nf4Kernel]) func(a *nf4Args) {
	return func(a *nf4Args) {
		together := equalParts(a.rows, f.most())
		for r := 0; r < a.rows; r += together {
			kernel, runs := f.pick(min(together, a.rows-r), a.blocks)
			kernel(&a.acc[r*a.accStride], uintptr(4*a.accStride), &a.data[0], &a.scale[0], runs,
				&a.x[r*a.xStride], uintptr(4*a.xStride), a.groups, &quant.NF4Levels[0])
		}
	}
}
