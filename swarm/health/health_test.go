package health

import (
	"fmt"
	"testing"
	"time"

	"whorl/swarm"
)

// server makes a record.
func server(peer swarm.PeerID, start, end int, state swarm.State, rps, throughput float64, cache int64) swarm.Record {
	r := swarm.Record{Peer: peer, Span: swarm.Span{Start: start, End: end}, State: state, Throughput: throughput, CacheTotal: cache, CacheLeft: cache}
	if rps > 0 {
		r.Rates.InferenceRPS = &rps
	}
	return r
}

func TestMeasure(t *testing.T) {
	number := func(f *float64) string {
		if f == nil {
			return "not measured"
		}
		return fmt.Sprintf("%.3g", *f)
	}
	for _, c := range []struct {
		name    string
		servers []swarm.Record
		wanted  int
		want    string
	}{
		{"nobody", nil, 1, "[0 0 0 0] broken missing 0-3 servers 0 bottleneck not measured session not measured cache 0"},
		{"case 040: half of the blocks", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50)}, 1,
			"[1 1 0 0] broken missing 2-3 servers 1 bottleneck not measured session not measured cache 0"},
		{"case 040: both halves", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50), server("b", 2, 4, swarm.Online, 200, 30, 40)}, 1,
			"[1 1 1 1] healthy missing  servers 2 bottleneck 20 session 33.3 cache 40"},
		{"spare holders wanted", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 20, 50)}, 2,
			"[1 1 1 1] degraded missing  servers 1 bottleneck 20 session 25 cache 50"},
		{"joining and draining do not count", []swarm.Record{server("a", 0, 4, swarm.Joining, 1, 1, 1), server("b", 0, 4, swarm.Draining, 1, 1, 1)}, 1,
			"[0 0 0 0] broken missing 0-3 servers 0 bottleneck not measured session not measured cache 0"},
		{"throughput adds up, speed is the best", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 20, 50), server("b", 0, 4, swarm.Online, 400, 30, 10)}, 1,
			"[2 2 2 2] healthy missing  servers 2 bottleneck 50 session 100 cache 60"},
		{"what is not measured is not guessed", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50), server("b", 2, 4, swarm.Online, 0, 0, 40)}, 1,
			"[1 1 1 1] healthy missing  servers 2 bottleneck not measured session not measured cache 40"},
		{"claims beyond all numbers", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 1.7e308, 50), server("b", 0, 4, swarm.Online, 100, 1.7e308, 50)}, 1,
			"[2 2 2 2] healthy missing  servers 2 bottleneck 1.8e+308 session 25 cache 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Measure(swarm.NewView(swarm.Manifest{Name: "m", Blocks: 4}, time.Time{}, c.servers))
			got := fmt.Sprintf("%v %s missing %s servers %d bottleneck %s session %s cache %d", m.Counts, m.Condition(c.wanted),
				swarm.FormatSpans(m.Missing), m.Servers, number(m.Bottleneck), number(m.SessionTPS), m.CacheLeft)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	unknown := Measure(swarm.View{})
	if got := unknown.Condition(1); got != Unknown {
		t.Errorf("an empty view is %s", got)
	}
}

func TestText(t *testing.T) {
	on := func(start, end int) swarm.Record {
		return server(swarm.PeerID(fmt.Sprint(start, end)), start, end, swarm.Online, 0, 0, 0)
	}
	joins := func(start, end int) swarm.Record {
		return server(swarm.PeerID(fmt.Sprint("j", start, end)), start, end, swarm.Joining, 0, 0, 0)
	}
	odd := make([]swarm.Record, 0, 12)
	for b := 0; b < 24; b += 2 {
		odd = append(odd, on(b, b+1))
	}
	for _, c := range []struct {
		name    string
		blocks  int
		servers []swarm.Record
		wanted  int
		want    string
	}{
		{"nothing heard", 0, nil, 1, "Its servers have not been heard from recently"},
		{"nobody", 8, nil, 1, "Nobody holds blocks 0-7"},
		{"one block missing", 8, []swarm.Record{on(0, 7)}, 1, "Nobody holds block 7"},
		{"all of the rest is coming", 8, []swarm.Record{on(0, 4), joins(4, 8)}, 1, "Nobody holds blocks 4-7 Servers are loading all of them."},
		{"some of the rest is coming", 8, []swarm.Record{on(0, 4), joins(2, 6)}, 1, "Nobody holds blocks 4-7 Servers are loading blocks 4-5."},
		{"many holes", 24, odd, 1, "Nobody holds blocks 1, 3, 5, 7, 9, 11, 13, 15 and 4 more"},
		{"no spare", 8, []swarm.Record{on(0, 8)}, 1, "Every block is held once; none has a spare"},
		{"some spares", 8, []swarm.Record{on(0, 8), on(0, 7)}, 1, "Every block is held; block 7 has no spare"},
		{"two of each", 8, []swarm.Record{on(0, 8), on(0, 4), on(4, 8)}, 1, "Every block is held 2 times or more: any server may leave"},
		{"two wanted", 8, []swarm.Record{on(0, 8), on(0, 4)}, 2, "It answers, but blocks 4-7 have fewer than 2 holders"},
		{"two wanted of one", 8, []swarm.Record{on(0, 8), on(0, 7)}, 2, "It answers, but block 7 has fewer than 2 holders"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := swarm.NewView(swarm.Manifest{Name: "m", Blocks: c.blocks}, time.Time{}, c.servers)
			m := Measure(v)
			got := m.Text(c.wanted)
			if loading := m.LoadingText(v); loading != "" {
				got += " " + loading
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
