package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/store"
	"whorl/swarm"
)

func eventsOf(p swarm.PeerID) store.EventQuery { return store.EventQuery{Peer: p} }

// run starts the loop; the function ends it.
func (r *rig) run(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// A server is killed while a page is open: its blocks turn red without a reload.
func TestBlocksTurnRedLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newRig(t), manifest("tiny", 4)
		healthy := viewOf(m, record("a", m, 0, 2, swarm.Online), record("b", m, 2, 4, swarm.Online))
		r.dir.set(healthy)
		defer r.run(t)()
		synctest.Wait()
		page := r.listen(t, "/ui/live/models/"+string(m.UID()))
		defer page.end()
		first := page.next()
		for _, id := range []string{"banner", "verdict", "coverage", "servers", "history", "events", "join", "details", "asof"} {
			if _, ok := first.Sections[id]; !ok {
				t.Errorf("the first event lacks section %s", id)
			}
		}
		if got := cells(first.Sections["coverage"]); len(got) != 4 || got[2] != "2 online 1" {
			t.Errorf("blocks %v at first", got)
		}

		r.dir.set(viewOf(m, record("a", m, 0, 2, swarm.Online)))
		r.changes <- struct{}{}
		if took := page.until("coverage", `data-block="2" data-holders="0" data-state="missing"`); took > r.cfg.Period/5+r.cfg.Debounce {
			t.Errorf("a change that was told of took %v to be shown", took)
		}
		page.until("events", "left with blocks 2-3")

		r.dir.set(healthy) // nobody tells
		if took := page.until("coverage", `data-block="2" data-holders="1" data-state="online"`); took > r.cfg.Period {
			t.Errorf("a change took %v to be shown, the period is %v", took, r.cfg.Period)
		}
	})
}

// An event comes every period, with only what changed in it.
func TestStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newRig(t), manifest("tiny", 4)
		r.dir.set(viewOf(m, record("a", m, 0, 4, swarm.Online)))
		defer r.run(t)()
		synctest.Wait()
		page := r.listen(t, "/ui/live/")
		defer page.end()
		page.next()
		for range 6 {
			began := time.Now()
			u := page.next()
			if since := time.Since(began); since > r.cfg.Period {
				t.Fatalf("no event for %v", since)
			}
			if u.Stale || u.Now != time.Now().UnixMilli() {
				t.Errorf("event %+v at %v", u, time.Now())
			}
			for _, id := range []string{"verdict", "models", "join", "node"} {
				if html, ok := u.Sections[id]; ok {
					t.Errorf("section %s was sent again unchanged: %s", id, html)
				}
			}
		}
	})
}

func TestBurstOfChangesIsOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.run(t)()
		synctest.Wait()
		before := r.now.Load().at
		for range 20 {
			r.changes <- struct{}{}
			time.Sleep(10 * time.Millisecond) // of virtual time
		}
		time.Sleep(r.cfg.Period / 2)
		crawls, err := r.store.Crawls(t.Context(), store.Window{From: before.Add(time.Millisecond), To: time.Now()})
		if err != nil || len(crawls) != 1 {
			t.Errorf("%d rounds after a burst, want 1 (%v)", len(crawls), err)
		}
	})
}

// Streams end with the loop, so that a node can stop; there are not more than so many.
func TestStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *Deps) { c.Streams = 1 })
		stop := r.run(t)
		synctest.Wait()
		page := r.listen(t, "/ui/live/")
		page.next()
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/live/", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a stream too many: status %d", w.Code)
		}
		stop()
		synctest.Wait() // the handler has returned without being asked
		if n := r.streams.Load(); n != 0 {
			t.Errorf("%d streams are open after Run ended", n)
		}
		page.end()
	})
}

// A loop that stands still must not leave pages that say online.
func TestStalePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newRig(t), manifest("tiny", 4)
		r.dir.set(viewOf(m, record("a", m, 0, 4, swarm.Online)))
		r.refresh(t, nil)
		_, body := r.get(t, "/")
		wantText(t, body, "tiny is ready.")
		wantNot(t, body, "data-stale")
		time.Sleep(2*r.cfg.Period + time.Second)
		_, body = r.get(t, "/models/"+string(m.UID()))
		wantText(t, body, "<html lang=\"en\" data-stale", "The swarm has not been heard from recently.", `data-state="unknown"`)
		wantNot(t, body, `</span>online</span>`, `</span>healthy</span>`)
		if got := strings.Join(cells(body), ", "); got != "0 unknown 1, 1 unknown 1, 2 unknown 1, 3 unknown 1" {
			t.Errorf("blocks %s", got)
		}
	})
}

// The parts of case 040 that need no network: a model completed while one watches, then
// the database away for 60 s and back.
func TestCase040(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newRig(t), manifest("tiny", 8)
		a, b := record("a", m, 0, 4, swarm.Online), record("b", m, 4, 8, swarm.Online)
		r.dir.set(viewOf(m, a))
		defer r.run(t)()
		synctest.Wait()
		page := r.listen(t, "/ui/live/")
		defer page.end()
		first := page.next()
		wantText(t, first.Sections["models"], "</span>broken</span>", `data-block="4" data-holders="0" data-state="missing"`)
		wantText(t, first.Sections["verdict"], "Nobody holds blocks 4-7")
		r.dir.set(viewOf(m, a, b))
		page.until("models", "</span>healthy</span>")
		page.until("events", "serves blocks 4-7")

		r.store.stop(true)
		page.until("crawl", "</span>unavailable</span>")
		r.dir.set(viewOf(m, a)) // the page goes on telling of the swarm
		if took := page.until("models", `data-block="4" data-holders="0" data-state="missing"`); took > r.cfg.Period {
			t.Errorf("without a database a change took %v to be shown", took)
		}
		_, body := r.get(t, "/models/"+string(m.UID()))
		wantText(t, body, "History unavailable")
		time.Sleep(60 * time.Second)
		r.dir.set(viewOf(m, a, b))
		time.Sleep(r.cfg.Period)
		r.store.stop(false)
		page.until("crawl", "</span>kept</span>")
		synctest.Wait()

		// History went on, with a gap and without repeats; what happened meanwhile is told.
		events, err := r.store.Events(t.Context(), store.EventQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var oldest []store.Event
		for i := len(events) - 1; i >= 0; i-- {
			oldest = append(oldest, events[i])
		}
		want := "a server_online 0:4\nmodel_broken 0:0  4-7\nb server_online 4:8\nmodel_healthy 0:0\nb server_offline 4:8\nmodel_broken 0:0  4-7\nb server_online 4:8\nmodel_healthy 0:0  whole again after 1m5s"
		got := regexp.MustCompile(`after \S+`).ReplaceAllString(tell(oldest), "after 1m5s") // or what the period makes of it
		if got != want {
			t.Errorf("events\n%s\nwant\n%s", got, want)
		}
		crawls, err := r.store.Crawls(t.Context(), store.Window{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		gap := time.Duration(0)
		for i := 1; i < len(crawls); i++ {
			if !crawls[i].Started.After(crawls[i-1].Started) {
				t.Errorf("crawl %d repeats", i)
			}
			gap = max(gap, crawls[i].Started.Sub(crawls[i-1].Started))
		}
		if gap < time.Minute {
			t.Errorf("the longest gap is %v, want the outage", gap)
		}
	})
}
