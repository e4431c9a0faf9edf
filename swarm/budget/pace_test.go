package budget

import (
	"fmt"
	"testing"
	"time"
)

// A peer has its burst and then its rate, many peers of a prefix have that of the prefix, and
// what is remembered of them is bounded.
func TestPace(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	p := NewPace(Rate{4, 2}, Rate{10, 5})
	took := func(who Who, tries int) (n int) {
		for range tries {
			if p.Take(who, now) {
				n++
			}
		}
		return n
	}
	a := Who{Peer: "a", Net: "x"}
	if n := took(a, 100); n != 4 {
		t.Errorf("at once: %d", n)
	}
	now = now.Add(time.Second)
	if n := took(a, 100); n != 2 {
		t.Errorf("after a second: %d", n)
	}
	n := 0
	for i := range 100 {
		n += took(Who{Peer: fmt.Sprint(i), Net: "x"}, 1)
	}
	if n != 8 { // of 10, since what a took first has come back
		t.Errorf("a hundred of one prefix: %d", n)
	}
	if n := took(Who{Peer: "b", Net: "y"}, 100); n != 4 {
		t.Errorf("of another prefix: %d", n)
	}
	if n := took(Who{Peer: "c"}, 100); n != 4 {
		t.Errorf("of none: %d", n)
	}
	if n := took(Who{}, 100); n != 100 {
		t.Errorf("of this node: %d", n)
	}
	late := now.Add(time.Second)
	p.Take(a, late)
	p.Take(a, now) // who read the clock before, and had the lock after
	n = 0
	for range 100 {
		if p.Take(a, late) {
			n++
		}
	}
	if n != 0 {
		t.Errorf("a second that was given twice: %d", n)
	}
	now = now.Add(-time.Hour) // a clock that is set back gives nothing
	if n := took(a, 100); n != 0 {
		t.Errorf("an hour before: %d", n)
	}
	for i := range 3 * maxPaced {
		p.Take(Who{Peer: fmt.Sprint("p", i), Net: fmt.Sprint("n", i%100)}, now)
	}
	if len(p.held) > maxPaced+200 {
		t.Errorf("%d holders are remembered", len(p.held))
	}
}
