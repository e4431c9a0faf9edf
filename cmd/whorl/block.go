package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"whorl/swarm"
)

// paceOver is how far back the present speed looks.
const paceOver = 5 * time.Second

// pace is the speed of a counter of late.
type pace struct {
	seen []struct {
		n  uint64
		at time.Time
	}
}

// of notes the counter and tells its speed per second.
func (p *pace) of(n uint64, now time.Time) float64 {
	p.seen = append(p.seen, struct {
		n  uint64
		at time.Time
	}{n, now})
	for len(p.seen) > 2 && now.Sub(p.seen[1].at) >= paceOver {
		p.seen = slices.Delete(p.seen, 0, 1)
	}
	first := p.seen[0]
	if took := now.Sub(first.at).Seconds(); took > 0 && n >= first.n {
		return float64(n-first.n) / took
	}
	return 0
}

// blockLines is what a node shows of itself: a line for each thing, the same ones in the same
// order as long as it lives, so that the eye finds them.
func blockLines(st swarm.NodeStatus, rate float64, url, note string) []string {
	var out []string
	line := func(name, format string, a ...any) {
		out = append(out, fmt.Sprintf("%-10s", name)+fmt.Sprintf(format, a...))
	}
	what := strings.Join(st.Roles, " and ")
	if st.Manifest != nil && st.Manifest.Name != "" {
		what += " of " + st.Manifest.Name
	}
	line("whorl", "%s, in swarm %s", what, st.Swarm)
	state := st.State.String()
	if l := st.Loading; l != nil && l.Phase == swarm.Fetching {
		state += fmt.Sprintf(", fetching %s %s of %s", bar(l.Bytes, l.Total), bytesText(l.Bytes), bytesText(l.Total))
		if l.Rate > 0 {
			state += fmt.Sprintf(", %s/s", bytesText(int64(l.Rate)))
		}
		if l.SecondsLeft != nil {
			state += fmt.Sprintf(", %s left", (time.Duration(*l.SecondsLeft) * time.Second).String())
		}
	}
	line("state", "%s", state)
	if slices.Contains(st.Roles, "server") {
		blocks := "none yet"
		if st.Span != nil {
			blocks = st.Span.String()
			if st.Manifest != nil {
				blocks += fmt.Sprintf(" of %d", st.Manifest.Blocks)
			}
		}
		line("blocks", "%s", blocks)
		line("speed", "%.1f tokens/s offered, %.1f now", st.Throughput, rate)
		line("sessions", "%d now, %d served", st.Sessions, st.Served)
		line("given", "%d tokens", st.Batch.Rows)
	}
	line("peers", "%d", st.Peers)
	if url != "" {
		line("open", "%s/", url)
	}
	if note != "" {
		line("log", "%s", note)
	}
	return out
}
