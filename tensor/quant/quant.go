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

// Format describes one data type.
type Format struct {
	DType tensor.DType
	Group int // columns in a block
	Bytes int // bytes of a block
	// Unpack writes the values of whole blocks: len(dst) is a multiple of Group and src
	// holds len(dst)/Group blocks. Every byte string is a valid block. Where rows have a
	// head, it takes one whole row.
	Unpack func(dst []float32, src []byte)
	// Pack is the inverse with rounding, for the same lengths. It is nil for formats that
	// are only read.
	Pack func(dst []byte, src []float32)

	// Head is how many bytes stand before the first block of every row.
	Head int
	// Finish ends the packing of a whole matrix, where its rows hang together; else nil.
	Finish func(data []byte)
}

var formats = []Format{
	{tensor.F32, 1, 4, unpackF32, packF32, 0, nil},
	{tensor.F16, 1, 2, unpackF16, packF16, 0, nil},
	{tensor.BF16, 1, 2, unpackBF16, packBF16, 0, nil},
	{tensor.Q8_0, 32, 34, unpackQ8_0, packQ8_0, 0, nil},
	{tensor.Q4_0, 32, 18, unpackQ4_0, packQ4_0, 0, nil},
	{tensor.Q4_1, 32, 20, unpackQ4_1, packQ4_1, 0, nil},
	{tensor.Q6_K, 256, 210, unpackQ6_K, packQ6_K, 0, nil},
	{tensor.Q4_K, 256, 144, unpackQ4_K, packQ4_K, 0, nil},
	{tensor.INT8, 1, 1, unpackINT8, packINT8, int8Head, nil},
	{tensor.NF4, nf4Group, nf4Bytes, unpackNF4, packNF4, 0, finishNF4},
	{tensor.Q5_K, 256, 176, unpackQ5_K, packQ5_K, 0, nil},
	{tensor.Q5_0, 32, 22, unpackQ5_0, packQ5_0, 0, nil},
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
	if d == tensor.INT8 && cols > MaxINT8Cols {
		return 0, fmt.Errorf("%v row of %d columns: sums of products overflow 32 bits beyond %d", d, cols, MaxINT8Cols)
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
