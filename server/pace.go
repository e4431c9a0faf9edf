package server

import (
	"math"

	"whorl/swarm"
)

// Announced speeds follow what other programs leave of the processor in eighths: finer steps
// would have others plan anew for noise.
const paceSteps = 8

// leastLeft bounds how far a speed that was measured beside busy programs is scaled up.
const leastLeft = 0.25

// pacedLocked are rates and throughput as the present load of the machine leaves them. What an
// operator declared is announced as it is.
func (s *Server) pacedLocked() (swarm.Rates, float64) {
	if s.deps.Left == nil || s.cfg.Measuring == MeasureNever {
		return s.rates, s.offered
	}
	return paced(s.rates, s.offered, s.deps.Left())
}

// paced scales speeds of the whole processor to the part of it that others leave, 0 to 1.
func paced(r swarm.Rates, offered, left float64) (swarm.Rates, float64) {
	f := max(math.Round(left*paceSteps), 1) / paceSteps
	scaled := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		w := *v * f
		return &w
	}
	r.InferenceRPS, r.ForwardRPS = scaled(r.InferenceRPS), scaled(r.ForwardRPS)
	return r, offered * f
}
