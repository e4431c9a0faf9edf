package courtesy

import (
	"errors"
	"testing"
	"time"
)

// What others leave: idle time and our own, of what our threads could have had.
func TestLeft(t *testing.T) {
	at := time.Unix(0, 0)
	s := time.Second
	for _, c := range []struct {
		what      string
		took      time.Duration
		idle, own time.Duration
		threads   int
		want      float64
	}{
		{"an idle machine of 4", 10 * s, 40 * s, 0, 4, 1},
		{"we alone", 10 * s, 0, 40 * s, 4, 1},
		{"others take half, and we the rest", 10 * s, 0, 20 * s, 4, 0.5},
		{"others take half, and we rest", 10 * s, 20 * s, 0, 4, 0.5},
		{"others take all", 10 * s, 0, 0, 4, 0},
		{"2 threads on 4 of which others take 2", 10 * s, 20 * s, 0, 2, 1},
		{"a clock that stands", 0, 0, 0, 4, 1},
		{"counters that go back", 10 * s, -40 * s, 0, 4, 0},
	} {
		if got := left(sample{at: at}, sample{at.Add(c.took), c.idle, c.own}, c.threads); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// A meter follows with half of each window, and stays at 1 where nobody tells.
func TestMeter(t *testing.T) {
	now := sample{at: time.Unix(0, 0)}
	var broken error
	m := &Meter{threads: 2, look: func() (sample, error) { return now, broken }, share: 1, last: now}
	step := func(took, own time.Duration, want float64) {
		t.Helper()
		now.at, now.own = now.at.Add(took), now.own+own
		if got := m.Share(); got != want {
			t.Errorf("after %v with %v: %v, want %v", took, own, got, want)
		}
	}
	step(0, 0, 1)
	step(time.Second, time.Second, 0.5) // a first look
	step(4*time.Second, 4*time.Second, 0.5)
	step(window, 2*window, 0.75)
	step(time.Second, 0, 0.75) // not a window yet
	step(window-time.Second, 0, 0.375)
	broken = errors.New("no")
	step(window, 0, 1)
	if m, err := NewMeter(1); err == nil && !(m.Share() >= 0 && m.Share() <= 1) {
		t.Errorf("this machine leaves %v", m.Share())
	}
}
