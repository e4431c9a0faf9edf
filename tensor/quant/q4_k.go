package quant

// Q4_K: 256 columns in 144 bytes: float16 d and dmin, 12 bytes of scales and minima
// ([KScales]), then 128 bytes in four runs of 32: byte i of run c holds column i of group
// 2c in its low and of group 2c+1 in its high nibble.

func unpackQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[144:] {
		d, dmin := half(src), half(src[2:])
		for g := range 8 {
			sc, m := KScales(src[4:16], g)
			s, low := d*float32(sc), dmin*float32(m)
			run, out := src[16+g/2*32:][:32], dst[32*g:][:32]
			for i, q := range run {
				out[i] = float32(s*float32(q>>(g%2*4)&15)) - low
			}
		}
	}
}

func packQ4_K(dst []byte, src []float32) {
	var q [256]byte
	for ; len(src) > 0; dst, src = dst[144:], src[256:] {
		packK(dst[:16], &q, src[:256], 15)
		for i := range 128 {
			at := i/32*64 + i%32
			dst[16+i] = q[at] | q[at+32]<<4
		}
	}
}
