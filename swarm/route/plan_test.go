package route

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// Every file of testdata holds cases: what is known, a plan, a line of dashes, and what the
// planner answers, so that a hand can check it. See testdata/README.md for the grammar.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for i, text := range strings.Split(string(b), "\n====\n") {
			setup, want, ok := strings.Cut(text, "\n----\n")
			if !ok {
				t.Fatalf("%s: case %d has no line of dashes", f, i)
			}
			q, err := parse(setup)
			if err != nil {
				t.Fatalf("%s: case %d: %v", f, i, err)
			}
			got := answer(q)
			if got != strings.TrimRight(want, "\n")+"\n" && !*update {
				t.Errorf("%s:\n%s\n----\n%s\nwant\n%s", f, setup, got, want)
			}
			if i > 0 {
				out.WriteString("====\n")
			}
			out.WriteString(setup + "\n----\n" + got)
		}
		if *update {
			if err := os.WriteFile(f, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// now is the present of all cases; "failed=5s" is five seconds before.
var now = time.UnixMilli(1_800_000_000_000)

func answer(q Query) string {
	c, err := Plan(q)
	if err != nil {
		e := swarm.AsError(err)
		return fmt.Sprintf("%s %s missing=%v\n%v\n", e.Code, e.Verdict, e.Missing, err)
	}
	ms := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64)
	}
	hops, sums := make([]string, len(c.Hops)), make([]string, len(c.Hops))
	var total time.Duration
	for i, h := range c.Hops {
		hops[i] = fmt.Sprintf("%s %v", h.Peer, h.Span)
		l := c.Legs[i]
		sums[i] = ms(l.Link+l.Enter) + " + " + ms(l.Compute)
		total += l.Link + l.Enter + l.Compute
	}
	if total += c.Back; total != c.Cost {
		return fmt.Sprintf("the legs sum to %v and the cost is %v\n", total, c.Cost)
	}
	return fmt.Sprintf("%s   %s + %s = %sms\n", strings.Join(hops, ", "), strings.Join(sums, " + "), ms(c.Back), ms(c.Cost))
}

// parse reads the part above the dashes.
func parse(text string) (Query, error) {
	q := Query{Params: DefaultParams(), Avoid: map[swarm.PeerID]time.Time{}}
	q.View.Manifest = swarm.Manifest{Name: "toy", Blocks: 12, Hidden: 8192}
	rtt := map[swarm.PeerID]time.Duration{}
	q.RTT = func(p swarm.PeerID) (time.Duration, bool) { d, ok := rtt[p]; return d, ok }
	apart := map[[2]swarm.PeerID]bool{}
	q.Apart = func(from, to swarm.PeerID) bool { return apart[[2]swarm.PeerID{from, to}] }
	seen := map[swarm.PeerID]float64{}
	q.Observed = func(p swarm.PeerID) (float64, bool) { f, ok := seen[p]; return f, ok }
	var records []swarm.Record
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		words := strings.Fields(sc.Text())
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		var err error
		switch words[0] {
		case "params":
			for _, w := range words[1:] {
				name, value, _ := strings.Cut(w, "=")
				d, perr := time.ParseDuration(value)
				if name != "hop" || perr != nil {
					return q, fmt.Errorf("unknown parameter %s", w)
				}
				q.Params.HopOverhead = d
			}
		case "reached": // the client tells whom it has reached: these and no others
			q.View.Reached = map[swarm.PeerID]string{}
			for _, w := range words[1:] {
				q.View.Reached[swarm.PeerID(w)] = ""
			}
		case "observed":
			f, perr := strconv.ParseFloat(words[2], 64)
			seen[swarm.PeerID(words[1])], err = f, perr
		case "peer":
			var r swarm.Record
			if r, err = peer(words[1:], rtt, q.Avoid); err == nil {
				records = append(records, r)
			}
		case "link":
			var d time.Duration
			if d, err = time.ParseDuration(words[3]); err == nil {
				i := slices.IndexFunc(records, func(r swarm.Record) bool { return r.Peer == swarm.PeerID(words[1]) })
				records[i].NextRTT[swarm.PeerID(words[2])] = float64(d) / float64(time.Millisecond)
			}
		case "around": // the first cannot reach the second
			pair := [2]swarm.PeerID{swarm.PeerID(words[1]), swarm.PeerID(words[2])}
			before := q.Around
			q.Around = func(from, to swarm.PeerID) bool {
				return [2]swarm.PeerID{from, to} == pair || before != nil && before(from, to)
			}
		case "apart":
			apart[[2]swarm.PeerID{swarm.PeerID(words[1]), swarm.PeerID(words[2])}] = true
		case "plan":
			err = plan(words[1:], &q)
		default:
			err = fmt.Errorf("unknown line %q", sc.Text())
		}
		if err != nil {
			return q, err
		}
	}
	reached := q.View.Reached
	q.View = swarm.NewView(q.View.Manifest, now, records)
	q.View.Reached = reached
	return q, nil
}

func peer(words []string, rtt map[swarm.PeerID]time.Duration, avoid map[swarm.PeerID]time.Time) (swarm.Record, error) {
	r := swarm.Record{Peer: swarm.PeerID(words[0]), State: swarm.Online, CacheTotal: 1000, CacheLeft: 1000, NextRTT: map[swarm.PeerID]float64{}}
	var err error
	if r.Span, err = swarm.ParseSpan(words[1]); err != nil {
		return r, err
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		var d time.Duration
		switch name {
		case "rps":
			var f float64
			f, err = strconv.ParseFloat(value, 64)
			r.Rates.InferenceRPS = &f
		case "net":
			var f float64
			f, err = strconv.ParseFloat(value, 64)
			r.Rates.NetworkRPS = &f
		case "rtt":
			d, err = time.ParseDuration(value)
			rtt[r.Peer] = d
		case "failed":
			d, err = time.ParseDuration(value)
			avoid[r.Peer] = now.Add(-d)
		case "state":
			err = r.State.UnmarshalText([]byte(value))
		case "cache": // LEFT/TOTAL
			_, err = fmt.Sscanf(value, "%d/%d", &r.CacheLeft, &r.CacheTotal)
		case "relay":
			r.Relay = true
		case "max":
			r.MaxLength, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func plan(words []string, q *Query) (err error) {
	if q.Range, err = swarm.ParseSpan(words[0]); err != nil {
		return err
	}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "from":
			q.From = swarm.PeerID(value)
		case "to":
			q.To = swarm.PeerID(value)
		case "tokens":
			q.Tokens, err = strconv.Atoi(value)
		case "prompt":
			q.Prompt, err = strconv.Atoi(value)
		case "sequences":
			q.Sequences, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The planner agrees with a search of every chain, on small random swarms.
func TestCheapestOfAll(t *testing.T) {
	rng := newRand(1)
	for round := range 300 {
		q := randomQuery(rng, 8, 1+rng.IntN(7))
		got, err := Plan(q)
		if err != nil {
			continue // some block has no holder: the goldens check that
		}
		if want := exhaustive(&q); got.Cost != want {
			t.Fatalf("round %d: %v costs %v, the best chain %v", round, got, got.Cost, want)
		}
		at := q.Range.Start
		for _, h := range got.Hops {
			r, _ := q.View.Server(h.Peer)
			if h.Span.Start != at || !r.Span.Contains(h.Span) {
				t.Fatalf("round %d: %v does not cover %v", round, got, q.Range)
			}
			at = h.Span.End
		}
		if at != q.Range.End {
			t.Fatalf("round %d: %v ends early", round, got)
		}
		if again, _ := Plan(q); again.String() != got.String() {
			t.Fatalf("round %d: %v, then %v", round, got, again)
		}
	}
}

// exhaustive is the cost of the cheapest chain, found by trying all.
func exhaustive(q *Query) time.Duration {
	best := time.Duration(1<<63 - 1)
	var walk func(at int, last *swarm.Record, cost time.Duration)
	walk = func(at int, last *swarm.Record, cost time.Duration) {
		if at == q.Range.End {
			best = min(best, cost+q.fromClient(last.Peer))
			return
		}
		for i := range q.View.Servers {
			r := &q.View.Servers[i]
			if r == last || !r.Span.Holds(at) {
				continue
			}
			link := q.fromClient(r.Peer)
			if last != nil {
				link = q.link(last, r.Peer)
			}
			stop := min(r.Span.End, q.Range.End)
			walk(stop, r, cost+link+q.enter(r)+q.compute(r, stop-at))
		}
	}
	walk(q.Range.Start, nil, 0)
	return best
}

// No record may make a cost negative or overflow.
func TestAbsurdRecords(t *testing.T) {
	for _, v := range []float64{0, 5e-324, 1e-300, 1, 1e308} {
		r := swarm.Record{Peer: "a", Span: swarm.Span{Start: 0, End: 1}, NextRTT: map[swarm.PeerID]float64{"a": v}}
		r.Rates.InferenceRPS = &v
		q := Query{Params: DefaultParams()}
		if c := q.compute(&r, swarm.MaxBlocks); c < 0 || c > 100*24*time.Hour {
			t.Errorf("%v tokens per second: %v", v, c)
		}
		if c := q.link(&r, "a"); c < 0 || c > q.Params.MaxDelay {
			t.Errorf("round trip of %v ms: %v", v, c)
		}
	}
}

func TestBadQueries(t *testing.T) {
	view := swarm.View{Manifest: swarm.Manifest{Name: "toy", Blocks: 4}}
	for _, r := range []swarm.Span{{}, {Start: -1, End: 2}, {Start: 2, End: 2}, {Start: 0, End: 5}} {
		if _, err := Plan(Query{View: view, Range: r, Params: DefaultParams()}); err == nil || swarm.CodeOf(err) == swarm.CodeBlocksMissing {
			t.Errorf("range %v: %v", r, err)
		}
	}
	for name, spoil := range map[string]func(*Params){
		"hop": func(p *Params) { p.HopOverhead = -1 }, "rps": func(p *Params) { p.DefaultRPS = 0 }, "delay": func(p *Params) { p.MaxDelay = 0 },
	} {
		p := DefaultParams()
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestString(t *testing.T) {
	c := Chain{Hops: []swarm.Hop{{Peer: "12D3KooWabc123", Span: swarm.Span{Start: 0, End: 40}}, {Peer: "x", Span: swarm.Span{Start: 40, End: 80}}}}
	if got := c.String(); got != "0:40 via …abc123 => 40:80 via x" {
		t.Error(got)
	}
}

func BenchmarkPlan(b *testing.B) {
	q := randomQuery(newRand(2), 80, 1000)
	for b.Loop() {
		if _, err := Plan(q); err != nil {
			b.Fatal(err)
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// randomQuery is a swarm of some servers over some blocks.
func randomQuery(rng *rand.Rand, blocks, servers int) Query {
	var records []swarm.Record
	rtt := map[swarm.PeerID]time.Duration{}
	for i := range servers {
		start := rng.IntN(blocks)
		if i == 0 {
			start = 0
		}
		rps := 50 + 500*rng.Float64()
		r := swarm.Record{
			Peer: swarm.PeerID(fmt.Sprintf("p%04d", i)), State: swarm.Online, CacheTotal: 9, CacheLeft: 9,
			Span: swarm.Span{Start: start, End: start + 1 + rng.IntN(blocks-start)}, NextRTT: map[swarm.PeerID]float64{},
		}
		r.Rates.InferenceRPS = &rps
		for range min(5, servers) {
			r.NextRTT[swarm.PeerID(fmt.Sprintf("p%04d", rng.IntN(servers)))] = 60 * rng.Float64()
		}
		rtt[r.Peer] = time.Duration(rng.IntN(60)) * time.Millisecond
		records = append(records, r)
	}
	return Query{
		View: swarm.NewView(swarm.Manifest{Name: "toy", Blocks: blocks}, now, records), Range: swarm.Span{Start: 0, End: blocks},
		RTT: func(p swarm.PeerID) (time.Duration, bool) { d, ok := rtt[p]; return d, ok }, Params: DefaultParams(),
	}
}
