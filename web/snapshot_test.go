package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// snap is a snapshot of views at a second.
func snap(second int, views ...swarm.View) *snapshot {
	s := &snapshot{at: t0.Add(time.Duration(second) * time.Second), views: views}
	s.okAt = s.at
	for _, v := range views {
		s.coverage = append(s.coverage, store.Measure(v))
	}
	return s
}

func tell(events []store.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %v %s %s", e.Peer, e.Kind, e.Span, e.PublicName, e.Detail)))
	}
	return strings.Join(out, "\n")
}

func TestChanges(t *testing.T) {
	m := manifest("tiny", 20)
	var k known
	for i, step := range []struct {
		what string
		view []swarm.View
		want string
	}{
		{"an empty swarm", nil, ""},
		{"a server loads", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Joining, named("Ann")))}, "a server_joining 0:10\n model_broken 0:0  0-19"},
		{"and serves; its name may be shown now", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online, named("Ann")))},
			"a server_online 0:10 Ann\n model_broken 0:0  10-19"},
		{"nothing happens", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online, named("Ann")))}, ""},
		{"another completes it", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online), record("b", m, 10, 20, swarm.Online))},
			"b server_online 10:20\n model_healthy 0:0"},
		{"it moves", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online), record("b", m, 8, 20, swarm.Online))}, "b server_moved 8:20  10:20"},
		{"it is killed: its record runs out", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online))}, "b server_offline 8:20\n model_broken 0:0  10-19"},
		{"another means to take its blocks", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online), record("c", m, 0, 10, swarm.Online, goes(10, 20)))},
			"c server_online 0:10"},
		{"it says so again, and where", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online), record("c", m, 0, 10, swarm.Online, goes(8, 20)))},
			"c server_intends 0:10  8:20"},
		{"and does", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online), record("c", m, 8, 20, swarm.Online))},
			"c server_moved 8:20  0:10\n model_healthy 0:0  whole again after 3s"},
		{"and dies", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Online))}, "c server_offline 8:20\n model_broken 0:0  10-19"},
		{"the other drains and leaves", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Draining))}, "a server_draining 0:10\n model_broken 0:0  0-19"},
		{"politely", []swarm.View{viewOf(m, record("a", m, 0, 10, swarm.Offline))}, "a server_offline 0:10"},
		{"which is not said twice", []swarm.View{viewOf(m)}, ""},
	} {
		s := snap(i, step.view...)
		got := k.changes(s, 1)
		if text := tell(got); text != strings.ReplaceAll(step.want, "\n ", "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", step.what, text, step.want)
		}
		for _, e := range got {
			if !e.At.Equal(s.at) {
				t.Errorf("%s: event at %v, want %v", step.what, e.At, s.at)
			}
		}
	}
}

func TestRememberedModels(t *testing.T) {
	m, n := manifest("tiny", 4), manifest("other", 4)
	mem := memory{time.Hour, map[swarm.UID]seenModel{}}
	names := func(views []swarm.View) (out []string) {
		for _, v := range views {
			out = append(out, fmt.Sprintf("%s %d", v.Manifest.Name, len(v.Servers)))
		}
		return out
	}
	for _, step := range []struct {
		minute int
		views  []swarm.View
		want   string
	}{
		{0, []swarm.View{viewOf(m, record("a", m, 0, 4, swarm.Online)), viewOf(n, record("a", n, 0, 4, swarm.Online))}, "[other 1 tiny 1]"},
		{30, []swarm.View{viewOf(m, record("a", m, 0, 4, swarm.Online))}, "[tiny 1 other 0]"},
		{61, []swarm.View{viewOf(m, record("a", m, 0, 4, swarm.Online))}, "[tiny 1]"},
		{62, nil, "[tiny 0]"},
		{63, []swarm.View{{At: t0}}, "[tiny 0]"}, // a view of a model that nobody knows
		{200, nil, "[]"},
	} {
		if got := fmt.Sprint(names(mem.models(step.views, t0.Add(time.Duration(step.minute)*time.Minute)))); got != step.want {
			t.Errorf("minute %d: %s, want %s", step.minute, got, step.want)
		}
	}
	var flood []swarm.View
	for i := range 500 {
		f := manifest(fmt.Sprintf("flood%03d", i), 1)
		flood = append(flood, viewOf(f, record("a", f, 0, 1, swarm.Online)))
	}
	if got := len(mem.models(flood, t0)); got != maxModels {
		t.Errorf("%d models of a flood are shown, want %d", got, maxModels)
	}
	if got := len(mem.seen); got > maxModels {
		t.Errorf("%d models of a flood are remembered, want at most %d", got, maxModels)
	}
}

func TestPublicNameNeedsAShare(t *testing.T) {
	big, small := manifest("big", 80), manifest("small", 4)
	for _, c := range []struct {
		what string
		r    swarm.Record
		want string
	}{
		{"ten blocks", record("a", big, 0, 10, swarm.Online, named("Ann")), "Ann"},
		{"nine", record("a", big, 0, 9, swarm.Online, named("Ann")), ""},
		{"all of a small model", record("a", small, 0, 4, swarm.Online, named("Ann")), "Ann"},
		{"some of a small model", record("a", small, 0, 3, swarm.Online, named("Ann")), ""},
		{"not online", record("a", big, 0, 20, swarm.Joining, named("Ann")), ""},
	} {
		if got := publicName(&c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// A name that is longer than a page shows is cut there, and is still somebody's.
func TestLongNamesAreCut(t *testing.T) {
	m := manifest("big", 80)
	long := strings.Repeat("n", view.MaxName+20)
	got := contributors(&snapshot{views: []swarm.View{swarm.NewView(m, time.Now(), []swarm.Record{
		record("a", m, 0, 20, swarm.Online, named(long[:35])), record("b", m, 20, 30, swarm.Online, named(long)),
	})}})
	if len(got) != 2 || got[0].Name.Text != long[:35] || got[1].Name.Text != long[:view.MaxName-1]+"…" {
		t.Errorf("contributors %+v", got)
	}
}

func TestThinner(t *testing.T) {
	m := manifest("tiny", 4)
	th := thinner{15 * time.Second, map[swarm.UID]store.Coverage{}, map[serverKey]store.Observation{}}
	fast := func(r *swarm.Record) { r.Throughput = 99 }
	busy := func(r *swarm.Record) { r.CacheLeft = 1 }
	for _, step := range []struct {
		what   string
		second int
		view   swarm.View
		lost   bool // the write fails
		want   string
	}{
		{"new", 0, viewOf(m, record("a", m, 0, 4, swarm.Online)), false, "1 1"},
		{"unchanged", 5, viewOf(m, record("a", m, 0, 4, swarm.Online)), false, "0 0"},
		{"only the cache moved", 10, viewOf(m, record("a", m, 0, 4, swarm.Online, busy)), false, "0 0"},
		{"heartbeat", 15, viewOf(m, record("a", m, 0, 4, swarm.Online)), false, "1 1"},
		{"faster, but the database is down", 20, viewOf(m, record("a", m, 0, 4, swarm.Online, fast)), true, "1 1"},
		{"it is up again", 25, viewOf(m, record("a", m, 0, 4, swarm.Online, fast)), false, "1 1"},
		{"another server", 26, viewOf(m, record("a", m, 0, 4, swarm.Online, fast), record("b", m, 0, 4, swarm.Joining)), false, "0 1"},
		{"it left", 27, viewOf(m, record("a", m, 0, 4, swarm.Online, fast)), false, "0 0"},
		{"it is back", 28, viewOf(m, record("a", m, 0, 4, swarm.Online, fast), record("b", m, 0, 4, swarm.Joining)), false, "0 1"},
	} {
		s := snap(step.second, step.view)
		coverage, observations := th.sample(s)
		if got := fmt.Sprint(len(coverage), len(observations)); got != step.want {
			t.Errorf("%s: %s rows of coverage and observations, want %s", step.what, got, step.want)
		}
		if !step.lost {
			th.written(s, coverage, observations)
		}
	}
}

// goes is a record of a server that means to hold other blocks.
func goes(start, end int) func(*swarm.Record) {
	return func(r *swarm.Record) { r.Next = &swarm.Intent{Span: swarm.Span{Start: start, End: end}} }
}
