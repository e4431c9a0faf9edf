package server

import (
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
)

func TestBusy(t *testing.T) {
	for _, c := range []struct {
		every, took time.Duration
		want        float64
	}{
		{100 * time.Millisecond, 100 * time.Millisecond, 1}, {100 * time.Millisecond, 50 * time.Millisecond, 0.5}, {time.Second, 10 * time.Millisecond, 0.01},
	} {
		var b busy
		now := time.Unix(1000, 0)
		for range int(time.Minute / c.every) {
			now = now.Add(c.every)
			b.add(now, c.took)
		}
		if got := b.share(now); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("%v every %v: %v, want %v", c.took, c.every, got, c.want)
		}
		if got := b.share(now.Add(2 * time.Minute)); got != 0 {
			t.Errorf("%v after two minutes of nothing", got)
		}
	}
	if new(busy).share(time.Now()) != 0 {
		t.Error("one that never computed is busy")
	}
}

// A record tells how much its server has to do.
func TestLoadIsAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 2}
		n := w.serve("a", span, nil)
		n.engine.takes = 50 * time.Millisecond
		p := w.opened(n, "client", span, nil)
		in := input(1, 200)
		for i := range 190 {
			p.rows(in, i, i+1, 0)
			p.position(i + 1)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if r := w.last("a"); r.Load == nil || r.Load.Sessions != 1 || r.Load.Busy < 0.2 || r.Load.Busy > 0.6 {
			t.Errorf("load %+v", r.Load)
		}
		p.close()
	})
}
