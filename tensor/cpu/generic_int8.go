package cpu

import "math"

// genericQuantiseRow rounds a row to signed bytes, its outliers apart. A NaN is no outlier:
// it becomes the row's magnitude, so that it shows in every result.
func genericQuantiseRow(row *int8Row, q []int8, outlier []int32, x []float32) {
	most, n := uint32(0), 0 // of the bits without sign: orders all floats, NaN last
	for i, v := range x {
		u := math.Float32bits(v) &^ (1 << 31)
		if isOutlier(u) {
			outlier[n] = int32(i)
			n++
		} else {
			most = max(most, u)
		}
	}
	amax := math.Float32frombits(most)
	unit := float32(0)
	if amax >= tinyGroup { // false for a NaN
		unit = 127 / amax
	} else if amax < tinyGroup {
		amax = 0
	}
	clear(q)
	sum := int32(0)
	if unit != 0 {
		for i, v := range x {
			if !isOutlier(math.Float32bits(v) &^ (1 << 31)) {
				e := int8(float32(float32(v*unit)+rounder) - rounder)
				q[i] = e
				sum += int32(e)
			}
		}
	}
	*row = int8Row{amax: amax, off: -128 * sum, outliers: int32(n)}
}

// isOutlier tells it from the bits of a magnitude; an infinity is one, a NaN is none.
func isOutlier(u uint32) bool {
	return u >= 0x40c00000 && u <= 0x7f800000 // 6 to infinity
}

func genericINT8(a *int8Args) {
	for b := range a.blocks {
		lines, scale := a.data[b*a.cols*lanes:], a.scale[b*lanes:][:lanes]
		for r := range a.rows {
			row, q := &a.rows[r], a.q[r*a.cols:][:a.cols]
			var s [lanes]int32
			for c := 0; c < a.cols; c += 4 {
				line := (*[4 * lanes]byte)(lines[c*lanes:])
				x0, x1, x2, x3 := int32(q[c]), int32(q[c+1]), int32(q[c+2]), int32(q[c+3])
				for j := range s {
					s[j] += int32(line[4*j])*x0 + int32(line[4*j+1])*x1 + int32(line[4*j+2])*x2 + int32(line[4*j+3])*x3
				}
			}
			acc := a.acc[r*a.accStride+b*lanes:][:lanes]
			for j := range acc {
				acc[j] = float32(float32(s[j]+row.off)*float32(row.amax*scale[j])) * int8Units
			}
		}
	}
}

// genericINT8Outliers continues the sums of one block and row over outlier columns.
func genericINT8Outliers(acc []float32, data []byte, scale, x []float32, cols []int32) {
	for _, c := range cols {
		for j := range acc {
			acc[j] = fma32(valueINT8(data, int(c), j, scale[j]), x[c], acc[j])
		}
	}
}

// genericUnpackINT8 dequantises columns of one block, a multiple of 4, into the float
// layout.
func genericUnpackINT8(dst []float32, data []byte, scale []float32, cols int) {
	for i := range cols {
		for j := range lanes {
			dst[i*lanes+j] = valueINT8(data, i, j, scale[j])
		}
	}
}
