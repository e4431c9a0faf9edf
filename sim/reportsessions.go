package sim

import (
	"fmt"
	"io"
)

// sessionPlays are the runs of the table of sessions.
func sessionPlays() (all []play) {
	for _, routes := range Routes() {
		all = append(all, play{scenario: "boast", routes: routes})
	}
	return append(all, play{scenario: "boast", routes: "better", deaf: true}, play{scenario: "boast", routes: "better", honest: true},
		play{scenario: "boast", routes: "better", honest: true, deaf: true}, play{scenario: "readers", routes: "better"})
}

// aboutSessions says what the table shows.
const aboutSessions = `Sessions come to gateways, plan a chain by swarm/route, go on token by token, lose servers, and change to better chains, as clients do. A server computes the tokens of its
sessions in turn: how long one waits there follows Schweitzer's approximation for closed queueing networks, a second at a time; it is faster than that where rows are computed together (ADR 0012). *Routes* are, each
with what those before it have: *best*, all take the best chain by their view; *draw*, each has a draw of its own; *told*, loads come with results; *better*, running sessions change to a clearly
better chain, which is the product. *Hears loads* tells whether placement counts measured loads, as the product does, or what servers announce alone.`

// sessions writes that table.
func sessions(w io.Writer, note func(string)) error {
	plays := sessionPlays()
	for i := range plays {
		plays[i].policy, plays[i].seed = "ours", 1
	}
	results, err := playAll(plays, note)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "## Sessions\n\n%s\n\n| scenario | routes | hears loads | tokens a second | ms a token at the median | 95 %% within | in queues | busy servers | the fullest | busiest block over mean | changes per session | refused | lost | rerouted after a loss | longest pause | moves per server and hour |\n", aboutSessions)
	fmt.Fprintf(w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, r := range results {
		p, s := plays[i], r.Sessions
		name, hears := p.scenario, "yes"
		if p.honest {
			name += ", nobody boasts"
		}
		if p.deaf {
			hears = "no"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.0f | %.0f | %.0f | %.0f %% | %.2f | %.2f | %.2f | %.3f | %d | %d | %d | %.1f s | %.3f |\n", name, p.routes, hears, s.Tokens, 1000*s.Median, 1000*s.P95,
			100*s.Queued, s.Busy, s.Fullest, s.Block, s.Changed, s.Refused, s.Lost, s.Reroutes, s.Longest, r.MovesPerHour)
	}
	day := results[len(results)-1].Sessions
	fmt.Fprintf(w, "\nBy day and night: of what readers asked for between 9 and 15 o'clock, when most come, %.4f was served, and %.4f of all.\n", day.Noon, day.Served)
	return nil
}
