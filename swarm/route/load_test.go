package route

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

// loaded makes a swarm from lines "A 0:8 rps 300 busy 0.5 sessions 4 rtt 20ms": its view,
// and the client's round trips.
func loaded(t *testing.T, blocks int, servers ...string) Query {
	t.Helper()
	rtt := map[swarm.PeerID]time.Duration{}
	var all []swarm.Record
	for _, line := range servers {
		w := strings.Fields(line)
		span, err := swarm.ParseSpan(w[1])
		if err != nil {
			t.Fatal(err)
		}
		r := swarm.Record{Peer: swarm.PeerID(w[0]), Span: span, State: swarm.Online, CacheTotal: 1 << 20, CacheLeft: 1 << 20, Load: &swarm.Load{}}
		rps := 300.0
		for i := 2; i+1 < len(w); i += 2 {
			switch w[i] {
			case "rps":
				fmt.Sscan(w[i+1], &rps)
			case "busy":
				fmt.Sscan(w[i+1], &r.Load.Busy)
			case "sessions":
				fmt.Sscan(w[i+1], &r.Load.Sessions)
			case "waiting":
				fmt.Sscan(w[i+1], &r.Load.Waiting)
			case "left":
				fmt.Sscan(w[i+1], &r.CacheLeft)
			case "state":
				if err := r.State.UnmarshalText([]byte(w[i+1])); err != nil {
					t.Fatal(err)
				}
			case "rtt":
				if rtt[r.Peer], err = time.ParseDuration(w[i+1]); err != nil {
					t.Fatal(err)
				}
			default:
				t.Fatal(line)
			}
		}
		r.Rates.InferenceRPS = &rps
		all = append(all, r)
	}
	return Query{View: swarm.NewView(swarm.Manifest{Name: "m", Blocks: blocks}, time.Time{}, all), Range: swarm.Span{End: blocks}, Tokens: 100,
		RTT: func(p swarm.PeerID) (time.Duration, bool) { d, ok := rtt[p]; return d, ok }, Params: DefaultParams()}
}

func peers(c Chain) string {
	var s []string
	for _, h := range c.Hops {
		s = append(s, string(h.Peer))
	}
	return strings.Join(s, " ")
}

// Who is busy is left to others, unless those are far away; and what many sequences want is
// time, not nearness.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		what    string
		servers []string
		most    bool
		want    string
	}{
		{"idle and busy", []string{"A 0:8 busy 0.9 rtt 10ms", "B 0:8 rtt 10ms"}, false, "B"},
		{"busy and far", []string{"A 0:8 busy 0.5 rtt 10ms", "B 0:8 rtt 200ms"}, false, "A"},
		{"hopelessly busy and far", []string{"A 0:8 busy 1 rtt 10ms", "B 0:8 rtt 200ms"}, false, "B"},
		{"others wait", []string{"A 0:8 rtt 10ms waiting 1", "B 0:8 busy 0.5 rtt 10ms"}, false, "B"},
		{"a long way with time", []string{"A 0:8 rps 100 rtt 1ms", "B 0:4 rps 900 rtt 90ms", "C 4:8 rps 900 rtt 90ms"}, true, "B C"},
		{"the same way without", []string{"A 0:8 rps 100 rtt 1ms", "B 0:4 rps 900 busy 0.99 rtt 90ms", "C 4:8 rps 900 rtt 90ms"}, true, "A"},
		{"equal time: the near one", []string{"A 0:8 rtt 50ms", "B 0:8 rtt 1ms"}, true, "B"},
	} {
		q := loaded(t, 8, c.servers...)
		q.Most = c.most
		got, err := Plan(q)
		if err != nil || peers(got) != c.want {
			t.Errorf("%s: %v, %v, want %s", c.what, got, err, c.want)
		}
	}
}

// Clients that draw share equal holders, and leave the slow one alone; the same draw gives
// the same chain.
func TestDraw(t *testing.T) {
	q := loaded(t, 8, "A 0:8 rtt 10ms", "B 0:8 rtt 10ms", "C 0:8 rtt 10ms", "D 0:8 rtt 10ms", "E 0:8 rps 30 rtt 10ms")
	for _, most := range []bool{false, true} {
		got := map[string]int{}
		for i := range 4000 {
			q.Draw, q.Most = uint64(i+1), most
			one, err := Plan(q)
			if err != nil {
				t.Fatal(err)
			}
			if two, _ := Plan(q); peers(two) != peers(one) {
				t.Fatal("two chains of one draw")
			}
			got[peers(one)]++
		}
		for _, p := range []string{"A", "B", "C", "D"} {
			if n := got[p]; n < 800 || n > 1200 {
				t.Errorf("most %v: %v", most, got)
			}
		}
		if got["E"] > 0 {
			t.Errorf("most %v: the slow one has %d", most, got["E"])
		}
	}
}

// Sessions come and go while clients see loads of a while ago. Those that take the best of
// all run after each other from holder to holder; those that draw stay spread.
func TestNoHerd(t *testing.T) {
	const holders, life, mean = 8, 400, 400 / 8 // ticks that a session lasts; one comes every tick
	play := func(draw bool, stale int) (most float64) {
		q := loaded(t, 8, "A 0:8", "B 0:8", "C 0:8", "D 0:8", "E 0:8", "F 0:8", "G 0:8", "H 0:8")
		sessions := map[swarm.PeerID]int{}
		var ends []swarm.PeerID
		for tick := range 3000 {
			if tick%stale == 0 { // a new view
				for i := range q.View.Servers {
					r := &q.View.Servers[i]
					n := sessions[r.Peer]
					r.Load = &swarm.Load{Busy: min(1, float64(n)/(2*mean)), Sessions: n}
				}
			}
			if draw {
				q.Draw = uint64(tick + 1)
			}
			c, err := Plan(q)
			if err != nil {
				t.Fatal(err)
			}
			sessions[c.Hops[0].Peer]++
			if ends = append(ends, c.Hops[0].Peer); len(ends) > life {
				sessions[ends[0]]--
				ends = ends[1:]
			}
			if tick >= 1000 {
				fullest := 0
				for _, n := range sessions {
					fullest = max(fullest, n)
				}
				most += float64(fullest) / mean / 2000
			}
		}
		return most
	}
	for _, c := range []struct {
		stale        int
		herd, spread float64 // at least, and at most
	}{{100, 1.9, 1.25}, {40, 1.5, 1.2}} {
		herd, spread := play(false, c.stale), play(true, c.stale)
		t.Logf("views %d %% as old as sessions: the fullest holder has on average %.2f times the mean if all take the best, %.2f if they draw", 100*c.stale/life, herd, spread)
		if herd < c.herd || spread > c.spread {
			t.Errorf("want at least %v and at most %v", c.herd, c.spread)
		}
	}
}

// A running session changes only for something clearly better that repays.
func TestBetter(t *testing.T) {
	hop := func(p string) []swarm.Hop { return []swarm.Hop{{Peer: swarm.PeerID(p), Span: swarm.Span{End: 8}}} }
	for _, c := range []struct {
		what    string
		servers []string
		run     Running
		change  bool
		reason  string
	}{
		{"much faster, much left", []string{"A 0:8 rps 100 rtt 10ms", "B 0:8 rps 1000 rtt 10ms"}, Running{Hops: hop("A"), Rows: 500, Left: 1000, Since: time.Hour}, true,
			"a token takes 90ms and would take 18ms through 0:8 via B; the replay takes 1.005s"},
		{"much faster, little left", []string{"A 0:8 rps 100 rtt 10ms", "B 0:8 rps 1000 rtt 10ms"}, Running{Hops: hop("A"), Rows: 500, Left: 10, Since: time.Hour}, false,
			"72ms a token saved until its end are 720ms, less than 2 times the 1.005s of a replay"},
		{"a little faster", []string{"A 0:8 rps 100 rtt 10ms", "B 0:8 rps 120 rtt 10ms"}, Running{Hops: hop("A"), Rows: 500, Left: 1000, Since: time.Hour}, false,
			"a token takes 90ms and would take 77ms: not 30 % less"},
		{"it just changed", []string{"A 0:8 rps 100 rtt 10ms", "B 0:8 rps 1000 rtt 10ms"}, Running{Hops: hop("A"), Rows: 500, Left: 1000, Since: time.Second}, false,
			"it changed 1s ago and stays for 30s"},
		{"its own load is no reason to go", []string{"A 0:8 busy 0.7 sessions 1 rtt 10ms", "B 0:8 rtt 10ms"}, Running{Hops: hop("A"), Left: 1000, Since: time.Hour}, false,
			"a token takes 37ms and would take 37ms: not 30 % less"},
		{"the load of others is", []string{"A 0:8 busy 0.7 sessions 10 rtt 10ms", "B 0:8 rtt 10ms"}, Running{Hops: hop("A"), Left: 1000, Since: time.Hour}, true,
			"a token takes 82ms and would take 37ms through 0:8 via B; the replay takes 5.3ms"},
		{"its server is gone", []string{"B 0:8 rps 1000 rtt 10ms"}, Running{Hops: hop("A"), Left: 1000, Since: time.Hour}, false,
			"server A is not in the view: its session says when it breaks"},
		{"its cache is taken, by itself", []string{"A 0:8 rtt 10ms left 0", "B 0:8 rps 330 rtt 10ms"}, Running{Hops: hop("A"), Left: 1000, Since: time.Hour}, false,
			"a token takes 37ms and would take 35ms: not 30 % less"},
	} {
		got, err := Better(loaded(t, 8, c.servers...), c.run, DefaultPatience())
		if err != nil || got.Change != c.change || got.Reason != c.reason {
			t.Errorf("%s: %v %q, %v, want %v %q", c.what, got.Change, got.Reason, err, c.change, c.reason)
		}
	}
}

// A dry run tells the price of each part, and why the others are not on the chain.
func TestExplain(t *testing.T) {
	q := loaded(t, 12, "A 0:8 rtt 20ms", "B 4:12 rtt 6ms", "C 0:12 rps 900 rtt 300ms", "D 0:8 busy 0.9 rtt 20ms", "E 0:4 state joining",
		"F 8:12 rtt 1ms", "G 0:12 rtt 1ms left 10", "H 2:6 rtt 1ms", "I 0:12 rtt 1ms")
	q.Avoid = map[swarm.PeerID]time.Time{"I": time.Unix(1e9, 0)}
	e, err := Explain(q)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %v\n", e.Chain, e.Chain.Cost)
	for i, l := range e.Chain.Legs {
		fmt.Fprintf(&b, "  %s link %v enter %v compute %v queue %v\n", e.Chain.Hops[i].Peer, l.Link, l.Enter, l.Compute, l.Queue)
	}
	fmt.Fprintf(&b, "  back %v\n", e.Chain.Back)
	for _, r := range e.Rejected {
		fmt.Fprintf(&b, "%s %v: %s\n", r.Peer, r.Span, r.Why)
	}
	const path = "testdata/explain.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || b.String() != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), want)
	}
	// The price of a chain is the sum of its parts, and pricing its hops gives the same.
	sum := e.Chain.Back
	for _, l := range e.Chain.Legs {
		sum += l.total()
	}
	priced, missing := q.Price(e.Chain.Hops)
	if sum != e.Chain.Cost || missing != "" || priced.Cost != sum {
		t.Errorf("%v, %v, %v %q", sum, e.Chain.Cost, priced.Cost, missing)
	}
}
