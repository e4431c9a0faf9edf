package backoff

import (
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	plain, drawn := Policy{First: 3 * time.Second, Max: time.Minute}, Policy{First: 3 * time.Second, Max: time.Minute, Jitter: 0.5}
	for _, c := range []struct {
		p        Policy
		failures int
		draw     float64
		want     time.Duration
	}{
		{plain, 1, 0.9, 3 * time.Second}, {plain, 2, 0.9, 6 * time.Second}, {plain, 5, 0, 48 * time.Second},
		{plain, 6, 0, time.Minute}, {plain, 1 << 40, 0, time.Minute}, {plain, 0, 0, 3 * time.Second},
		{drawn, 2, 0, 6 * time.Second}, {drawn, 2, 0.5, 4500 * time.Millisecond}, {drawn, 99, 1, 30 * time.Second},
	} {
		if got := c.p.After(c.failures, c.draw); got != c.want {
			t.Errorf("%+v after %d with %v: %v, want %v", c.p, c.failures, c.draw, got, c.want)
		}
	}
}
