package quant

import "encoding/binary"

// Q4_1: a float16 scale d and a float16 minimum m, then 16 bytes laid out as in Q4_0; the
// value is q*d + m.

func unpackQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m := half(src), half(src[2:])
		for i, q := range src[4:20] {
			// The conversion keeps the compiler from fusing product and sum.
			dst[i] = float32(d*float32(q&15)) + m
			dst[i+16] = float32(d*float32(q>>4)) + m
		}
	}
}

func packQ4_1(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[20:], src[32:] {
		x := src[:32]
		lo, hi := x[0], x[0]
		for _, v := range x {
			lo, hi = min(lo, v), max(hi, v)
		}
		d := (hi - lo) / 15
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst, F32ToF16(d))
		binary.LittleEndian.PutUint16(dst[2:], F32ToF16(lo))
		for i := range 16 {
			a := nibble(float32((x[i]-lo)*id) + 0.5)
			b := nibble(float32((x[i+16]-lo)*id) + 0.5)
			dst[4+i] = a | b<<4
		}
	}
}
