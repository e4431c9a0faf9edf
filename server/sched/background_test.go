package sched

import (
	"testing"
	"time"
)

// Background work is computed while nothing else is ready, a few rows at a time; it takes no turn
// of others, of whatever key, unless it has waited for seconds, and its peer pays nothing for it.
func TestBackground(t *testing.T) {
	q := New()
	now := time.Duration(0)
	left := 64
	want := func(what string, want Session) {
		t.Helper()
		grants, _ := q.Next(now, 256)
		if len(grants) != 1 || grants[0].Session != want {
			t.Fatalf("%s: %v, want session %d", what, grants, want)
		}
		if n := grants[0].Rows; want == 1 {
			if left -= n; n > backgroundRows && what != "after a long wait" {
				t.Errorf("%s: %d rows at a time", what, n)
			}
		}
		q.Computed(now, time.Millisecond)
		now += time.Millisecond
	}
	q.Open(1, "auditor", Key{Start: 0, End: 4})
	q.Background(1)
	q.Open(2, "user", Key{Start: 0, End: 4})
	q.Open(3, "user", Key{Start: 2, End: 4})
	q.Push(now, 1, 1, 64, Prefill)
	want("alone", 1)
	q.Push(now, 2, 2, 100, Prefill)
	q.Push(now, 3, 3, 50, Prefill)
	want("beside a prompt", 2)
	want("beside one of another key", 3)
	want("alone again", 1)
	now += overdue
	q.Push(now, 3, 4, 50, Prefill)
	want("after a long wait", 1)
	want("the other's turn", 3)
	for left > 0 {
		want("the rest", 1)
	}
	if served := q.sessions[1].peer.served; served != 0 {
		t.Errorf("its peer was charged %d rows", served)
	}
	if items, rows := q.Len(); items != 0 || rows != 0 {
		t.Errorf("%d items and %d rows are left", items, rows)
	}
}
