package store

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/health"
)

// t0 is the time all samples count from.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// always is a window that holds everything.
var always = Window{From: t0.Add(-1000 * time.Hour), To: t0.Add(1000 * time.Hour)}

func ptr[T any](v T) *T { return &v }

// sampleAt is a sample of a gateway with one crawl and nothing else.
func sampleAt(source swarm.PeerID, seconds int) Sample {
	return Sample{Source: source, Crawl: Crawl{Started: at(seconds), Duration: 3 * time.Millisecond}}
}

func mustWrite(t *testing.T, s Store, samples ...Sample) {
	t.Helper()
	for _, sample := range samples {
		if err := s.Write(t.Context(), sample); err != nil {
			t.Fatal(err)
		}
	}
}

// must reads.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// testSuite is what every home of history must do. open gives an empty one.
func testSuite(t *testing.T, open func(t *testing.T, l Limits) Store) {
	for _, c := range []struct {
		name   string
		limits Limits
		run    func(t *testing.T, s Store)
	}{
		{"what is written comes back", DefaultLimits(), testRoundTrip},
		{"a repeated write adds nothing", DefaultLimits(), testRepeatedWrite},
		{"events that repeat the last of their subject are dropped", DefaultLimits(), testEventsOnce},
		{"events are paged by cursor", DefaultLimits(), testEventPages},
		{"gateways do not repeat each other", DefaultLimits(), testTwoGateways},
		{"a step of coverage is told by its worst moment", DefaultLimits(), testWorstOfStep},
		{"a step of observations is told by its last", DefaultLimits(), testLastOfStep},
		{"servers remember when they were seen first and last", DefaultLimits(), testServers},
		{"windows include their start and exclude their end", DefaultLimits(), testWindow},
		{"old rows are pruned", Limits{Age: time.Hour, Crawls: 100, Coverage: 100, Observations: 100, Events: 100, Servers: 100}, testPruneAge},
		{"rows beyond the limits are pruned", Limits{Age: 1000 * time.Hour, Crawls: 3, Coverage: 4, Observations: 5, Events: 2, Servers: 2}, testPruneRows},
		{"texts of strangers cannot break a write", DefaultLimits(), testHostileText},
		{"an ended context is an error", DefaultLimits(), testEndedContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t, c.limits)) })
	}
}

func fullSample() Sample {
	return Sample{
		Source: "gate",
		Crawl:  Crawl{Started: at(1), Duration: 1500 * time.Microsecond, Error: "no peer answered"},
		Coverage: []Coverage{{
			Model: "m1", ModelName: "tiny", At: at(1), Coverage: health.Coverage{Counts: []int{2, 2, 0, 1}, Missing: []swarm.Span{{Start: 2, End: 3}},
				MinRedundancy: 0, Servers: 3, Bottleneck: ptr(12.5), SessionTPS: ptr(3.25), CacheLeft: 99},
		}, {Model: "m2", ModelName: "other", At: at(1), Coverage: health.Coverage{Counts: []int{1}, MinRedundancy: 1, Servers: 1}}},
		Observations: []Observation{{
			At: at(1), Model: "m1", ModelName: "tiny", Peer: "p1", Span: swarm.Span{Start: 0, End: 2}, State: swarm.Online,
			Rates: swarm.Rates{InferenceRPS: ptr(100.5)}, Throughput: 12.5, CacheTotal: 4096, CacheLeft: 4000, Version: "1.2", PublicName: "Ann", Relay: true,
		}, {At: at(1), Model: "m1", ModelName: "tiny", Peer: "p2", Span: swarm.Span{Start: 3, End: 4}, State: swarm.Joining}},
		Events: []Event{
			{At: at(1), Kind: ServerOnline, Model: "m1", ModelName: "tiny", Peer: "p1", PublicName: "Ann", Span: swarm.Span{Start: 0, End: 2}},
			{At: at(1), Kind: ModelBroken, Model: "m1", ModelName: "tiny", Detail: "2"},
		},
	}
}

func testRoundTrip(t *testing.T, s Store) {
	want := fullSample()
	mustWrite(t, s, want)
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
		}
	}
	same("crawls", must[[]Crawl](t)(s.Crawls(t.Context(), always)), []Crawl{want.Crawl})
	same("coverage of m1", must[[]Coverage](t)(s.Coverage(t.Context(), "m1", always)), want.Coverage[:1])
	same("coverage of m2", must[[]Coverage](t)(s.Coverage(t.Context(), "m2", always)), want.Coverage[1:])
	same("observations of p1", must[[]Observation](t)(s.Observations(t.Context(), "p1", always)), want.Observations[:1])
	same("servers", must[[]Server](t)(s.Servers(t.Context(), "", t0)), []Server{{want.Observations[0], at(1)}, {want.Observations[1], at(1)}})
	events := must[[]Event](t)(s.Events(t.Context(), EventQuery{}))
	if len(events) != 2 || events[0].ID <= events[1].ID {
		t.Fatalf("events %+v: want two, newest first", events)
	}
	events[0].ID, events[1].ID = 0, 0
	same("events", events, []Event{want.Events[1], want.Events[0]})
	if got := must[[]Coverage](t)(s.Coverage(t.Context(), "m3", always)); len(got) != 0 {
		t.Errorf("an unknown model has coverage %+v", got)
	}
}

func testRepeatedWrite(t *testing.T, s Store) {
	sample := fullSample()
	later := sample
	later.Crawl.Started = at(2)
	mustWrite(t, s, sample, later, sample, later)
	if n := len(must[[]Crawl](t)(s.Crawls(t.Context(), always))); n != 2 {
		t.Errorf("%d crawls, want 2", n)
	}
	if n := len(must[[]Coverage](t)(s.Coverage(t.Context(), "m1", always))); n != 2 {
		t.Errorf("%d coverages, want 2", n)
	}
	if n := len(must[[]Event](t)(s.Events(t.Context(), EventQuery{}))); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// kinds writes one event per sample and tells what is kept, oldest first.
func kinds(t *testing.T, s Store, events []Event) (out []string) {
	t.Helper()
	for i, e := range events {
		sample := sampleAt("gate", i)
		sample.Events = []Event{e}
		mustWrite(t, s, sample)
	}
	kept := must[[]Event](t)(s.Events(t.Context(), EventQuery{}))
	for i := len(kept) - 1; i >= 0; i-- {
		out = append(out, fmt.Sprintf("%s %s %v %s", kept[i].Peer, kept[i].Kind, kept[i].Span, kept[i].Detail))
	}
	return out
}

func testEventsOnce(t *testing.T, s Store) {
	span, moved := swarm.Span{Start: 0, End: 4}, swarm.Span{Start: 4, End: 8}
	got := kinds(t, s, []Event{
		{At: at(0), Kind: ServerOnline, Model: "m", Peer: "a", Span: span},
		{At: at(1), Kind: ServerOnline, Model: "m", Peer: "a", Span: span}, // said before
		{At: at(1), Kind: ServerOnline, Model: "m", Peer: "b", Span: span}, // of another
		{At: at(1), Kind: ServerOnline, Model: "n", Peer: "a", Span: span}, // of another model
		{At: at(2), Kind: ServerOffline, Model: "m", Peer: "a", Span: span},
		{At: at(2), Kind: ServerOnline, Model: "m", Peer: "a", Span: span}, // not later: a repeated write
		{At: at(3), Kind: ServerOnline, Model: "m", Peer: "a", Span: span},
		{At: at(4), Kind: ServerOnline, Model: "m", Peer: "a", Span: moved}, // something else
		{At: at(5), Kind: ModelBroken, Model: "m", Detail: "4-7"},
		{At: at(6), Kind: ModelBroken, Model: "m", Detail: "4-7"},
		{At: at(7), Kind: ModelBroken, Model: "m", Detail: "4-6"},
	})
	want := []string{
		"a server_online 0:4 ", "b server_online 0:4 ", "a server_online 0:4 ", "a server_offline 0:4 ", "a server_online 0:4 ",
		"a server_online 4:8 ", " model_broken 0:0 4-7", " model_broken 0:0 4-6",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func testEventPages(t *testing.T, s Store) {
	sample := sampleAt("gate", 0)
	for i := range 10 {
		sample.Events = append(sample.Events, Event{At: at(i), Kind: ServerOnline, Model: "m", Peer: swarm.PeerID(fmt.Sprint("p", i%2)), Span: swarm.Span{Start: i, End: i + 1}})
	}
	mustWrite(t, s, sample)
	var got []int
	q := EventQuery{Model: "m", Peer: "p1", Limit: 2}
	for {
		page := must[[]Event](t)(s.Events(t.Context(), q))
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.Span.Start)
			q.Before = e.ID
		}
	}
	if want := []int{9, 7, 5, 3, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("pages give %v, want %v", got, want)
	}
	if n := len(must[[]Event](t)(s.Events(t.Context(), EventQuery{Model: "other"}))); n != 0 {
		t.Errorf("another model has %d events", n)
	}
}

// Gateways that see the same changes at nearly the same time, all writing at once.
func testTwoGateways(t *testing.T, s Store) {
	errs := make(chan error, 4)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 5 {
				sample := sampleAt(swarm.PeerID(fmt.Sprint("gate", g)), i)
				kind := ServerOnline
				if i%2 == 1 {
					kind = ServerOffline
				}
				if i == 0 { // all begin with the same
					sample.Events = []Event{{At: at(0), Kind: kind, Model: "m", Peer: "p"}}
				}
				sample.Observations = []Observation{{At: at(i), Model: "m", Peer: "p", Span: swarm.Span{Start: 0, End: 1}}}
				if err := s.Write(context.Background(), sample); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	if n := len(must[[]Event](t)(s.Events(t.Context(), EventQuery{}))); n != 1 {
		t.Errorf("%d events, want the one all saw", n)
	}
	if n := len(must[[]Crawl](t)(s.Crawls(t.Context(), always))); n != 20 {
		t.Errorf("%d crawls, want 20", n)
	}
	if servers := must[[]Server](t)(s.Servers(t.Context(), "m", t0)); len(servers) != 1 || !servers[0].At.Equal(at(4)) || !servers[0].First.Equal(at(0)) {
		t.Errorf("servers %+v: want one, seen from 0 to 4", servers)
	}
}

func testWorstOfStep(t *testing.T, s Store) {
	for i, counts := range [][]int{{2, 2}, {0, 2}, {0, 0}, {2, 2}, {3, 3}, {2, 4}} {
		sample := sampleAt("gate", i*10)
		c := Coverage{Model: "m", At: at(i * 10), Coverage: health.Coverage{Counts: counts, MinRedundancy: min(counts[0], counts[1])}}
		c.Missing = c.Thin(1)
		sample.Coverage = []Coverage{c}
		mustWrite(t, s, sample)
	}
	w := always
	w.Step = 30 * time.Second
	got := must[[]Coverage](t)(s.Coverage(t.Context(), "m", w))
	if len(got) != 2 || !got[0].At.Equal(at(20)) || !got[1].At.Equal(at(50)) {
		t.Errorf("got %+v\nwant the rows of seconds 20 (most blocks missing) and 50 (fewest holders, the later)", got)
	}
}

func testLastOfStep(t *testing.T, s Store) {
	for i := range 6 {
		sample := sampleAt("gate", i*10)
		sample.Observations = []Observation{{At: at(i * 10), Model: "m", Peer: "p", Throughput: float64(i)}}
		mustWrite(t, s, sample)
	}
	w := always
	w.Step = 30 * time.Second
	got := must[[]Observation](t)(s.Observations(t.Context(), "p", w))
	if len(got) != 2 || got[0].Throughput != 2 || got[1].Throughput != 5 {
		t.Errorf("got %+v\nwant throughputs 2 and 5", got)
	}
}

func testServers(t *testing.T, s Store) {
	seen := func(second int, peer swarm.PeerID, model swarm.UID, throughput float64) Sample {
		sample := sampleAt("gate", second)
		sample.Observations = []Observation{{At: at(second), Model: model, Peer: peer, Throughput: throughput}}
		return sample
	}
	late := seen(15, "a", "m", 99) // arrives after a newer one, from another gateway
	late.Source = "gate2"
	mustWrite(t, s, seen(10, "a", "m", 1), seen(20, "a", "m", 2), late, seen(30, "b", "m", 3), seen(40, "a", "n", 4))
	var got []string
	for _, v := range must[[]Server](t)(s.Servers(t.Context(), "", t0)) {
		got = append(got, fmt.Sprintf("%s %s %v %v %v", v.Peer, v.Model, v.First.Sub(t0), v.At.Sub(t0), v.Throughput))
	}
	if want := []string{"a n 40s 40s 4", "b m 30s 30s 3", "a m 10s 20s 2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if n := len(must[[]Server](t)(s.Servers(t.Context(), "m", at(25)))); n != 1 {
		t.Errorf("%d servers of m since second 25, want 1", n)
	}
}

func testWindow(t *testing.T, s Store) {
	for i := range 4 {
		mustWrite(t, s, sampleAt("gate", i))
	}
	got := must[[]Crawl](t)(s.Crawls(t.Context(), Window{From: at(1), To: at(3)}))
	if len(got) != 2 || !got[0].Started.Equal(at(1)) || !got[1].Started.Equal(at(2)) {
		t.Errorf("got %+v\nwant the crawls of seconds 1 and 2", got)
	}
}

// rows counts what is kept.
func rows(t *testing.T, s Store) (out [5]int) {
	t.Helper()
	out[0] = len(must[[]Crawl](t)(s.Crawls(t.Context(), always)))
	out[1] = len(must[[]Coverage](t)(s.Coverage(t.Context(), "m", always)))
	out[2] = len(must[[]Observation](t)(s.Observations(t.Context(), "p", always)))
	out[3] = len(must[[]Event](t)(s.Events(t.Context(), EventQuery{})))
	out[4] = len(must[[]Server](t)(s.Servers(t.Context(), "", always.From)))
	return out
}

func pruneSample(i int) Sample {
	sample := sampleAt("gate", i*600)
	sample.Coverage = []Coverage{{Model: "m", At: at(i * 600), Coverage: health.Coverage{Counts: []int{i}}}}
	sample.Observations = []Observation{{At: at(i * 600), Model: "m", Peer: "p"}, {At: at(i * 600), Model: "m", Peer: swarm.PeerID(fmt.Sprint("q", i))}}
	sample.Events = []Event{{At: at(i * 600), Kind: ServerOnline, Model: "m", Peer: "p", Span: swarm.Span{Start: i, End: i + 1}}}
	return sample
}

func testPruneAge(t *testing.T, s Store) {
	for i := range 12 { // ten minutes apart
		mustWrite(t, s, pruneSample(i))
	}
	if err := s.Prune(t.Context(), at(11*600)); err != nil {
		t.Fatal(err)
	}
	// Of the last hour are the rows 5 to 11, and the servers p and q5 to q11.
	if got, want := rows(t, s), [5]int{7, 7, 7, 7, 8}; got != want {
		t.Errorf("kept %v, want %v", got, want)
	}
	again := pruneSample(11)
	again.Crawl.Started = at(12 * 600)
	again.Observations, again.Coverage = nil, nil
	again.Events[0].At = at(12 * 600) // the same state: pruning must not have forgotten it
	mustWrite(t, s, again)
	if got := rows(t, s)[3]; got != 7 {
		t.Errorf("%d events after one that repeats, want 7", got)
	}
}

func testPruneRows(t *testing.T, s Store) {
	for i := range 12 {
		mustWrite(t, s, pruneSample(i))
	}
	if err := s.Prune(t.Context(), at(11*600)); err != nil {
		t.Fatal(err)
	}
	got := rows(t, s)
	got[2] = 0 // five rows in all, of both servers
	if want := [5]int{3, 4, 0, 2, 2}; got != want {
		t.Errorf("kept %v, want %v", got, want)
	}
	if p := must[[]Observation](t)(s.Observations(t.Context(), "p", always)); len(p) > 3 || len(p) < 2 {
		t.Errorf("%d observations of p among the last five rows, want 2 or 3", len(p))
	}
	if e := must[[]Event](t)(s.Events(t.Context(), EventQuery{})); e[0].Span.Start != 11 {
		t.Errorf("the newest event kept is %v, want that of 11", e[0].Span)
	}
}

func testHostileText(t *testing.T, s Store) {
	sample := fullSample()
	sample.Observations[0].PublicName = "nul \x00 and \xff"
	sample.Observations[0].Version = "\x00"
	sample.Events[0].PublicName = "\x00'; drop table event; --"
	mustWrite(t, s, sample)
	o := must[[]Observation](t)(s.Observations(t.Context(), "p1", always))
	if len(o) != 1 || o[0].PublicName != "nul \uFFFD and \uFFFD" {
		t.Errorf("observations %+v: want the name with replacement characters", o)
	}
	if n := len(must[[]Event](t)(s.Events(t.Context(), EventQuery{}))); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func testEndedContext(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(ctx, fullSample()); err == nil {
		t.Error("a write with an ended context succeeded")
	}
	if err := s.Prune(ctx, t0); err == nil {
		t.Error("a prune with an ended context succeeded")
	}
	if _, err := s.Events(ctx, EventQuery{}); err == nil {
		t.Error("a read with an ended context succeeded")
	}
	if n := len(must[[]Crawl](t)(s.Crawls(t.Context(), always))); n != 0 {
		t.Errorf("%d crawls of a write that failed", n)
	}
}
