package quant

import (
	"encoding/binary"
	"math"
)

// F16ToF32 widens an IEEE half. It is exact; a NaN keeps its payload and becomes quiet.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mag := uint32(h&0x7fff) << 13
	switch {
	case mag >= 0x7c00<<13: // infinity and NaN
		mag |= 0x7f800000
		if mag > 0x7f800000 {
			mag |= 1 << 22
		}
		return math.Float32frombits(sign | mag)
	case mag >= 0x0400<<13: // normal: move the exponent's bias from 15 to 127
		return math.Float32frombits(sign | (mag + (127-15)<<23))
	}
	// Zero and subnormals: the bits count units of 2^-24.
	return math.Float32frombits(sign | math.Float32bits(float32(h&0x3ff)*(1.0/(1<<24))))
}

// F32ToF16 rounds to the nearest half, ties to even; too large values become infinite.
func F32ToF16(v float32) uint16 {
	u := math.Float32bits(v)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00 | uint16(u>>13&0x1ff)
	case u >= 0x477ff000: // 65520 rounds up past the greatest half
		return sign | 0x7c00
	case u >= 0x38800000: // 2^-14: normal
		u -= (127 - 15) << 23
		return sign | uint16((u+0xfff+(u>>13&1))>>13)
	}
	// Subnormal: adding 0.5 makes the float unit round at 2^-24 for us.
	s := math.Float32frombits(u) + 0.5
	return sign | uint16(math.Float32bits(s)-math.Float32bits(0.5))
}

func unpackF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func packF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(v))
	}
}
