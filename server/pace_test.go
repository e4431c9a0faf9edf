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
	s.cfg.Manifest.Hidden = 1024 // an assumed link passes 1525 rows
	s.rates, s.offered = swarm.Rates{InferenceRPS: &inference}, 10
	if r, offered := s.pacedLocked(); r.InferenceRPS != &inference || offered != 10 {
		t.Error("a server that does not give way announces something else than it measured")
	}
	s.deps.Left = func() float64 { return 0.5 }
	if _, offered := s.pacedLocked(); offered != 5 {
		t.Errorf("half: %v", offered)
	}
	// A row comes in and goes out twice, in 4 bytes a value.
	link := swarm.Link{Up: 3 * 8192, Down: 1e9}
	s.deps.Link = func() (swarm.Link, bool) { return link, true }
	if r, offered := s.pacedLocked(); offered != 3 || *r.NetworkRPS != 3 || s.rates.NetworkRPS != nil {
		t.Errorf("a slow line up: %v offered, %v", offered, *r.NetworkRPS)
	}
	if link = (swarm.Link{Up: 1e9, Down: 4 * 4096}); true {
		if r, offered := s.pacedLocked(); offered != 4 || *r.NetworkRPS != 4 {
			t.Errorf("a slow line down: %v", offered)
		}
	}
	s.offered = 1e9
	s.deps.Link = func() (swarm.Link, bool) { return swarm.Link{}, false }
	if r, offered := s.pacedLocked(); r.NetworkRPS != nil || offered != swarm.AssumedLink.RPS(1024) {
		t.Errorf("a link that was not measured: %v offered", offered)
	}
	s.offered = 10
	if s.cfg.Measuring = MeasureNever; true {
		if _, offered := s.pacedLocked(); offered != 10 {
			t.Errorf("a declared speed: %v", offered)
		}
	}
}
