package budget

import (
	"fmt"
	"testing"
	"time"
)

// Who goes on after its share of refusals is shut out, for twice as long each time, until it has behaved;
// its neighbours are not, unless the whole prefix goes on; and what is remembered is bounded.
func TestPenalties(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	p := NewPenalties(Rate{4, 2}, Rate{10, 5}, 10*time.Second, 35*time.Second)
	until := func(who Who) (n int) { // refusals until it is shut out
		for n = 1; !p.Refused(who, now); n++ {
			if n == 100 {
				return 0
			}
		}
		return n
	}
	a, b := Who{"a", "x"}, Who{"b", "x"}
	for i, long := range []time.Duration{10, 20, 35, 35} {
		if n := until(a); n != 5 {
			t.Errorf("time %d: shut out after %d refusals", i, n)
		}
		if !p.Out(a, now) || p.Out(b, now) {
			t.Errorf("time %d: a is out: %v, b: %v", i, p.Out(a, now), p.Out(b, now))
		}
		if now = now.Add(long*time.Second - 1); !p.Out(a, now) {
			t.Errorf("time %d: not out until %v have passed", i, long)
		}
		if now = now.Add(1); p.Out(a, now) {
			t.Errorf("time %d: out for more than %v", i, long)
		}
	}
	now = now.Add(35 * time.Second)
	until(a)
	if now = now.Add(10 * time.Second); p.Out(a, now) {
		t.Error("who has behaved begins again with the longest time")
	}
	now = now.Add(time.Minute)
	for range 60 { // now and then
		if now = now.Add(time.Second); p.Refused(a, now) || p.Refused(a, now) {
			t.Fatal("two refusals a second are forgiven")
		}
	}
	now = now.Add(time.Minute)
	n := 0
	for ; n < 100 && !p.Out(b, now); n++ {
		p.Refused(Who{fmt.Sprint("c", n), "x"}, now)
	}
	if n != 11 || p.Out(Who{"b", "y"}, now) {
		t.Errorf("a prefix is shut out after %d refusals of others in it", n)
	}
	for range 100 {
		if p.Refused(Who{}, now) || p.Out(Who{}, now) {
			t.Fatal("nobody in particular is shut out")
		}
	}
	for i := range 5 * maxPaced {
		p.Refused(Who{fmt.Sprint("p", i), fmt.Sprint("n", i)}, now)
	}
	if len(p.held) > maxPaced+2 {
		t.Errorf("%d are remembered", len(p.held))
	}
}
