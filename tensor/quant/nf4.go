package quant

import (
	"encoding/binary"
	"math"
)

// NF4 is the NormalFloat of QLoRA: 64 columns in 36 bytes, a float32 scale s, then 32 bytes;
// byte i holds column 2i in its high and column 2i+1 in its low nibble; the value is
// NF4Levels[q]*s. No file holds it: float weights are quantised to it at load.
//
// A block is packed with s its greatest magnitude. Then the scales of the whole matrix are
// quantised in turn ("double quantisation"), 256 of them at a time in the order of rows, so
// that groups go on over the ends of rows: finishNF4 replaces each s by what its 8-bit form
// stands for. The codes stay those of the first s.

const (
	nf4Group = 64
	nf4Bytes = 4 + nf4Group/2
	// nestedGroup is how many scales share a scale of their own.
	nestedGroup = 256
)

// NF4Levels are the values of the 16 codes, in rising order.
var NF4Levels = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
	-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
	0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

var (
	nf4Bounds     = midpoints(NF4Levels[:])
	dynamicLevels = dynamicMap()
	dynamicBounds = midpoints(dynamicLevels[:])
)

// dynamicMap gives the levels of the 8-bit type that scales are quantised to, in rising
// order: zero, one, and with both signs, for i = 0..6, the middles of 2^i equal parts of
// [0.1, 1] times 10^(i-6). The order of roundings is bitsandbytes'.
func dynamicMap() (levels [256]float32) {
	const zero = 127
	levels[255] = 1
	at := 1
	for i := range 7 {
		n := 1 << i
		step := float32(float32(1)-float32(0.1)) / float32(n)
		bound := func(k int) float32 { // rounded once
			if k < (n+1)/2 {
				return float32(float64(float32(0.1)) + float64(step)*float64(k))
			}
			return float32(1 - float64(step)*float64(n-k))
		}
		unit := float32(math.Pow10(i - 6))
		for k := range n {
			v := unit * (float32(bound(k)+bound(k+1)) / 2)
			levels[zero+at], levels[zero-at] = v, -v
			at++
		}
	}
	return levels
}

// midpoints are the borders between neighbouring levels.
func midpoints(levels []float32) []float32 {
	out := make([]float32, len(levels)-1)
	for i := range out {
		out[i] = float32(levels[i]+levels[i+1]) / 2
	}
	return out
}

// nearest is the number of borders below v: the code of the level nearest to it, the lower
// one of two.
func nearest(bounds []float32, v float32) int {
	lo, n := 0, len(bounds)
	for n > 0 {
		half := n / 2
		if bounds[lo+half] < v {
			lo, n = lo+half+1, n-half-1
		} else {
			n = half
		}
	}
	return lo
}

// unit is 1/s for a scale that may be zero, and 0 for one that is no number.
func unit(s float32) float32 {
	if s != s {
		return 0
	}
	return 1 / max(s, 1e-38)
}

func unpackNF4(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[nf4Group:], src[nf4Bytes:] {
		s := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for i, q := range src[4:nf4Bytes] {
			dst[2*i] = NF4Levels[q>>4] * s
			dst[2*i+1] = NF4Levels[q&15] * s
		}
	}
}

func packNF4(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[nf4Bytes:], src[nf4Group:] {
		x := src[:nf4Group]
		s := float32(0)
		for _, v := range x {
			s = max(s, abs(v))
		}
		binary.LittleEndian.PutUint32(dst, math.Float32bits(s))
		u := unit(s)
		for i := range nf4Group / 2 {
			hi, lo := nearest(nf4Bounds, float32(x[2*i]*u)), nearest(nf4Bounds, float32(x[2*i+1]*u))
			dst[4+i] = byte(hi<<4 | lo)
		}
	}
}

// finishNF4 quantises the scales of all blocks of a matrix: less their mean, in groups of
// 256, to the dynamic levels of the group's greatest magnitude. The mean is that of exact
// numbers (bitsandbytes sums float32 in an order of its own, which may differ in the last
// bit).
func finishNF4(data []byte) {
	n := len(data) / nf4Bytes
	scale := func(i int) []byte { return data[i*nf4Bytes:] }
	sum := 0.0
	for i := range n {
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(scale(i))))
	}
	mean := float32(sum / float64(n))
	var group [nestedGroup]float32
	for from := 0; from < n; from += nestedGroup {
		g := group[:min(nestedGroup, n-from)]
		top := float32(0)
		for i := range g {
			g[i] = math.Float32frombits(binary.LittleEndian.Uint32(scale(from+i))) - mean
			top = max(top, abs(g[i]))
		}
		u := unit(top)
		for i, v := range g {
			s := float32(dynamicLevels[nearest(dynamicBounds, float32(v*u))]*top) + mean
			binary.LittleEndian.PutUint32(scale(from+i), math.Float32bits(s))
		}
	}
}
