package health

import (
	"fmt"

	"whorl/swarm"
)

// NotHeard is the text of a model whose state is not known.
const NotHeard = "Its servers have not been heard from recently"

// Text says how a model is in one sentence without its full stop, so that a page may add
// since when. wanted is that of Condition.
func (c *Coverage) Text(wanted int) string {
	switch c.Condition(wanted) {
	case Unknown:
		return NotHeard
	case Broken:
		return "Nobody holds " + Blocks(c.Missing)
	case Degraded:
		return fmt.Sprintf("It answers, but %s %s fewer than %d holders", Blocks(c.Thin(wanted)), have(c.Thin(wanted)), wanted)
	}
	alone := c.Thin(2)
	switch {
	case len(alone) == 0:
		return fmt.Sprintf("Every block is held %d times or more: any server may leave", c.MinRedundancy)
	case swarm.Total(alone) == len(c.Counts):
		return "Every block is held once; none has a spare"
	}
	return fmt.Sprintf("Every block is held; %s %s no spare", Blocks(alone), have(alone))
}

// LoadingText says whether missing blocks are on their way, in a sentence of its own; "" if
// none is.
func (c *Coverage) LoadingText(v swarm.View) string {
	switch loading := c.Loading(v); {
	case len(loading) == 0:
		return ""
	case swarm.Total(loading) == swarm.Total(c.Missing):
		return "Servers are loading all of them."
	default:
		return "Servers are loading " + Blocks(loading) + "."
	}
}

// maxRanges is how many ranges of blocks a sentence names.
const maxRanges = 8

// Blocks names blocks in a sentence: "block 7", "blocks 4-7, 9", and of many ranges the
// first and how many blocks are left out.
func Blocks(spans []swarm.Span) string {
	if swarm.Total(spans) == 1 {
		return "block " + swarm.FormatSpans(spans)
	}
	if len(spans) <= maxRanges {
		return "blocks " + swarm.FormatSpans(spans)
	}
	return fmt.Sprintf("blocks %s and %d more", swarm.FormatSpans(spans[:maxRanges]), swarm.Total(spans[maxRanges:]))
}

func have(spans []swarm.Span) string {
	if swarm.Total(spans) == 1 {
		return "has"
	}
	return "have"
}
