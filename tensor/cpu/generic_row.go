package cpu

// tree adds 16 lanes pairwise: j with j+8, +4, +2, +1.
func tree(v *[lanes]float32) float32 {
	for h := lanes / 2; h > 0; h /= 2 {
		for j := range h {
			v[j] += v[j+h]
		}
	}
	return v[0]
}

func genericRMSNorm(dst, src, gain []float32, eps float32) {
	var acc [lanes]float32
	for i, v := range src {
		acc[i%lanes] = fma32(v, v, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/float32(len(src))+eps)
	for i, v := range src {
		dst[i] = float32(v*inv) * gain[i]
	}
}

func genericLayerNorm(dst, src, gain, bias []float32, eps float32) {
	var acc [lanes]float32
	for i, v := range src {
		acc[i%lanes] += v
	}
	mean := tree(&acc) / float32(len(src))
	acc = [lanes]float32{}
	for i, v := range src {
		c := v - mean
		acc[i%lanes] = fma32(c, c, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/float32(len(src))+eps)
	for i, v := range src {
		y := float32((v-mean)*inv) * gain[i]
		if bias != nil {
			y = float32(y) + bias[i]
		}
		dst[i] = y
	}
}

func genericSoftmax(s []float32, scale float32) (m, l float32) {
	for i, v := range s {
		s[i] = v * scale
	}
	m = s[0]
	for _, v := range s {
		if v > m {
			m = v
		}
	}
	var acc [lanes]float32
	for i, v := range s {
		s[i] = exp32(v - m)
		acc[i%lanes] += s[i]
	}
	return m, tree(&acc)
}

func genericSoftcap(x []float32, limit float32) {
	for i, v := range x {
		x[i] = softcap32(v, limit)
	}
}

func genericBlend(o, p []float32, a, b float32) {
	for i := range o {
		o[i] = fma32(o[i], a, float32(p[i]*b))
	}
}

func genericScale(dst, src []float32, f float32) {
	for i := range dst {
		dst[i] = src[i] * f
	}
}

func genericRound(x []float32) {
	for i, v := range x {
		x[i] = roundBF16(v)
	}
}

func genericAdd(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func genericMul(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func genericSiLU(x []float32) {
	for i, v := range x {
		x[i] = silu32(v)
	}
}

func genericGELU(x []float32) {
	for i, v := range x {
		x[i] = gelu32(v)
	}
}

func genericGELUTanh(x []float32) {
	for i, v := range x {
		x[i] = geluTanh32(v)
	}
}
