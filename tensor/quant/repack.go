package quant

import (
	"encoding/binary"

	"whorl/tensor"
)

// Repacking turns blocks of a format that no device computes with into blocks of one that
// devices know and that stand for the same values, to the bit.
type Repacking struct {
	Type  string // as GGUF calls it
	Group int    // columns in a block
	Bytes int    // bytes of a block
	To    tensor.DType
	// Repack writes the blocks that src has: dst holds as many columns of To. Every byte
	// string is a valid block.
	Repack func(dst, src []byte)
}

// Where products of scales do not fit the scales of a known format, it is F32.
var repackings = []Repacking{
	{"Q3_K", 256, 110, tensor.Q6_K, repackQ3_K},
	{"IQ4_NL", 32, 18, tensor.Q8_0, repackIQ4_NL},
	{"Q2_K", 256, 84, tensor.F32, widen(256, 84, unpackQ2_K)},
	{"IQ4_XS", 256, 136, tensor.F32, widen(256, 136, unpackIQ4_XS)},
	{"Q5_1", 32, 24, tensor.F32, widen(32, 24, unpackQ5_1)},
}

// RepackingOf finds the repacking of a type of GGUF; false if there is none.
func RepackingOf(name string) (Repacking, bool) {
	for _, r := range repackings {
		if r.Type == name {
			return r, true
		}
	}
	return Repacking{}, false
}

// widen makes a Repack that writes floats.
func widen(group, size int, unpack func(dst []float32, src []byte)) func(dst, src []byte) {
	return func(dst, src []byte) {
		var values [256]float32
		for ; len(src) > 0; dst, src = dst[4*group:], src[size:] {
			unpack(values[:group], src[:size])
			packF32(dst, values[:group])
		}
	}
}

// Q3_K: 256 columns in 110 bytes: 32 bytes whose bit g is the third of column i of group g,
// 64 bytes of low pairs of bits, 12 bytes with 16 scales of 6 bits, a float16 d. The value
// is (d*(scale-32))*(q-4), so that a block of Q6_K holds it: its scales are signed bytes of
// as many columns, and its values q-32.
func repackQ3_K(dst, src []byte) {
	for ; len(src) > 0; dst, src = dst[210:], src[110:] {
		clear(dst[:192])
		for i := range 256 {
			run, col := i/128, i%128
			q := src[32+32*run+i%32] >> (col / 32 * 2) & 3
			q |= src[i%32] >> (i / 32) & 1 << 2
			q += 32 - 4
			dst[64*run+col%64] |= q & 15 << (col / 64 * 4)
			dst[128+32*run+i%32] |= q >> 4 << (col / 32 * 2)
		}
		scales := src[96:108]
		for g := range 16 {
			s := scales[g%8]>>(g/8*4)&15 | scales[8+g%4]>>(g/4*2)&3<<4
			dst[192+g] = s - 32
		}
		copy(dst[208:210], src[108:110])
	}
}

// iq4 are the values that the nibbles of IQ4_NL and IQ4_XS stand for.
var iq4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: nibbles and a float16 scale as in Q4_0; Q8_0 holds the values they stand for.
func repackIQ4_NL(dst, src []byte) {
	for ; len(src) > 0; dst, src = dst[34:], src[18:] {
		copy(dst[:2], src[:2])
		for i, q := range src[2:18] {
			dst[2+i], dst[18+i] = byte(iq4[q&15]), byte(iq4[q>>4])
		}
	}
}

// Q2_K: 256 columns in 84 bytes: for each 16 columns a byte with scale (low nibble) and
// minimum, 64 bytes of pairs of bits, float16 d and dmin. The value is (d*scale)*q -
// dmin*minimum. In each half byte i holds columns i, i+32, i+64 and i+96.
func unpackQ2_K(dst []float32, src []byte) {
	d, dmin := half(src[80:]), half(src[82:])
	for i := range dst {
		s := src[i/16]
		q := src[16+i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
		scale, low := d*float32(s&15), float32(dmin*float32(s>>4))
		dst[i] = float32(scale*float32(q)) - low
	}
}

// IQ4_XS: 256 columns in 136 bytes: a float16 d, 2 bytes with the upper pairs of bits of 8
// scales, 4 bytes with their low nibbles, then 16 bytes of nibbles for each 32 columns as in
// IQ4_NL. The value is (d*(scale-32)) times what the nibble stands for.
func unpackIQ4_XS(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint16(src[2:])
	for i := range dst {
		g := i / 32
		s := src[4+g/2]>>(g%2*4)&15 | byte(high>>(2*g)&3<<4)
		q := src[8+16*g+i%16] >> (i % 32 / 16 * 4) & 15
		dst[i] = d * float32(int(s)-32) * float32(iq4[q])
	}
}

// Q5_1: float16 d and m, then as Q5_0; the value is d*q + m.
func unpackQ5_1(dst []float32, src []byte) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i := range dst {
		q := src[8+i%16]>>(i/16*4)&15 | byte(high>>i&1<<4)
		dst[i] = float32(d*float32(q)) + m
	}
}
