package nn

import "math"

// YarnMagnitude is the factor of cos and sin by which yarn makes up for attention growing
// flat over a context stretched by factor. scale and scaleAll are "mscale" and
// "mscale_all_dim" of configurations, 0 where they are not given.
func YarnMagnitude(factor, scale, scaleAll float64) float32 {
	grow := func(by float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*by*math.Log(factor) + 1
	}
	if scale != 0 && scaleAll != 0 {
		return float32(grow(scale) / grow(scaleAll))
	}
	return float32(grow(1))
}

// LongMagnitude is that factor for longrope, which stretches a context of old positions.
func LongMagnitude(factor float64, old int) float32 {
	if factor <= 1 || old <= 1 {
		return 1
	}
	return float32(math.Sqrt(1 + math.Log(factor)/math.Log(float64(old))))
}
