package cpu

// lanes is the number of output rows in a block of the repacked layout.
const lanes = 16

// group is the number of columns that share a scale, in weights and in quantised rows.
const group = 32

// kernels is the table of inner loops that one tier supplies. They run on one thread and
// allocate nothing. All tiers give the same bits (package tensor, "One arithmetic").
type kernels struct {
	// f32, f16 and bf16 continue float products: for every row r, block b and lane j,
	//
	//	acc[r*accStride+b*16+j] by fma over k of w[b*wStride+k*16+j], x[r*xStride+k]
	//
	// The number of blocks is even.
	f32  func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int)
	f16  func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int)
	bf16 func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int)
	// f32Then and bf16Then are f32 and bf16 for a piece so short that the caller must say
	// what is read after it: as many weights from next on.
	f32Then  func(acc []float32, accStride int, w []float32, wStride, blocks int, x []float32, xStride, rows, k int, next *float32)
	bf16Then func(acc []float32, accStride int, w []uint16, wStride, blocks int, x []float32, xStride, rows, k int, next *uint16)

	// opaque tells that products are in assembly: a tile then takes less time than waiting for
	// its thread does, and may read rows that others have begun to write.
	opaque bool

	// eightRows is how many rows the kernels of quantised products take at once; more take
	// turns at the same blocks.
	eightRows int

	// q8_0, q4_0 and q4_1 continue quantised products.
	q8_0, q4_0, q4_1 func(q *quantArgs)

	// unpackQ8_0 and so on dequantise groups of one block: dst is [groups*32][16].
	unpackQ8_0, unpackQ4_0, unpackQ4_1 func(dst []float32, data []byte, scale []uint16, groups int)

	// high are the kernels of the formats with super-blocks, or with bits above nibbles.
	high highKernels

	// bytePanel continues quantised products with a panel (panel.go); expandQ8_0 and so on
	// fill one block of it. A tier may have none of them.
	bytePanel                          func(a *panelArgs)
	expandQ8_0, expandQ4_0, expandQ4_1 func(dst []panelGroup, data []byte, scale []uint16, groups int)

	// widenF16 and widenBF16 turn 16-bit floats into float32; the length is a multiple of 16.
	widenF16, widenBF16 func(dst []float32, src []uint16)

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

	// add is dst = a+b, mul is dst = a*b; dst may be a or b.
	add, mul func(dst, a, b []float32)
	// silu, gelu and geluTanh work in place.
	silu, gelu, geluTanh func(x []float32)
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
