package cpu

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
	// Their products are added by fma before the row's scale.
	sum := products(&s[0], &p.scale)
	for j, v := range s[1] {
		sum[j] = fma32(float32(v), p.minimum[j], sum[j])
	}
	fmaLanes(acc, &sum, x.d)
}

func splat(v int32) (s [lanes]int32) {
	for j := range s {
		s[j] = v
	}
	return s
}
