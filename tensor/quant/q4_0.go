package quant

import "encoding/binary"

// Q4_0: a float16 scale d, then 16 bytes; byte i holds column i in its low and column
// i+16 in its high nibble; the value is (q-8)*d.

func unpackQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d := half(src)
		for i, q := range src[2:18] {
			dst[i] = d * float32(int(q&15)-8)
			dst[i+16] = d * float32(int(q>>4)-8)
		}
	}
}

func packQ4_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[18:], src[32:] {
		x := src[:32]
		// The element of greatest magnitude becomes -8, the longer side of the range.
		d := argmaxAbs(x) / -8
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst, F32ToF16(d))
		for i := range 16 {
			lo := nibble(float32(x[i]*id) + 8.5)
			hi := nibble(float32(x[i+16]*id) + 8.5)
			dst[2+i] = lo | hi<<4
		}
	}
}
