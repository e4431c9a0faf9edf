package cpu

import "whorl/tensor/quant"

func genericBytePanel(acc []float32, accStride int, panel []panelGroup, form panelForm, x []quantGroup, xStride, rows int) {
	for g := range len(panel) / 2 {
		for r := range rows {
			v := &x[r*xStride+g]
			for b := range 2 {
				p, a := &panel[2*g+b], (*[lanes]float32)(acc[r*accStride+b*lanes:])
				if form == halfPanel {
					dotHalves(a, p, v)
					continue
				}
				s := splat(v.off8)
				dot8(&s, p.lines[:], &v.q)
				scaleAcc(a, &s, &p.scale, v.d)
				if form == minimumPanel {
					fmaLanes(a, &p.minimum, v.dsum)
				}
			}
		}
	}
}

func genericExpandQ8_0(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p := &dst[2*g]
		copy(p.lines[:], data[g*512:])
		halves(&p.scale, scale[g*lanes:])
	}
}

func genericExpandQ4_0(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p := &dst[2*g]
		expandNibbles(p, data[g*256:], 128-8)
		halves(&p.scale, scale[g*lanes:])
	}
}

func genericExpandQ4_1(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p := &dst[2*g]
		expandNibbles(p, data[g*256:], 128)
		halves(&p.scale, scale[g*2*lanes:])
		halves(&p.minimum, scale[g*2*lanes+lanes:])
	}
}

// expandNibbles takes the 4 lines of nibbles of a group to 8 of bytes.
func expandNibbles(p *panelGroup, lines []byte, offset byte) {
	for i, v := range lines[:len(p.lines)/2] {
		p.lines[i] = v&15 + offset
		p.lines[len(p.lines)/2+i] = v>>4 + offset
	}
}

func genericWidenF16(dst []float32, src []uint16) {
	for i := range dst {
		dst[i] = quant.F16ToF32(src[i])
	}
}

func genericWidenBF16(dst []float32, src []uint16) {
	for i := range dst {
		dst[i] = quant.BF16ToF32(src[i])
	}
}
