package quant

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
