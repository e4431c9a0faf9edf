package web

import (
	"context"
	"testing"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/swarm/health"
)

func TestYoungHistoryFillsItsChart(t *testing.T) {
	for _, c := range []struct {
		what       string
		age        time.Duration // of the history
		from, step time.Duration
	}{
		{"none", 0, 24 * time.Hour, 5 * time.Minute},
		{"some seconds", 30 * time.Second, 2 * time.Minute, 15 * time.Second},
		{"two hours", 2 * time.Hour, 2 * time.Hour, 30 * time.Second},
		{"a day", 24 * time.Hour, 24 * time.Hour, 5 * time.Minute},
	} {
		r := newRig(t)
		for age := c.age; age > 0; age -= max(c.age/100, time.Second) {
			s := store.Sample{Crawl: store.Crawl{Started: t0.Add(-age)}, Coverage: []store.Coverage{{Model: "m", At: t0.Add(-age), Coverage: health.Coverage{Counts: []int{1}, MinRedundancy: 1}}}}
			if err := r.store.Write(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		w, rows, err := fitted(r.Site, t.Context(), t0, 24*time.Hour, 5*time.Minute, func(c store.Coverage) time.Time { return c.At },
			func(ctx context.Context, w store.Window) ([]store.Coverage, error) {
				return r.store.Coverage(ctx, "m", w)
			})
		if err != nil {
			t.Fatal(err)
		}
		if off := t0.Sub(w.From) - c.from; off > 0 || off < -w.Step || w.Step != c.step || len(rows) == 0 != (c.age == 0) {
			t.Errorf("%s: %d rows of the last %v in steps of %v, want %v in steps of %v", c.what, len(rows), t0.Sub(w.From), w.Step, c.from, c.step)
		}
	}
}

func TestHistoryIsReadOncePerLoad(t *testing.T) {
	r, m := newRig(t), manifest("tiny", 4)
	r.dir.set(viewOf(m, record("a", m, 0, 4, swarm.Online)))
	l := r.refresh(t, nil)
	path := "/models/" + string(m.UID())
	_, body := r.get(t, path)
	wantText(t, body, "Holders of the scarcest block", "The same as a table")
	r.store.stop(true) // what was read before is shown to the next visitor, too
	_, body = r.get(t, path)
	wantText(t, body, "The same as a table")
	_, body = r.get(t, path+"?range=7d")
	wantText(t, body, unavailable)
	r.store.stop(false)
	l.loadPast(t.Context())
	_, body = r.get(t, path+"?range=7d")
	wantNot(t, body, unavailable)
}
