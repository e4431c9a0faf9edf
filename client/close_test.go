package client

import (
	"testing"

	"whorl/client/plan"
)

// Close takes the journals away while the session's goroutine may be replaying them.
func TestCloseDuringReplay(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Manifest.Hidden = 4
	s := &Session{e: &Engine{cfg: cfg}, chunk: 8, journals: map[int]*journal{}}
	s.ctx, s.kill = t.Context(), func(error) {}
	st := &stage{s: s}
	s.Close()
	if err := s.replay(t.Context(), st, plan.Range{From: 0, To: 5}); err == nil {
		t.Error("a closed session replays")
	}
}
