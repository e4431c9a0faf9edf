package sim

import (
	"fmt"
	"strings"
	"time"
)

// Text tells people what a run showed.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, policy %s, seed %d: %d servers, %d blocks, %g hours\n", r.Scenario, r.Policy, r.Seed, r.Servers, r.Blocks, r.Hours)
	fmt.Fprintf(&b, "  bottleneck over bound  %.3f on average, %.3f in the worst minute, %.3f in the last\n", r.OverBound, r.WorstOver, r.LastOver)
	fmt.Fprintf(&b, "  served                 %.4f of what readers wanted\n", r.Served)
	fmt.Fprintf(&b, "  moves                  %d, %d of them after an alarm, %d in the last hour; %.3f per server and hour\n", r.Moves, r.AlarmMoves, r.MovesLastHour, r.MovesPerHour)
	fmt.Fprintf(&b, "  loaded                 %.1f GB; %.0f MB per server and hour\n", r.Bytes/1e9, r.BytesPerHour/1e6)
	if r.Holes == 0 {
		fmt.Fprintf(&b, "  holes                  none\n")
	} else {
		fmt.Fprintf(&b, "  holes                  %d, %d of them open at the end; healed after %v at the median, %v at the longest, %.0f %% within two checks\n",
			r.Holes, r.HolesOpen, secs(r.HealMedian), secs(r.HealWorst), 100*r.HealWithin)
	}
	if s := r.Sessions; s != nil {
		fmt.Fprintf(&b, "  sessions               %d, %d refused, %d lost; %.1f tokens a second, %.4f of what they asked for\n", s.Began, s.Refused, s.Lost, s.Tokens, s.Served)
		fmt.Fprintf(&b, "  a token                %.0f ms at the median, %.0f ms at most for 95 %%; %.0f %% of its time in queues\n", 1000*s.Median, 1000*s.P95, 100*s.Queued)
		fmt.Fprintf(&b, "  busy                   servers %.2f, the fullest %.2f; the busiest block %.2f times the mean\n", s.Busy, s.Fullest, s.Block)
		fmt.Fprintf(&b, "  chains                 %.3f changes to a better one per session; %d after a loss, the longest pause %.1f s; %d handed over\n", s.Changed, s.Reroutes, s.Longest, s.Handed)
	}
	return b.String()
}

func secs(s float64) time.Duration { return seconds(s).Round(time.Second) }
