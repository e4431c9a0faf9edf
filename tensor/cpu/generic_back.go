package cpu

import "whorl/tensor"

func genericRMSNormBack(dst, src, dy, gain []float32, eps float32) {
	var acc [lanes]float32
	for i, v := range src {
		acc[i%lanes] = fma32(v, v, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/float32(len(src))+eps)
	acc = [lanes]float32{}
	for i, v := range src {
		acc[i%lanes] = fma32(float32(v*inv), float32(dy[i]*gain[i]), acc[i%lanes])
	}
	m := tree(&acc) / float32(len(src))
	for i, v := range src {
		dst[i] = fma32(-float32(v*inv), m, float32(dy[i]*gain[i])) * inv
	}
}

func genericLayerNormBack(dst, src, dy, gain []float32, eps float32) {
	var acc, sum [lanes]float32
	n := float32(len(src))
	for i, v := range src {
		acc[i%lanes] += v
	}
	mean := tree(&acc) / n
	acc = [lanes]float32{}
	for i, v := range src {
		c := v - mean
		acc[i%lanes] = fma32(c, c, acc[i%lanes])
	}
	inv := 1 / sqrt32(tree(&acc)/n+eps)
	acc = [lanes]float32{}
	for i, v := range src {
		t := float32(dy[i] * gain[i])
		acc[i%lanes] = fma32(float32((v-mean)*inv), t, acc[i%lanes])
		sum[i%lanes] += t
	}
	m, a := tree(&acc)/n, tree(&sum)/n
	for i, v := range src {
		h := float32((v - mean) * inv)
		dst[i] = fma32(-h, m, float32(dy[i]*gain[i])-a) * inv
	}
}

func genericDot(a, b []float32) float32 {
	var acc [lanes]float32
	for i, v := range a {
		acc[i%lanes] = fma32(v, b[i], acc[i%lanes])
	}
	return tree(&acc)
}

func genericTurn(dst []float32, dstStride int, src []float32, srcStride int) {
	for i := range lanes {
		row := (*[lanes]float32)(src[i*srcStride:])
		for j, v := range row {
			dst[j*dstStride+i] = v
		}
	}
}

func genericWeigh(x, dp []float32, m, inv, d, scale, limit float32) {
	for j, v := range x {
		p := float32(exp32(v-m) * inv)
		ds := float32(p * (dp[j] - d))
		if limit != 0 {
			r := v / limit
			ds = float32(ds * fma32(-r, r, 1))
		}
		x[j], dp[j] = p, ds*scale
	}
}

func genericSlope(act tensor.Activation) func(x []float32) {
	return func(x []float32) {
		for i, v := range x {
			x[i] = slope32(act, v)
		}
	}
}

// slopeMax bounds the argument of slope32: beyond it derivatives are 0 or 1, and products of
// an infinity with a zero would make them NaN.
const slopeMax = 100

// slope32 is the derivative of an activation.
func slope32(act tensor.Activation, x float32) float32 {
	if act == tensor.NoActivation {
		return 1
	}
	if x > slopeMax {
		x = slopeMax
	}
	if x < -slopeMax {
		x = -slopeMax
	}
	switch act {
	case tensor.SiLU:
		s := 1 / (1 + exp32(-x))
		return fma32(float32(x*s), 1-s, s)
	case tensor.GELUTanh:
		q := float32(x * x)
		s := 1 / (1 + exp32(float32(x*fma32(q, geluK1, geluK0))))
		return fma32(float32(float32(x*s)*(1-s)), -fma32(q, 3*geluK1, geluK0), s)
	}
	density := float32(exp32(float32(float32(x*x)*-0.5)) * invSqrt2Pi)
	return fma32(x, density, float32(0.5*erf1(x)))
}

const invSqrt2Pi = 0.3989422804014327 // (2*pi)^-1/2
