package balance

import (
	"fmt"

	"whorl/swarm"
	"whorl/swarm/health"
)

// alarms are the blocks that nobody will hold, or one unsteady server alone. An intent that
// heals a block ends its alarm.
func (c *Census) alarms() []swarm.Span {
	return swarm.SpansWhere(len(c.holders), func(b int) bool { return c.held(b) < sureHolder })
}

// Alarm says which blocks call for servers at once, in words too; none if all is well.
// Whoever sees a new one looks at its own blocks without waiting for its next check.
func (c *Census) Alarm() ([]swarm.Span, string) {
	spans := c.alarms()
	if len(spans) == 0 {
		return nil, ""
	}
	return spans, fmt.Sprintf("%s %s", health.Blocks(spans), lacking(c, spans))
}

// lacking says what is wrong with blocks.
func lacking(c *Census, spans []swarm.Span) string {
	verb := "have"
	if swarm.Total(spans) == 1 {
		verb = "has"
	}
	for _, s := range spans {
		for b := s.Start; b < s.End; b++ {
			if c.held(b) == 0 {
				return verb + " no holder"
			}
		}
	}
	return verb + " one unsteady holder alone"
}

// needs says why a newcomer is needed on a span.
func (c *Census) needs(span swarm.Span) string {
	block, bare := span.Start, false
	for b := span.Start; b < span.End; b++ {
		if c.held(b) == 0 {
			bare = true
		}
		if c.rate[b] < c.rate[block] {
			block = b
		}
	}
	level := c.Level()
	switch {
	case level == 0:
		return fmt.Sprintf("%v: nobody holds anything yet", span)
	case bare:
		return fmt.Sprintf("%v: nobody holds all of it", span)
	}
	return fmt.Sprintf("%v: block %d has %s of an even spread", span, block, percent(c.rate[block]/level))
}
