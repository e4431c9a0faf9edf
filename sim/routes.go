package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"whorl/swarm"
	"whorl/swarm/route"
)

// gateways are how many clients the sessions of a herd come from, in turn.
const gateways = 8

// herd plays sessions that come one a tick, last for life ticks, and choose by route.Plan
// one of several equal holders of all blocks, in a view that is made anew every so many
// ticks. With told each client also hears, with results, what the holders of its own sessions have to
// do. It returns how full the fullest holder is on average, as a multiple of the mean.
func herd(holders, life, stale int, draw, told bool) float64 {
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
	own := [gateways]map[swarm.PeerID]int{}
	for i := range own {
		own[i] = map[swarm.PeerID]int{}
	}
	records = q.View.Servers
	sum := 0.0
	load := func(p swarm.PeerID) *swarm.Load {
		return &swarm.Load{Busy: min(1, float64(sessions[p])/float64(full)), Sessions: sessions[p]}
	}
	for tick := range warm + ticks {
		mine := own[tick%gateways]
		if tick%stale == 0 {
			for i := range records {
				records[i].Load = load(records[i].Peer)
			}
		}
		q.View.Servers = slices.Clone(records)
		for i := range q.View.Servers {
			if r := &q.View.Servers[i]; told && mine[r.Peer] > 0 {
				r.Load = load(r.Peer)
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
		mine[c.Hops[0].Peer]++
		if ends = append(ends, c.Hops[0].Peer); len(ends) > life {
			sessions[ends[0]]--
			own[(tick-life)%gateways][ends[0]]--
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
	b.WriteString("Sessions choose one of eight equal holders, in views that are a while old; they come from eight clients in turn. How full the fullest holder is, as a multiple of the mean:\n\n")
	b.WriteString("| age of views, as a share of how long sessions last | all take the best | each has a draw | a draw, and loads with results |\n|---|---|---|---|\n")
	for _, stale := range []int{200, 100, 40, 10, 4} {
		fmt.Fprintf(&b, "| %d %% | %.2f | %.2f | %.2f |\n", stale/4, herd(8, 400, stale, false, false), herd(8, 400, stale, true, false), herd(8, 400, stale, true, true))
	}
	return b.String()
}
