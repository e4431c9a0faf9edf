package quant

import "encoding/binary"

// Q5_0: a float16 scale d, then 32 bits whose bit i is the fifth of column i, then low
// nibbles as in Q4_0; the value is (q-16)*d.

func unpackQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high := half(src), binary.LittleEndian.Uint32(src[2:])
		for i := range 32 {
			q := src[6+i%16] >> (i / 16 * 4) & 15
			dst[i] = d * float32(int(q)+int(high>>i&1)*16-16)
		}
	}
}

func packQ5_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[22:], src[32:] {
		x := src[:32]
		// The element of greatest magnitude becomes -16, the longer side of the range.
		d := argmaxAbs(x) / -16
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst, F32ToF16(d))
		high := uint32(0)
		clear(dst[6:22])
		for i, v := range x {
			q := byte(0)
			switch v = float32(v*id) + 16.5; {
			case v >= 31:
				q = 31
			case v > 0:
				q = byte(v)
			}
			dst[6+i%16] |= q & 15 << (i / 16 * 4)
			high |= uint32(q>>4) << i
		}
		binary.LittleEndian.PutUint32(dst[2:], high)
	}
}
