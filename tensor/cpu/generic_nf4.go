package cpu

import "whorl/tensor/quant"

func genericNF4(a *nf4Args) {
	var w [8 * lanes]float32
	for i := range a.blocks * a.groups {
		b, g := i/a.groups, i%a.groups
		scale := a.scale[i*lanes:][:lanes]
		for l := range nf4Lines {
			genericUnpackNF4(w[:], a.data[(i*nf4Lines+l)*4*lanes:], scale, 1)
			for r := range a.rows {
				acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
				for c, x := range a.x[r*a.xStride+g*nf4Group+8*l:][:8] {
					fmaLanes(acc, (*[lanes]float32)(w[c*lanes:]), x)
				}
			}
		}
	}
}

// genericUnpackNF4 dequantises lines of one block that share scales into the float layout.
func genericUnpackNF4(dst []float32, data []byte, scale []float32, lines int) {
	for i := range 8 * lines {
		for j := range lanes {
			dst[i*lanes+j] = quant.NF4Levels[codeNF4(data, i, j)] * scale[j]
		}
	}
}
