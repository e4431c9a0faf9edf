package cpu

import "whorl/tensor"

// Panels of the formats of generic_kquant.go.

// expandValues fills the lines of a group with bytes that value gives.
func expandValues(p *panelGroup, value func(i, j int) byte) {
	for i := range group {
		for j := range lanes {
			p.lines[i/4*4*lanes+4*j+i%4] = value(i, j)
		}
	}
}

func genericExpandQ4_K(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p := &dst[2*g]
		expandNibbles(p, data[g*256:], 0)
		superOf(scale, layoutOf(tensor.Q4_K), g/superGroups).minima(&p.scale, &p.minimum, g%superGroups)
	}
}

func genericExpandQ5_K(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p, lines := &dst[2*g], data[g*320:]
		expandValues(p, func(i, j int) byte { return fiveAt(lines, i, j) })
		superOf(scale, layoutOf(tensor.Q5_K), g/superGroups).minima(&p.scale, &p.minimum, g%superGroups)
	}
}

func genericExpandQ5_0(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p, lines := &dst[2*g], data[g*320:]
		expandValues(p, func(i, j int) byte { return fiveAt(lines, i, j) + 128 - 16 })
		halves(&p.scale, scale[g*lanes:])
	}
}

func genericExpandQ6_K(dst []panelGroup, data []byte, scale []uint16, groups int) {
	for g := range groups {
		p, lines := &dst[2*g], data[g*384:]
		expandValues(p, func(i, j int) byte { return highAt(lines, 2, i, j) })
		superOf(scale, layoutOf(tensor.Q6_K), g/superGroups).sixteens(&p.scale, &p.minimum, g%superGroups)
	}
}

// dotHalves continues sums with the two halves of a group.
func dotHalves(acc *[lanes]float32, p *panelGroup, x *quantGroup) {
	var s [2][lanes]int32
	for half := range s {
		s[half] = splat(x.off32[half])
		for i := 16 * half; i < 16*half+16; i++ {
			for j := range lanes {
				s[half][j] += int32(p.lines[i/4*4*lanes+4*j+i%4]) * int32(x.q[i])
			}
		}
	}
	scaleHalves(acc, &s, &p.scale, &p.minimum, x.d)
}
