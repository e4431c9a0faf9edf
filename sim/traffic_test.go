package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"whorl/internal/golden"
	"whorl/swarm"
	"whorl/swarm/balance"
)

// readersHere is a small swarm with readers: two servers to each block.
const readersHere = `blocks 8
length 40m
warm 10m
demand 0.3
servers 8 span 4 rate 200-400 load 1s start 0s-1m rtt 2ms-20ms mbit 20-100
readers gateways 2 tokens 50-400 prompt 50-100 rtt 2ms-20ms mbit 50
`

func scenarioOf(t *testing.T, text string) *Scenario {
	t.Helper()
	sc, err := Parse("here", text)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// A message takes half a round trip, and what the slower line needs for its bytes.
func TestLinks(t *testing.T) {
	a, b := place{rtt: 0.010, mbit: 8}, place{rtt: 0.030}
	if got := a.round(b); got != 40*time.Millisecond {
		t.Errorf("a round trip of %v, want 40 ms", got)
	}
	if there, back := a.message(b, 1e4), b.message(a, 1e4); there != back || math.Abs(there-0.030) > 1e-9 {
		t.Errorf("10 kB take %v s there and %v s back, want 0.03", there, back)
	}
	if got := (place{}).message(place{}, 1e9); got != 0 {
		t.Errorf("between machines of which nothing is said: %v s, want 0", got)
	}
}

// How long tokens wait for each other is near the exact solution for sessions that share one server.
func TestQueues(t *testing.T) {
	const compute, away = 0.01, 0.05 // seconds of a token: at the server, and on its way
	exact := 0.0
	for n, queue := 1, 0.0; n <= 12; n++ { // mean value analysis
		at := compute * (1 + queue)
		exact = at + away
		queue = float64(n) / exact * at
		w := &world{sc: &Scenario{Readers: &Readers{}}}
		s := &server{pace: 1, Self: balance.Self{Rate: 100}}
		w.servers = []*server{s}
		tr := &traffic{w: w, queue: make([]float64, 1)}
		for range n {
			tr.open = append(tr.open, &session{link: away, hops: []hop{{server: s, span: swarm.Span{End: 1}}}})
		}
		for range 200 {
			tr.share(1)
		}
		if got := tr.open[0].step; math.Abs(got/exact-1) > 0.08 {
			t.Errorf("%d sessions: a token takes %.4f s, exactly %.4f", n, got, exact)
		}
	}
}

// All that is asked for is served, by whatever routes, and all policies have the same readers.
func TestSessions(t *testing.T) {
	came := 0
	for _, routes := range Routes() {
		sc := scenarioOf(t, strings.Replace(readersHere, "length 40m", "length 25m", 1))
		sc.Readers.Routes = routes
		w := newWorld(sc, ours{balance.DefaultConfig()}, 1)
		w.run()
		s := w.result(1).Sessions
		if s.Began < 100 || came != 0 && s.Began != came {
			t.Errorf("%s: %d sessions, %d before", routes, s.Began, came)
		}
		came = s.Began
		if s.Refused+s.Lost+s.Reroutes > 0 || math.Abs(s.Served-1) > 0.05 || s.Median <= 0 || s.P95 < s.Median {
			t.Errorf("%s: %+v", routes, s)
		}
		open := 0
		for _, x := range w.traffic.open {
			open += len(x.hops)
		}
		for _, n := range w.traffic.count {
			open -= n
		}
		if open != 0 {
			t.Errorf("%s: servers count %d sessions more or fewer than there are", routes, -open)
		}
	}
}

// Servers that are killed are found out, and their sessions go on through others.
func TestSessionsOutliveServers(t *testing.T) {
	sc := scenarioOf(t, readersHere+"at 20m kill 0.25\n")
	r := Run(sc, ours{balance.DefaultConfig()}, 1)
	golden.Check(t, "testdata/sessions.golden", r.Text())
	if s := r.Sessions; s.Reroutes == 0 || s.Lost > 0 || s.Longest > 60 {
		t.Errorf("%+v", s)
	}
}

// Where servers boast, measured loads have others help at their blocks; and where readers come and go, but no server
// does, moves stop.
func TestLoadsPlaceServers(t *testing.T) {
	text := `blocks 12
length 100m
warm 40m
demand 0.3
servers 8 span 6 rate 100-200 load 1s start 0s-1m rtt 2ms-10ms boast 4
servers 16 span 4-6 rate 100-200 load 1s start 0s-1m rtt 2ms-10ms
readers gateways 4 tokens 1000-8000 prompt 50-100 rtt 2ms-10ms
`
	var block []float64
	for _, deaf := range []bool{false, true} {
		sc := scenarioOf(t, text)
		sc.Readers.Deaf = deaf
		r := Run(sc, ours{balance.DefaultConfig()}, 1)
		t.Logf("deaf %v: %s", deaf, r.Text())
		block = append(block, r.Sessions.Block)
		if r.MovesLastHour > 2 {
			t.Errorf("deaf %v: %d moves in the last hour", deaf, r.MovesLastHour)
		}
	}
	if block[0] > block[1] {
		t.Errorf("the busiest block has %.2f times the mean where loads are heard, and %.2f where not", block[0], block[1])
	}
}

func TestParseReaders(t *testing.T) {
	for text, want := range map[string]string{
		"readers tokens":                     "a value is missing",
		"readers songs 3":                    `"songs" is nothing that they have`,
		"readers tokens 0-5":                 "want 1 to 100000",
		"readers gateways 0":                 "0 gateways",
		"readers day 2":                      "want a share",
		"readers routes none":                `routes "none"`,
		"readers mbit 0-5":                   "above 0 Mbit/s",
		"readers day 0.5\nservers 600":       "up to 500",
		"readers day 0.5\nservers 1 boast 0": "need a boast",
	} {
		if _, err := Parse("s", "blocks 8\nservers 1\n"+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
