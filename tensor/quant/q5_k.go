package quant

// Q5_K: 256 columns in 176 bytes: float16 d and dmin, 12 bytes of scales and minima
// ([KScales]), 32 bytes whose byte i holds the fifth bits of column i of the 8 groups, the
// first group's lowest, then the low nibbles as in Q4_K.

func unpackQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[176:] {
		d, dmin := half(src), half(src[2:])
		for g := range 8 {
			sc, m := KScales(src[4:16], g)
			s, low := d*float32(sc), dmin*float32(m)
			run, out := src[48+g/2*32:][:32], dst[32*g:][:32]
			for i, q := range run {
				q = q>>(g%2*4)&15 | src[16+i]>>g&1<<4
				out[i] = float32(s*float32(q)) - low
			}
		}
	}
}

func packQ5_K(dst []byte, src []float32) {
	var q [256]byte
	for ; len(src) > 0; dst, src = dst[176:], src[256:] {
		packK(dst[:16], &q, src[:256], 31)
		clear(dst[16:48])
		for i, v := range q {
			dst[16+i%32] |= v >> 4 << (i / 32)
		}
		for i := range 128 {
			at := i/32*64 + i%32
			dst[48+i] = q[at]&15 | q[at+32]<<4
		}
	}
}
