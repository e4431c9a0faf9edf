package quant

import (
	"encoding/binary"
	"math"
)

// Q6_K: 256 columns in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper pairs of
// bits, 16 signed scales (one per 16 columns), a float16 scale d. The value is
// (d*scale)*(q-32). The block is two halves of 128 columns; in a half, low byte i holds
// columns i and i+64, and high byte i the upper bits of columns i, i+32, i+64, i+96.

func unpackQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[210:] {
		d := half(src[208:])
		for h := range 2 {
			low, high := src[64*h:64*h+64], src[128+32*h:128+32*h+32]
			scales, out := src[192+8*h:192+8*h+8], dst[128*h:128*h+128]
			for i := range out {
				q := low[i%64] >> (i / 64 * 4) & 15
				q |= high[i%32] >> (i / 32 * 2) & 3 << 4
				s := d * float32(int8(scales[i/16]))
				out[i] = s * float32(int(q)-32)
			}
		}
	}
}

// packQ6_K gives each 16 columns the scale that makes their greatest magnitude -32, rounds
// the scales to multiples of d and the values to those. With 64 steps there is little to
// gain from a search.
func packQ6_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[210:], src[256:] {
		var fit [16]float32
		for r := range fit {
			fit[r] = argmaxAbs(src[16*r:16*r+16]) / -32
		}
		h := F32ToF16(abs(argmaxAbs(fit[:])) / 127)
		d := F16ToF32(h)
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst[208:], h)
		clear(dst[:192])
		for i, v := range src[:256] {
			scale := whole(float32(fit[i/16]*id), 127)
			dst[192+i/16] = byte(scale)
			q := byte(whole(float32(v*inverse(d*float32(scale))), 31) + 32)
			half, i := i/128, i%128
			dst[64*half+i%64] |= q & 15 << (i / 64 * 4)
			dst[128+32*half+i%32] |= q >> 4 << (i / 32 * 2)
		}
	}
}

// whole rounds v to a whole number in -most-1..most; NaN gives 0.
func whole(v float32, most int) int {
	switch {
	case v >= float32(most):
		return most
	case v <= float32(-most-1):
		return -most - 1
	case v == v:
		return int(math.RoundToEven(float64(v)))
	}
	return 0
}
