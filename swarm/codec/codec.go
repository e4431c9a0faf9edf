// Package codec turns rows of hidden states into bytes and back. Rows travel exact by
// default: the bits of every float32, little-endian. It knows nothing of frames (wire) or
// sessions.
package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// F32 is exact: four little-endian bytes a value.
const F32 uint8 = 1

// Size is the number of bytes n values take, -1 for an unknown codec.
func Size(codec uint8, n int) int {
	if codec != F32 {
		return -1
	}
	return 4 * n
}

// Append appends the encoded values to dst. The codec must be known.
func Append(dst []byte, codec uint8, values []float32) []byte {
	if codec != F32 {
		panic(fmt.Sprintf("codec: unknown codec %d", codec))
	}
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// Decode appends the values in data to dst.
func Decode(dst []float32, codec uint8, data []byte) ([]float32, error) {
	switch {
	case codec != F32:
		return dst, fmt.Errorf("rows come in the unknown codec %d: this node reads only %d (float32)", codec, F32)
	case len(data)%4 != 0:
		return dst, fmt.Errorf("rows of %d bytes are no whole float32 values", len(data))
	}
	for ; len(data) > 0; data = data[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return dst, nil
}

// Finite tells whether no value is NaN or infinite.
func Finite(values []float32) bool {
	for _, v := range values {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}
