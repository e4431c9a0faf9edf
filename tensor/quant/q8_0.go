package quant

import "encoding/binary"

// Q8_0: a float16 scale d, then 32 signed bytes q; the value is q*d.

func unpackQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d := half(src)
		for i, q := range src[2:34] {
			dst[i] = float32(int8(q)) * d
		}
	}
}

// packQ8_0 gives each block the scale, of a few, that errs least.
func packQ8_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[34:], src[32:] {
		x := (*[32]float32)(src)
		d := fitQ8(x)
		id := inverse(d)
		binary.LittleEndian.PutUint16(dst, F32ToF16(d))
		for i, v := range x {
			q := float32(float32(v*id)+rounder) - rounder
			dst[2+i] = byte(int8(min(max(q, -127), 127))) // beyond 127 only where d is subnormal
		}
	}
}

// fitQ8 is the scale of least squared error among those that take the greatest magnitude to
// 127, 126, ..., 112. The first is what the format's writers choose; the best of them has a
// fifth less squared error, whatever the spread of weights.
func fitQ8(x *[32]float32) float32 {
	most := abs(argmaxAbs(x[:]))
	best, least := float32(0), float32(0)
	for top := 127; top >= 112; top-- {
		d := F16ToF32(F32ToF16(most / float32(top)))
		if e := squaredError(x, d); top == 127 || e < least {
			best, least = d, e
		}
	}
	return best
}

// squaredError is that of values rounded to multiples of d.
func squaredError(x *[32]float32, d float32) float32 {
	id, s, t := inverse(d), float32(0), float32(0)
	for i := 0; i < len(x); i += 2 {
		v, w := x[i], x[i+1]
		e := v - float32((float32(float32(v*id)+rounder)-rounder)*d)
		f := w - float32((float32(float32(w*id)+rounder)-rounder)*d)
		s += float32(e * e)
		t += float32(f * f)
	}
	return s + t
}
