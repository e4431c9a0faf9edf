package quant

import (
	"encoding/binary"
	"math"
)

// INT8 is LLM.int8(): a row is a float32 a, its greatest magnitude, then a signed byte q a
// column; the value is (q*a)/127, the division being a product with the nearest float32 to
// 1/127. No file holds it: float weights are quantised to it at load.

const (
	int8Head = 4
	// INT8Unit is what a quotient by 127 is multiplied by.
	INT8Unit = float32(1.0 / 127)
	// MaxINT8Cols bounds a row: 127*127 times as many stay below 2^31.
	MaxINT8Cols = 1 << 17
)

func unpackINT8(dst []float32, src []byte) {
	a := math.Float32frombits(binary.LittleEndian.Uint32(src))
	for i, q := range src[int8Head:][:len(dst)] {
		dst[i] = float32(float32(int8(q))*a) * INT8Unit
	}
}

func packINT8(dst []byte, src []float32) {
	a := float32(0)
	for _, v := range src {
		a = max(a, abs(v)) // a NaN stays, and shows in every value
	}
	binary.LittleEndian.PutUint32(dst, math.Float32bits(a))
	q := dst[int8Head:]
	if !(a > 0 && a <= math.MaxFloat32) {
		clear(q)
		return
	}
	unit := float32(1/a) * 127 // bitsandbytes' way; weights of few bits lie on ties
	for i, v := range src {
		// Limits matter only where 1/a overflows.
		n := math.RoundToEven(float64(float32(v * unit)))
		q[i] = byte(int8(max(-127, min(127, n))))
	}
}
