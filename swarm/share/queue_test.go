package share

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"whorl/swarm"
)

// The rarest piece first, then the first; what a slow peer owes may be asked of a quick one.
func TestQueue(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := newQueue([]int{3, 0, 1, 2, 3})
	has := func(pieces ...int) func(int) bool { return func(i int) bool { return slices.Contains(pieces, i) } }
	q.join("a", has(0, 1, 2, 3))
	q.join("b", has(0, 1, 3))
	q.join("c", has(0))
	next := func(p swarm.PeerID, want int) {
		t.Helper()
		got, ok := q.next(p, now)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s is asked for %d, want %d", p, got, want)
		}
	}
	next("a", 2) // it alone has it
	next("a", 1)
	next("b", 3)
	next("c", 0)
	next("c", -1)
	next("b", -1)
	now = now.Add(overdueLeast)
	next("b", 0)
	next("a", 3)
	next("c", -1) // it owes what it could be asked for
	if !q.claim(0) || q.claim(0) {
		t.Error("a piece is claimed twice")
	}
	q.got("b", 0, now)
	q.leave("a")
	next("b", 1)
	if q.got("b", 1, now); q.done() {
		t.Error("done too early")
	}
	q.lacks("b", 3)
	next("b", -1)
	if got := q.orphans(); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("orphans %v", got)
	}
}

// Bytes go at the rate asked for; while the node computes for users a twentieth of them goes.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := false
		took := func(p *Pace, bytes int) time.Duration {
			began := time.Now()
			for range bytes / slice {
				if err := p.Wait(context.Background(), slice); err != nil {
					t.Fatal(err)
				}
			}
			p.Wait(context.Background(), 0)
			return time.Since(began)
		}
		p := NewPace(1<<20, func() bool { return busy })
		if d := took(p, 8<<20); d != 8*time.Second {
			t.Errorf("8 MiB at 1 MiB/s took %v", d)
		}
		busy = true
		if d := took(p, 1<<20); d.Round(time.Second) != 20*time.Second {
			t.Errorf("1 MiB at the floor of 1 MiB/s took %v", d)
		}
		free := NewPace(0, func() bool { return busy })
		if d, want := took(free, 256<<20), 10*time.Second; d.Round(time.Second) != want {
			t.Errorf("256 MiB of a busy node without a limit took %v, want %v", d, want)
		}
		busy = false
		time.Sleep(time.Minute)
		if d := took(free, 64<<20); d != 0 {
			t.Errorf("an idle node without a limit waits %v", d)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if p.Wait(ctx, 1) == nil {
			t.Error("waits for nobody")
		}
	})
}
