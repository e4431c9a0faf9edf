package cpu

import "whorl/tensor/quant"

func genericNF4(a *nf4Args) {
	var w [nf4Group * lanes]float32
	for i := range a.blocks * a.groups {
		b, g := i/a.groups, i%a.groups
		genericUnpackNF4(w[:], a.data[i*nf4Lines*4*lanes:], nf4Lines)
		scale := (*[lanes]float32)(a.scale[i*lanes:])
		for r := range a.rows {
			nf4Sum((*[lanes]float32)(a.acc[r*a.accStride+b*lanes:]), w[:], scale, a.x[r*a.xStride+g*nf4Group:])
		}
	}
}

func genericNF4Panel(a *nf4PanelArgs) {
	for i := range 2 * a.groups {
		b, g := i/a.groups, i%a.groups
		scale := (*[lanes]float32)(a.scale[b*a.scaleStride+g*lanes:])
		for r := range a.rows {
			nf4Sum((*[lanes]float32)(a.acc[r*a.accStride+b*lanes:]), a.panel[i*nf4Group*lanes:], scale, a.x[r*a.xStride+g*nf4Group:])
		}
	}
}

// nf4Sum adds the products of a group of levels, summed up and then scaled.
func nf4Sum(acc *[lanes]float32, levels []float32, scale *[lanes]float32, x []float32) {
	var sum [lanes]float32
	for c, v := range x[:nf4Group] {
		fmaLanes(&sum, (*[lanes]float32)(levels[c*lanes:]), v)
	}
	for j, s := range sum {
		acc[j] = fma32(s, scale[j], acc[j])
	}
}

// genericUnpackNF4 looks up the levels of lines of one block in the float layout.
func genericUnpackNF4(dst []float32, data []byte, lines int) {
	for i := range 8 * lines {
		for j := range lanes {
			dst[i*lanes+j] = quant.NF4Levels[codeNF4(data, i, j)]
		}
	}
}
