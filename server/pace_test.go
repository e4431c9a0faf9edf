package server

import (
	"testing"

	"whorl/swarm"
)

// What is announced follows what other programs leave, in eighths, and never to nothing.
func TestPaced(t *testing.T) {
	inference, network := 80.0, 5.0
	for _, c := range []struct{ left, want float64 }{{1, 1}, {0.5, 0.5}, {0.52, 0.5}, {0.97, 1}, {0, 0.125}, {0.03, 0.125}} {
		r, offered := paced(swarm.Rates{InferenceRPS: &inference, NetworkRPS: &network}, 10, c.left)
		if *r.InferenceRPS != 80*c.want || offered != 10*c.want || *r.NetworkRPS != 5 || r.ForwardRPS != nil {
			t.Errorf("left %v: %v and %v, want %v", c.left, *r.InferenceRPS, offered, c.want)
		}
	}
	if inference != 80 {
		t.Error("what was measured has changed")
	}
	s := &Server{}
	s.rates, s.offered = swarm.Rates{InferenceRPS: &inference}, 10
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
