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
	return b.String()
}

func secs(s float64) time.Duration { return seconds(s).Round(time.Second) }
