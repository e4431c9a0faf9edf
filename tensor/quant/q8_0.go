package quant

import (
	"encoding/binary"
	"math"
)

// Q8_0: a float16 scale d, then 32 signed bytes q; the value is q*d.

func unpackQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d := half(src)
		for i, q := range src[2:34] {
			dst[i] = float32(int8(q)) * d
		}
	}
}

func packQ8_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[34:], src[32:] {
		x := src[:32]
		d := abs(argmaxAbs(x)) / 127
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst, F32ToF16(d))
		for i, v := range x {
			// The format's writers round halves away from zero.
			dst[2+i] = byte(int8(math.Round(float64(v * id))))
		}
	}
}
