package server

import (
	"testing"

	"whorl/swarm"
)

// What is announced follows what other programs leave, in eighths, and never to nothing.
func TestPaced(t *testing.T) {
	inference, network := 80.0, 5.0
	for _, c := range []struct{ left, measured, want float64 }{
		{1, 1, 1}, {0.5, 1, 0.5}, {0.52, 1, 0.5}, {0.97, 1, 1}, {0, 1, 0.125}, {0.03, 1, 0.125},
		{1, 0.5, 2},  // it was measured beside another program, which has ended
		{1, 0.01, 4}, // and beside so many that what was measured says little
		{0.5, 0.5, 1},
	} {
		r, offered := paced(swarm.Rates{InferenceRPS: &inference, NetworkRPS: &network}, 10, c.left, c.measured)
		if *r.InferenceRPS != 80*c.want || offered != 10*c.want || *r.NetworkRPS != 5 || r.ForwardRPS != nil {
			t.Errorf("left %v, measured at %v: %v and %v, want %v", c.left, c.measured, *r.InferenceRPS, offered, c.want)
		}
	}
	if inference != 80 {
		t.Error("what was measured has changed")
	}
	s := &Server{}
	s.rates, s.offered, s.leftMeasured = swarm.Rates{InferenceRPS: &inference}, 10, 1
	if r, offered := s.pacedLocked(); r.InferenceRPS != &inference || offered != 10 {
		t.Error("a server that does not give way announces something else than it measured")
	}
	s.deps.Left = func() float64 { return 0.5 }
	if _, offered := s.pacedLocked(); offered != 5 {
		t.Errorf("half: %v", offered)
	}
	if s.cfg.Measuring = MeasureNever; true {
		if _, offered := s.pacedLocked(); offered != 10 {
			t.Errorf("a declared speed: %v", offered)
		}
	}
}
