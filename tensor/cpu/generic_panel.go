package cpu

import "whorl/tensor/quant"

func genericBytePanel(a *panelArgs) {
	for r := range a.rows {
		for b := range 2 {
			acc := (*[lanes]float32)(a.acc[r*a.accStride+b*lanes:])
			for g := range len(a.panel) / 2 {
				a.form.addGroup(acc, &a.panel[2*g+b], &a.x[r*a.xStride+g])
			}
			out := a.out[r*a.outStride+b*lanes:][:lanes]
			if a.add {
				genericAdd(out, out, acc[:])
			} else {
				copy(out, acc[:])
			}
		}
	}
}

func (f panelForm) addGroup(acc *[lanes]float32, p *panelGroup, x *quantGroup) {
	if f == halfPanel {
		dotHalves(acc, p, x)
		return
	}
	s := splat(x.off8)
	if f == minimumPanel {
		s = splat(biased)
	}
	dot8(&s, p.lines[:], &x.q)
	scaleAcc(acc, &s, &p.scale, x.d)
	if f == minimumPanel {
		fmaLanes(acc, &p.minimum, x.dsum)
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
		expandNibbles(p, data[g*256:], 0)
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
