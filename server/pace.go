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

// pacedLocked are rates and throughput as the present load of the machine and its link leave
// them. What an operator declared is announced as it is.
func (s *Server) pacedLocked() (swarm.Rates, float64) {
	r, offered := s.rates, s.offered
	declared := s.cfg.Measuring == MeasureNever
	if s.deps.Left != nil && !declared {
		r, offered = paced(r, offered, s.deps.Left())
	}
	rps, measured := s.network()
	if measured {
		r.NetworkRPS = &rps
	}
	if !declared {
		offered = min(offered, rps)
	}
	return r, offered
}

// network is how many rows a second pass this server, measured or assumed.
func (s *Server) network() (rps float64, measured bool) {
	link := swarm.AssumedLink
	if s.deps.Link != nil {
		if l, ok := s.deps.Link(); ok {
			link, measured = l, true
		}
	}
	return link.RPS(s.cfg.Manifest.Hidden), measured
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
