package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"whorl/swarm"
)

// server makes a record; digests are those of an honest server unless given.
func server(peer swarm.PeerID, start, end int, state swarm.State, rps, throughput float64, cache int64, digests ...string) swarm.Record {
	r := swarm.Record{Peer: peer, Span: swarm.Span{Start: start, End: end}, State: state, Throughput: throughput, CacheTotal: cache, CacheLeft: cache, Digests: digests}
	if rps > 0 {
		r.Rates.InferenceRPS = &rps
	}
	if len(digests) == 0 {
		for b := start; b < end; b++ {
			r.Digests = append(r.Digests, fmt.Sprint("d", b))
		}
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
		{"nobody", nil, 1, "[0 0 0 0] broken missing 0-3 disputed  servers 0 bottleneck not measured session not measured cache 0"},
		{"case 040: half of the blocks", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50)}, 1,
			"[1 1 0 0] broken missing 2-3 disputed  servers 1 bottleneck not measured session not measured cache 0"},
		{"case 040: both halves", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50), server("b", 2, 4, swarm.Online, 200, 30, 40)}, 1,
			"[1 1 1 1] healthy missing  disputed  servers 2 bottleneck 20 session 33.3 cache 40"},
		{"spare holders wanted", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 20, 50)}, 2,
			"[1 1 1 1] degraded missing  disputed  servers 1 bottleneck 20 session 25 cache 50"},
		{"joining and draining do not count", []swarm.Record{server("a", 0, 4, swarm.Joining, 1, 1, 1), server("b", 0, 4, swarm.Draining, 1, 1, 1)}, 1,
			"[0 0 0 0] broken missing 0-3 disputed  servers 0 bottleneck not measured session not measured cache 0"},
		{"throughput adds up, speed is the best", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 20, 50), server("b", 0, 4, swarm.Online, 400, 30, 10)}, 1,
			"[2 2 2 2] healthy missing  disputed  servers 2 bottleneck 50 session 100 cache 60"},
		{"what is not measured is not guessed", []swarm.Record{server("a", 0, 2, swarm.Online, 100, 20, 50), server("b", 2, 4, swarm.Online, 0, 0, 40)}, 1,
			"[1 1 1 1] healthy missing  disputed  servers 2 bottleneck not measured session not measured cache 40"},
		{"holders disagree", []swarm.Record{server("a", 0, 4, swarm.Online, 100, 20, 50), server("b", 0, 4, swarm.Online, 100, 20, 50, "d0", "evil", "d2", "d3")}, 1,
			"[2 2 2 2] degraded missing  disputed 1 servers 2 bottleneck 40 session 25 cache 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Measure(swarm.NewView(swarm.Manifest{Name: "m", Blocks: 4}, t0, c.servers))
			got := fmt.Sprintf("%v %s missing %s disputed %s servers %d bottleneck %s session %s cache %d", m.Counts, m.Condition(c.wanted),
				swarm.FormatSpans(m.Missing), swarm.FormatSpans(m.Disputed), m.Servers, number(m.Bottleneck), number(m.SessionTPS), m.CacheLeft)
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

func TestWindowSteps(t *testing.T) {
	w := Window{Step: time.Minute}
	if a, b := w.bucket(at(0)), w.bucket(at(59)); a != b {
		t.Errorf("seconds 0 and 59 lie in steps %d and %d", a, b)
	}
	if a, b := w.bucket(at(59)), w.bucket(at(60)); a+1 != b {
		t.Errorf("seconds 59 and 60 lie in steps %d and %d", a, b)
	}
}

func TestPackCounts(t *testing.T) {
	for _, counts := range [][]int{nil, {0}, {1, 1, 1}, {0, 1, 0, 300, 300}, make([]int, swarm.MaxBlocks)} {
		got, err := unpackCounts(packCounts(counts))
		if err != nil || !slices.Equal(got, counts) {
			t.Errorf("%d counts came back as %d, %v", len(counts), len(got), err)
		}
	}
	for _, b := range [][]byte{{1}, {1, 0}, {0x80}, {1, 0x80}, {1, 0x81, 0x20}, append(packCounts(make([]int, swarm.MaxBlocks)), 1, 1)} {
		if got, err := unpackCounts(b); err == nil {
			t.Errorf("bytes %v were read as %d counts", b, len(got))
		}
	}
}

func FuzzUnpackCounts(f *testing.F) {
	f.Add([]byte{})
	f.Add(packCounts([]int{1, 1, 0, 2}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		counts, err := unpackCounts(b)
		if err != nil {
			return
		}
		again, err := unpackCounts(packCounts(counts))
		if err != nil || !slices.Equal(again, counts) {
			t.Errorf("%v came back as %v, %v", counts, again, err)
		}
	})
}
