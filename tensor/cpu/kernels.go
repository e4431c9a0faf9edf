package cpu

// lanes is the number of output rows in a block of the repacked layout.
const lanes = 16

// group is the number of columns that share a scale, in weights and in quantised rows.
const group = 32

// kernels is the table of inner loops that one tier supplies. They run on one thread and
// allocate nothing. All tiers give the same bits (package tensor, "One arithmetic").
type kernels struct {
	// f32 continues float products with F32 weights, halves those with formats of 16-bit
	// floats, by their data types.
	f32    floatKernel[float32]
	halves []halfKernels

	// opaque tells that products are in assembly: a tile then takes less time than waiting for
	// its thread does, and may read rows that others have begun to write.
	opaque bool

	// groups are the kernels of formats with a quantised product, by their data types.
	groups []groupKernels

	// eightRows is how many rows the kernels of quantised products take at once; more take
	// turns at the same blocks.
	eightRows int

	// bytePanel continues quantised products with a panel (panel.go). A tier may have none.
	bytePanel func(a *panelArgs)

	// int8 sets products of INT8 weights, int8Outliers continues those of one row and block
	// over the outlier columns, unpackINT8 dequantises columns, a multiple of 4, of a block.
	int8         func(a *int8Args)
	int8Outliers func(acc []float32, data []byte, scale, x []float32, cols []int32)
	unpackINT8   func(dst []float32, data []byte, scale []float32, cols int)
	// quantiseRow fills a row of the form for them; q is padded, outlier as long as x.
	quantiseRow func(row *int8Row, q []int8, outlier []int32, x []float32)

	// nf4 continues products of NF4 weights, nf4Panel those of a panel of levels, which
	// unpackNF4 looks up for lines of 8 columns of one block.
	nf4       func(a *nf4Args)
	nf4Panel  func(a *nf4PanelArgs)
	unpackNF4 func(dst []float32, data []byte, lines int)

	// quantise fills one row of quantised form; len(x) is 32*len(q).
	quantise func(q []quantGroup, x []float32)

	// rmsNorm and layerNorm normalise one group; dst may be src. bias may be nil.
	rmsNorm   func(dst, src, gain []float32, eps float32)
	layerNorm func(dst, src, gain, bias []float32, eps float32)

	// softmax turns scores s into exp(s*scale - m) and gives m and the sum.
	softmax func(s []float32, scale float32) (m, l float32)
	// softcap is x = limit*tanh(x/limit).
	softcap func(x []float32, limit float32)
	// blend is o = fma(o, a, p*b).
	blend func(o, p []float32, a, b float32)
	// scale is dst = src*f.
	scale func(dst, src []float32, f float32)
	// round rounds to bfloat16, in place.
	round func(x []float32)

	// add is dst = a+b, mul is dst = a*b; dst may be a or b.
	add, mul func(dst, a, b []float32)
	// silu, gelu and geluTanh work in place.
	silu, gelu, geluTanh func(x []float32)

	// Backward (package tensor): slopes replace x by the derivative of an activation.
	siluSlope, geluSlope, geluTanhSlope func(x []float32)
	// rmsNormBack and layerNormBack go back through one group; dst may be dy.
	rmsNormBack, layerNormBack func(dst, src, dy, gain []float32, eps float32)
	// dot is sum(a*b) in lanes; neither is empty.
	dot func(a, b []float32) float32
	// weigh turns scores x, not empty, into weights, and gradients dp by these into those by q·k.
	weigh func(x, dp []float32, m, inv, d, scale, limit float32)
	// turn transposes 16 rows of 16 numbers; the strides are of rows.
	turn func(dst []float32, dstStride int, src []float32, srcStride int)
}

// floatKernel continues float products: for every row r, block b and lane j,
//
//	acc[r*accStride+b*16+j] by fma over k of w[b*wStride+k*16+j], x[r*xStride+k]
//
// The number of blocks is even. Of a piece so short that reading ahead would pass its end,
// next tells what is read after it: as many weights; otherwise it is nil.
type floatKernel[T float32 | uint16] func(acc []float32, accStride int, w []T, wStride, blocks int, x []float32, xStride, rows, k int, next *T)

// halfKernels are those of a format of 16-bit floats.
type halfKernels struct {
	product floatKernel[uint16]
	widen   func(dst []float32, src []uint16) // len(dst), a multiple of 16, of them
}

// groupKernels are those of a format with a quantised product, on groups of one block; of
// formats with super-blocks these are whole ones.
type groupKernels struct {
	// product continues quantised products.
	product func(q *quantArgs)
	// unpack dequantises: dst is [groups*32][16].
	unpack func(dst []float32, data []byte, scale []uint16, groups int)
	// expand writes the form of a panel to every other group of dst. A tier may have none.
	expand func(dst []panelGroup, data []byte, scale []uint16, groups int)
}

// quantGroup is a group of a row of activations in 8 bits. The layout is known to the
// assembly (asm/quant.go).
type quantGroup struct {
	q    [group]int8
	d    float32 // value of a unit of q
	dsum float32 // d*sum(q)
	// What sums of products start with: biased, to which is added what undoes the unsigned
	// storage of weights: -128*sum(q), -8*sum(q), or -32*sum of the first half of q. The sum
	// over the second half has no bias.
	off8, off4 int32
	off32      [2]int32
}

// biased are the bits of rounder as a float32. A sum of integers of magnitude below 2^22 that
// starts with them has the bits of a float32 that is rounder greater. So one fma gives its
// exact value times a scale of up to 22 bits, rounded once:
// fma(rounder+s, scale, -rounder*scale), where a zero is positive.
const biased = 0x4b400000

// quantArgs describes a product of blocks of quantised weights with quantised rows:
// for every row r, block b and lane j, acc[r*accStride+b*16+j] continues over groups.
type quantArgs struct {
	acc       []float32
	accStride int
	data      []byte // lines of the blocks, which follow each other
	scale     []uint16
	blocks    int
	x         []quantGroup // [rows][groups]
	rows      int
	groups    int
}
