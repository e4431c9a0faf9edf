package sim

import (
	"fmt"
	"strings"
	"time"

	"whorl/swarm"
	"whorl/swarm/route"
)

// herd plays sessions that come one a tick, last for life ticks, and choose by route.Plan
// one of several equal holders of all blocks, in a view that is made anew every so many
// ticks. It returns how full the fullest holder is on average, as a multiple of the mean.
func herd(holders, life, stale int, draw bool) float64 {
	const warm, ticks = 1000, 3000
	rps, full := 300.0, 2*life/holders // so many sessions keep a holder busy
	var records []swarm.Record
	for i := range holders {
		records = append(records, swarm.Record{Peer: swarm.PeerID(fmt.Sprintf("holder%d", i)), Span: swarm.Span{End: 8}, State: swarm.Online,
			CacheTotal: 1 << 20, CacheLeft: 1 << 20, Rates: swarm.Rates{InferenceRPS: &rps}})
	}
	q := route.Query{View: swarm.NewView(swarm.Manifest{Name: "m", Blocks: 8}, time.Time{}, records), Range: swarm.Span{End: 8}, Tokens: 1, Params: route.DefaultParams()}
	sessions := map[swarm.PeerID]int{}
	var ends []swarm.PeerID
	sum := 0.0
	for tick := range warm + ticks {
		if tick%stale == 0 {
			for i := range q.View.Servers {
				r := &q.View.Servers[i]
				r.Load = &swarm.Load{Busy: min(1, float64(sessions[r.Peer])/float64(full)), Sessions: sessions[r.Peer]}
			}
		}
		if draw {
			q.Draw = uint64(tick + 1)
		}
		c, err := route.Plan(q)
		if err != nil {
			return 0
		}
		sessions[c.Hops[0].Peer]++
		if ends = append(ends, c.Hops[0].Peer); len(ends) > life {
			sessions[ends[0]]--
			ends = ends[1:]
		}
		if tick >= warm {
			most := 0
			for _, n := range sessions {
				most = max(most, n)
			}
			sum += float64(most*holders) / float64(life) / ticks
		}
	}
	return sum
}

// routes is the table of how sessions spread.
func routes() string {
	var b strings.Builder
	b.WriteString("Sessions choose one of eight equal holders, in views that are a while old. How full the fullest holder is, as a multiple of the mean:\n\n")
	b.WriteString("| age of views, as a share of how long sessions last | all take the best | each has a draw |\n|---|---|---|\n")
	for _, stale := range []int{100, 40, 10, 4} {
		fmt.Fprintf(&b, "| %d %% | %.2f | %.2f |\n", stale/4, herd(8, 400, stale, false), herd(8, 400, stale, true))
	}
	return b.String()
}
