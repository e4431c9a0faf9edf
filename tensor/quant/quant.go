// Package quant knows how the numbers of a weight file lie in memory: one file per format
// with its group, its bytes, how it unpacks and, where we write it, how it packs.
//
// Unpacking gives the same float32 bits as the reference Python packages (gguf, and
// bitsandbytes for INT8 and NF4): the product is rounded, then the sum. The package
// multiplies nothing and knows no device layout; devices repack what they read from here.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"whorl/tensor"
)

// Format describes one data type. A new format is a row of formats, and a file with its
// functions.
type Format struct {
	DType   tensor.DType
	Group   int // columns in a block
	Bytes   int // bytes of a block
	Product Product
	// Unpack writes the values of whole blocks: len(dst) is a multiple of Group and src
	// holds len(dst)/Group blocks. Every byte string is a valid block. Where rows have a
	// head, it takes one whole row.
	Unpack func(dst []float32, src []byte)
	// Pack is the inverse with rounding, for the same lengths. It is nil for formats that
	// are only read.
	Pack func(dst []byte, src []float32)

	// Head is how many bytes stand before the first block of every row.
	Head int
	// MaxCols bounds a row, if it is not 0: sums of products overflow 32 bits beyond it.
	MaxCols int
	// Finish ends the packing of a whole matrix, where its rows hang together; else nil.
	Finish func(data []byte)
}

// Product is how rows meet a format: the rule of that name in package tensor, "One
// arithmetic".
type Product uint8

const (
	// FloatProduct multiplies dequantised weights by float rows.
	FloatProduct Product = iota
	// GroupProduct is the quantised product: under [tensor.Act8] rows are in 8 bits, by
	// groups of 32. Under [tensor.ActF32] it is the float product.
	GroupProduct
	// RowProduct is the INT8 product: under [tensor.Act8] whole rows are in 8 bits, their
	// outliers apart. Under [tensor.ActF32] it is the float product.
	RowProduct
	// LevelProduct is the NF4 product: sums over levels are scaled by groups, in both modes.
	LevelProduct
)

var formats = numbered([]Format{
	tensor.F32:  {Group: 1, Bytes: 4, Unpack: unpackF32, Pack: packF32},
	tensor.F16:  {Group: 1, Bytes: 2, Unpack: unpackF16, Pack: packF16},
	tensor.BF16: {Group: 1, Bytes: 2, Unpack: unpackBF16, Pack: packBF16},
	tensor.Q8_0: {Group: 32, Bytes: 34, Product: GroupProduct, Unpack: unpackQ8_0, Pack: packQ8_0},
	tensor.Q4_0: {Group: 32, Bytes: 18, Product: GroupProduct, Unpack: unpackQ4_0, Pack: packQ4_0},
	tensor.Q4_1: {Group: 32, Bytes: 20, Product: GroupProduct, Unpack: unpackQ4_1, Pack: packQ4_1},
	tensor.Q5_0: {Group: 32, Bytes: 22, Product: GroupProduct, Unpack: unpackQ5_0, Pack: packQ5_0},
	tensor.Q4_K: {Group: 256, Bytes: 144, Product: GroupProduct, Unpack: unpackQ4_K, Pack: packQ4_K},
	tensor.Q5_K: {Group: 256, Bytes: 176, Product: GroupProduct, Unpack: unpackQ5_K, Pack: packQ5_K},
	tensor.Q6_K: {Group: 256, Bytes: 210, Product: GroupProduct, Unpack: unpackQ6_K, Pack: packQ6_K},
	tensor.INT8: {Group: 1, Bytes: 1, Product: RowProduct, Unpack: unpackINT8, Pack: packINT8, Head: int8Head, MaxCols: MaxINT8Cols},
	tensor.NF4:  {Group: nf4Group, Bytes: nf4Bytes, Product: LevelProduct, Unpack: unpackNF4, Pack: packNF4, Finish: finishNF4},
})

// numbered writes the data types into rows that stand in their order.
func numbered(rows []Format) []Format {
	for d := range rows {
		rows[d].DType = tensor.DType(d)
	}
	return rows
}

// All lists the formats in the order of their data types. The caller must not change it.
func All() []Format { return formats }

// Of finds the format of a data type; ok is false for a type that is not in All.
func Of(d tensor.DType) (f Format, ok bool) {
	if int(d) >= len(formats) {
		return Format{}, false
	}
	return formats[d], true
}

// maxElements bounds rows*cols so that no byte count overflows an int64.
const maxElements = 1 << 48

// RowBytes is the length of one row of cols columns. The error names a format that is
// unknown or a width that is no whole number of groups.
func RowBytes(d tensor.DType, cols int) (int, error) {
	f, ok := Of(d)
	if !ok {
		return 0, fmt.Errorf("%v is no known format", d)
	}
	if cols <= 0 || cols > maxElements {
		return 0, fmt.Errorf("%v row of %d columns", d, cols)
	}
	if cols%f.Group != 0 {
		return 0, fmt.Errorf("%v row of %d columns is no whole number of groups of %d", d, cols, f.Group)
	}
	if f.MaxCols > 0 && cols > f.MaxCols {
		return 0, fmt.Errorf("%v row of %d columns: sums of products overflow 32 bits beyond %d", d, cols, f.MaxCols)
	}
	return f.Head + cols/f.Group*f.Bytes, nil
}

// Check tells whether the shape and the data of a matrix fit its format.
func Check(m tensor.Matrix) error {
	row, err := RowBytes(m.DType, m.Cols)
	if err != nil {
		return fmt.Errorf("matrix %dx%d: %w", m.Rows, m.Cols, err)
	}
	if m.Rows <= 0 || m.Rows > maxElements/m.Cols {
		return fmt.Errorf("%v matrix of %dx%d", m.DType, m.Rows, m.Cols)
	}
	if want := m.Rows * row; len(m.Data) != want {
		return fmt.Errorf("%v matrix %dx%d: got %d bytes, want %d", m.DType, m.Rows, m.Cols, len(m.Data), want)
	}
	return nil
}

// half reads a little-endian float16 as float32.
func half(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

// argmaxAbs is the first element of greatest magnitude.
func argmaxAbs(x []float32) float32 {
	best := float32(0)
	for _, v := range x {
		if abs(v) > abs(best) {
			best = v
		}
	}
	return best
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// rounder, added to a float32 of magnitude below 2^22, pushes the fraction out, ties to even:
// taken off again it leaves the whole number, which is also what the bits are above
// rounderBits.
const (
	rounder     = 3 << 22
	rounderBits = 0x4b400000
)

// inverse is 1/d, and 0 for a group of zeros.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// nibble cuts v to an unsigned 4-bit number, rounding down; NaN gives 0.
func nibble(v float32) byte {
	switch {
	case v >= 15:
		return 15
	case v > 0:
		return byte(v)
	}
	return 0
}
