package train

import (
	"fmt"
	"math"
)

// Optimizer is AdamW: Adam with decay of the weights beside the gradient's step.
type Optimizer struct {
	Beta1, Beta2, Eps float64
	Decay             float64 // of the weights, per step, times the rate
	// State, of one parameter after the other as in Tables; the powers of the betas are kept
	// as numbers, since no two libraries give the same power.
	M, V           []float32
	Power1, Power2 float64
	Steps          int
}

// NewOptimizer has torch's defaults.
func NewOptimizer(decay float64) *Optimizer {
	return &Optimizer{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: decay, Power1: 1, Power2: 1}
}

// Step moves parameters against their gradients. For each value, every operation rounded to
// float32 and rate, c1 = 1-Beta1^n and c2 = 1-Beta2^n as float64 before that:
//
//	p = p * (1 - rate*Decay)
//	m = Beta1*m + (1-Beta1)*g
//	v = Beta2*v + (1-Beta2)*g*g
//	p = p - (rate/c1) * (m / (sqrt(v)/sqrt(c2) + Eps))
func (o *Optimizer) Step(params, grads [][]float32, rate float64) {
	n := 0
	for _, p := range params {
		n += len(p)
	}
	if o.M == nil {
		o.M, o.V = make([]float32, n), make([]float32, n)
	}
	if len(o.M) != n {
		panic(fmt.Sprintf("train: an optimizer of %d values for %d", len(o.M), n))
	}
	o.Steps++
	o.Power1 *= o.Beta1
	o.Power2 *= o.Beta2
	keep, step := float32(1-rate*o.Decay), float32(rate/(1-o.Power1))
	root, eps := float32(math.Sqrt(1-o.Power2)), float32(o.Eps)
	b1, b2, a1, a2 := float32(o.Beta1), float32(o.Beta2), float32(1-o.Beta1), float32(1-o.Beta2)
	at := 0
	for i, p := range params {
		for j, g := range grads[i] {
			m := float32(b1*o.M[at]) + float32(a1*g)
			v := float32(b2*o.V[at]) + float32(a2*float32(g*g))
			o.M[at], o.V[at] = m, v
			below := float32(float32(math.Sqrt(float64(v)))/root) + eps
			p[j] = float32(p[j]*keep) - float32(step*float32(m/below))
			at++
		}
	}
}

// Clip scales gradients so that the root of the sum of their squares, a float64 sum in order, is
// at most limit, and returns what it was. 0 clips nothing.
func Clip(grads [][]float32, limit float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, v := range g {
			sum += float64(float64(v) * float64(v))
		}
	}
	norm := math.Sqrt(sum)
	if limit > 0 && norm > limit {
		scale := float32(limit / norm)
		for _, g := range grads {
			for i := range g {
				g[i] *= scale
			}
		}
	}
	return norm
}

// Schedule says how the rate goes with the steps.
type Schedule string

// The schedules: after a warm-up from 0 the rate stays, falls in a line to 0, or falls to 0 as a
// quarter of... half a cosine wave.
const (
	Constant Schedule = "constant"
	Linear   Schedule = "linear"
	Cosine   Schedule = "cosine"
)

// Schedules lists them.
func Schedules() []string { return []string{string(Linear), string(Cosine), string(Constant)} }

// Rate is the rate of a step, counted from 0, of so many, of which the first warmup rise to top.
func (s Schedule) Rate(top float64, step, warmup, steps int) float64 {
	if step < warmup {
		return top * float64(step+1) / float64(warmup+1)
	}
	left := float64(steps-step) / float64(max(1, steps-warmup))
	switch s {
	case Linear:
		return top * left
	case Cosine:
		return top * cosine(1-left)
	}
	return top
}

// cosine is (1+cos(pi*x))/2 for x of 0 to 1, rounded alike everywhere: a table of 1024 steps, made by
// turning, and a line between its points.
func cosine(x float64) float64 {
	at := x * float64(len(wave)-1)
	i := min(int(at), len(wave)-2)
	f := at - float64(i)
	return wave[i] + float64(f*(wave[i+1]-wave[i]))
}

// wave is (1+cos(pi*i/1024))/2, by halving angles with roots and adding them.
var wave = func() (t [1025]float64) {
	// cos and sin of pi/1024, from pi/2 by halving ten times... nine.
	c, s := 0.0, 1.0
	for range 9 {
		c, s = math.Sqrt((1+c)/2), math.Sqrt((1-c)/2)
	}
	x, y := 1.0, 0.0
	for i := range t {
		t[i] = (1 + x) / 2
		x, y = float64(x*c)-float64(y*s), float64(y*c)+float64(x*s)
	}
	return t
}()
