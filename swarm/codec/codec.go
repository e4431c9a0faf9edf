// Package codec turns rows of hidden states into bytes and back, without loss: the bits of
// every float32, little-endian, or the upper half of them in sessions that round rows to
// bfloat16, whose lower half is zero. It knows nothing of frames (wire) or sessions.
package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"whorl/tensor"
)

// The codecs.
const (
	F32  uint8 = 1 // four little-endian bytes a value
	BF16 uint8 = 2 // two: the values are bfloat16s already
	// BF16Packed is BF16 in fewer bytes (packed.go), for frames of many rows to whoever reads it.
	BF16Packed uint8 = 3
)

// Of is the codec of sessions with a mode of the residual stream. Their rows come in no other,
// but for what Fits lets pass.
func Of(r tensor.Residual) uint8 {
	if r == tensor.ResidualBF16 {
		return BF16
	}
	return F32
}

// width is the number of bytes a value takes, 0 for an unknown codec.
func width(codec uint8) int {
	switch codec {
	case F32:
		return 4
	case BF16:
		return 2
	}
	return 0
}

// Size is the number of bytes n values take, -1 for an unknown codec.
func Size(codec uint8, n int) int {
	if w := width(codec); w > 0 {
		return w * n
	}
	return -1
}

// Fits tells whether a frame of n values in some codec and so many bytes may come in a session
// whose codec is want. All memory that decoding takes is in proportion to the bytes.
func Fits(codec, want uint8, n, bytes int) bool {
	if codec == BF16Packed && want == BF16 {
		return bytes > n && bytes < 2*n
	}
	return codec == want && bytes == Size(codec, n)
}

// Append appends the encoded values to dst. The codec must be known, and values for BF16 must
// be bfloat16s: of others the lower half would be lost.
func Append(dst []byte, codec uint8, values []float32) []byte {
	switch codec {
	case F32:
		for _, v := range values {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	case BF16:
		for _, v := range values {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(math.Float32bits(v)>>16))
		}
	default:
		panic(fmt.Sprintf("codec: unknown codec %d", codec))
	}
	return dst
}

// Decode appends the n values in data to dst.
func Decode(dst []float32, codec uint8, data []byte, n int) ([]float32, error) {
	if codec == BF16Packed {
		return unpack(dst, data, n)
	}
	switch w := width(codec); {
	case w == 0:
		return dst, fmt.Errorf("rows come in the unknown codec %d: this node reads only %d (float32), %d and %d (bfloat16)", codec, F32, BF16, BF16Packed)
	case len(data) != w*n:
		return dst, fmt.Errorf("%d bytes are not %d values of %d bytes", len(data), n, w)
	}
	if codec == BF16 {
		for ; len(data) > 0; data = data[2:] {
			dst = append(dst, math.Float32frombits(uint32(binary.LittleEndian.Uint16(data))<<16))
		}
		return dst, nil
	}
	for ; len(data) > 0; data = data[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return dst, nil
}

// Round rounds values in place to bfloat16 as devices do (tensor.Device.Round).
func Round(values []float32) {
	for i, v := range values {
		u := math.Float32bits(v)
		if u&0x7fffffff > 0x7f800000 {
			u |= 0x00400000
		} else {
			u += 0x7fff + u>>16&1
		}
		values[i] = math.Float32frombits(u &^ 0xffff)
	}
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
