package wire

import (
	"testing"

	"whorl/swarm"
)

// A report of a stage may say how much its server has to do: what is beyond a field is told as the most that fits,
// and what no server has is refused.
func TestDoneTells(t *testing.T) {
	for _, c := range []struct{ told, heard Told }{
		{Told{Load: swarm.Load{Busy: 0.5, Sessions: 7, Waiting: 2}, Left: 4096}, Told{Load: swarm.Load{Busy: 0.5, Sessions: 7, Waiting: 2}, Left: 4096}},
		{Told{}, Told{}},
		{Told{Load: swarm.Load{Busy: 1.5, Sessions: 1 << 20, Waiting: -1}, Left: 1 << 40}, Told{Load: swarm.Load{Busy: 1, Sessions: 65535}, Left: 64 * (1<<24 - 1)}},
		{Told{Load: swarm.Load{Busy: -1}, Left: 100}, Told{Left: 64}},
	} {
		d := Done{Epoch: 3, Position: 12, Step: 9, Tells: true, Told: c.told}
		b := d.Append(nil)
		got, err := ParseDone(b)
		if want := (Done{3, 12, 9, true, c.heard}); err != nil || got != want || len(b) != d.Size() || len(b) > TypeDone.limit() {
			t.Errorf("%+v: %+v, %v, %d bytes", c.told, got, err, len(b))
		}
	}
	plain := Done{Epoch: 1, Position: 2, Step: 3}
	if got, err := ParseDone(plain.Append(nil)); err != nil || got != plain || plain.Size() != 16 {
		t.Errorf("%+v, %v", got, err)
	}
	loud := Done{Tells: true}
	b := loud.Append(nil)
	b[DoneSize] = 101
	for _, bad := range [][]byte{b, b[:23], b[:17], append(b[:24:24], 0), nil} {
		if got, err := ParseDone(bad); err == nil {
			t.Errorf("%d bytes: %+v", len(bad), got)
		}
	}
}
