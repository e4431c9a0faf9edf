package wire

import (
	"errors"
	"testing"
)

func TestBeams(t *testing.T) {
	parents := func(p ...uint8) (out [MaxBeams]uint8) {
		copy(out[:], p)
		return out
	}
	for _, c := range []struct {
		name         string
		start, count uint32
		beams        Beams
		ok           bool
	}{
		{"first step", 5, 3, Beams{3, 5, parents(0, 0, 0)}, true},
		{"later step", 11, 3, Beams{3, 5, parents(2, 0, 2)}, true},
		{"end of a step", 12, 2, Beams{3, 5, parents(2, 0, 2)}, true},
		{"middle of a step", 12, 1, Beams{3, 5, parents(2, 0, 2)}, true},
		{"two steps", 11, 4, Beams{3, 5, parents(0, 0, 0)}, false},
		{"beyond a step", 12, 3, Beams{3, 5, parents(0, 0, 0)}, false},
		{"before the fork", 4, 1, Beams{3, 5, parents(0, 0, 0)}, false},
		{"nothing before the fork", 0, 3, Beams{3, 0, parents(0, 0, 0)}, false},
		{"no such parent", 11, 3, Beams{3, 5, parents(0, 3, 0)}, false},
		{"a second parent at the fork", 6, 2, Beams{3, 5, parents(0, 1, 0)}, false},
		{"most", 1, MaxBeams, Beams{MaxBeams, 1, parents()}, true},
	} {
		h := RowsHeader{Session: SessionID{1}, Epoch: 2, Start: c.start, Count: c.count, Codec: 1, Beams: c.beams}
		got, data, err := ParseRows(append(h.Append(nil), "data"...))
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.ok && (got != h || string(data) != "data") {
			t.Errorf("%s: %+v with %q", c.name, got, data)
		}
	}
	whole := (&RowsHeader{Start: 1, Count: 1, Beams: Beams{N: 9, Fork: 1}}).Append(nil)
	for n := RowsSize; n < len(whole); n++ {
		if _, _, err := ParseRows(whole[:n]); !errors.Is(err, ErrFrame) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	whole[41] = MaxBeams + 1
	if _, _, err := ParseRows(append(whole, make([]byte, 99)...)); !errors.Is(err, ErrFrame) {
		t.Errorf("too many sequences: %v", err)
	}
}

func TestBeamsPlaces(t *testing.T) {
	b := Beams{N: 3, Fork: 4}
	for row, want := range map[int][2]int{4: {4, 4}, 5: {4, 4}, 6: {4, 4}, 7: {7, 5}, 9: {7, 5}, 10: {10, 6}} {
		if step, pos := b.Step(row), b.Position(row); step != want[0] || pos != want[1] {
			t.Errorf("row %d: step %d, position %d, want %v", row, step, pos, want)
		}
	}
	if one := (Beams{}); one.Position(17) != 17 {
		t.Errorf("one sequence: position %d", one.Position(17))
	}
}

func TestBeamsParents(t *testing.T) {
	b := Beams{N: 3, Fork: 4, Parents: [MaxBeams]uint8{2, 0, 2}}
	// Rows 0 to 3 are one sequence; 4 to 6 are the first step, 7 to 9 the next.
	for row, want := range map[int]int{0: -1, 1: 0, 3: 2, 4: 3, 5: 3, 6: 3, 7: 6, 8: 4, 9: 6} {
		if got := b.Parent(row); got != want {
			t.Errorf("row %d continues %d, want %d", row, got, want)
		}
	}
	if one := (Beams{}); one.Parent(0) != -1 || one.Parent(17) != 16 {
		t.Errorf("one sequence: rows 0 and 17 continue %d and %d", one.Parent(0), one.Parent(17))
	}
}
