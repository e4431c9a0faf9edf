package model

import (
	"testing"

	"whorl/model/nn"
)

func TestLongestSession(t *testing.T) {
	for _, c := range []struct {
		rope nn.Rope
		want int
	}{
		{nn.Rope{}, 100},
		{nn.Rope{Kind: nn.RopeLong, OldContext: 50}, 100},
		{nn.Rope{Kind: nn.RopeDynamic, Factor: 2.5, OldContext: 100}, 250},
		{nn.Rope{Kind: nn.RopeDynamic, Factor: 1, OldContext: 100}, 100},
	} {
		if got := (Config{MaxPositions: 100, Spec: nn.Spec{Rope: c.rope}}).LongestSession(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.rope, got, c.want)
		}
	}
}
