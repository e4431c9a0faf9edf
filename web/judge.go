package web

import (
	"fmt"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// judged is a model with its state in words.
type judged struct {
	view      swarm.View
	coverage  *store.Coverage
	condition store.Condition
	pill      view.Pill
	text      string
}

var conditionTones = map[store.Condition]view.Tone{store.Healthy: view.Good, store.Degraded: view.Warn, store.Broken: view.Bad, store.Unknown: view.Idle}

// judge says how a model of the snapshot is.
func (s *Site) judge(snap *snapshot, i int, now time.Time) judged {
	j := judged{view: snap.views[i], coverage: &snap.coverage[i]}
	j.condition = j.coverage.Condition(s.cfg.Redundancy)
	if snap.stale(now, s.cfg.Period) {
		j.condition = store.Unknown
	}
	j.pill = view.Pill{Tone: conditionTones[j.condition], Text: string(j.condition)}
	switch j.condition {
	case store.Unknown:
		j.text = "Its servers were not heard of for a while."
	case store.Broken:
		j.text = "Nobody holds " + blocksText(j.coverage.Missing) + since(snap, j.coverage.Model, store.ModelBroken) + loadingText(j.view, j.coverage)
	case store.Degraded:
		j.text = "It answers, but " + conditionDetail(j.coverage, s.cfg.Redundancy) + since(snap, j.coverage.Model, store.ModelDegraded)
	default:
		j.text = spareText(j.coverage)
	}
	return j
}

// loadingText says whether help for missing blocks is on the way, in a sentence of its own.
func loadingText(v swarm.View, c *store.Coverage) string {
	coming := make([]int, len(c.Counts)) // 0 where a missing block is being loaded
	for b := range coming {
		coming[b] = 1
	}
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State == swarm.Joining {
			for b := max(0, r.Span.Start); b < min(r.Span.End, len(coming)); b++ {
				coming[b] = min(1, c.Counts[b])
			}
		}
	}
	switch loading := swarm.MissingSpans(coming); {
	case len(loading) == 0:
		return ""
	case total(loading) == total(c.Missing):
		return " Servers are loading all of them."
	default:
		return " Servers are loading " + blocksText(loading) + "."
	}
}

// spareText says what a healthy model can lose.
func spareText(c *store.Coverage) string {
	if c.MinRedundancy >= 2 {
		return fmt.Sprintf("Every block has %d holders or more: any server may leave.", c.MinRedundancy)
	}
	alone := thin(c, 2)
	if total(alone) == len(c.Counts) {
		return "Every block has one holder, and none a spare one yet."
	}
	return "Every block has a holder, but there is no spare one of " + blocksText(alone) + "."
}

// since ends a sentence, with the time of the event that began the state if it is known.
func since(snap *snapshot, model swarm.UID, kind store.Kind) string {
	for _, e := range snap.past.events { // newest first
		if e.Model == model && e.Peer == "" {
			if e.Kind == kind {
				return ", since " + view.Clock(e.At) + "."
			}
			break
		}
	}
	return "."
}

func blocksText(spans []swarm.Span) string {
	if total(spans) == 1 {
		return "block " + swarm.FormatSpans(spans)
	}
	return "blocks " + view.Cut(swarm.FormatSpans(spans), 60)
}

func total(spans []swarm.Span) (n int) {
	for _, s := range spans {
		n += s.Len()
	}
	return n
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// blocksOf are all blocks of a model as they are shown. linkTo gives the address of a
// block's holders; nil for none.
func blocksOf(j judged, linkTo func(block int) string) []view.Block {
	n := j.view.Manifest.Blocks
	holders, loaders, leavers := make([][]swarm.PeerID, n), make([]int, n), make([]int, n)
	for i := range j.view.Servers {
		r := &j.view.Servers[i]
		for b := max(0, r.Span.Start); b < min(r.Span.End, n); b++ {
			switch r.State {
			case swarm.Online:
				holders[b] = append(holders[b], r.Peer)
			case swarm.Joining:
				loaders[b]++
			case swarm.Draining:
				leavers[b]++
			}
		}
	}
	out := make([]view.Block, n)
	for b := range out {
		out[b] = view.Block{Index: b, End: b + 1, Holders: len(holders[b])}
		out[b].State, out[b].Note = blockState(j.condition == store.Unknown, holders[b], loaders[b], leavers[b])
		if linkTo != nil {
			out[b].Link = linkTo(b)
		}
	}
	return out
}

func blockState(unknown bool, holders []swarm.PeerID, loaders, leavers int) (state, note string) {
	switch {
	case unknown:
		return "unknown", "not known now"
	case len(holders) == 1:
		return "online", "one holder, " + view.ShortID(string(holders[0]))
	case len(holders) > 1:
		return "online", fmt.Sprintf("%d holders", len(holders))
	case loaders > 0:
		return "joining", view.Plural(loaders, "server") + " loading it, nobody holds it yet"
	case leavers > 0:
		return "missing", "its last holder is leaving"
	}
	return "missing", "nobody holds it"
}

// summary tells the blocks in words.
func summary(blocks []view.Block, c *store.Coverage) string {
	held, unknown, most := 0, 0, 0
	for _, b := range blocks {
		most = max(most, b.Holders)
		switch b.State {
		case "online":
			held++
		case "unknown":
			unknown++
		}
	}
	switch {
	case unknown > 0:
		return fmt.Sprintf("%d blocks, whose state is not known now.", len(blocks))
	case held < len(blocks):
		return fmt.Sprintf("%d of %d blocks are held; missing: %s.", held, len(blocks), swarm.FormatSpans(c.Missing))
	case most == c.MinRedundancy:
		return fmt.Sprintf("All %d blocks are held, by %s each.", held, view.Plural(most, "server"))
	}
	return fmt.Sprintf("All %d blocks are held, by %d to %d servers each.", held, c.MinRedundancy, most)
}

var statePills = map[swarm.State]view.Pill{
	swarm.Online: {Tone: view.Good, Text: "online"}, swarm.Joining: {Tone: view.Warn, Text: "joining"},
	swarm.Draining: {Tone: view.Warn, Text: "draining"}, swarm.Offline: {Tone: view.Idle, Text: "offline"},
}

// serverPill is the state of a server: nobody is online on a page that is out of date.
func (s *Site) serverPill(snap *snapshot, state swarm.State, now time.Time) view.Pill {
	if snap.stale(now, s.cfg.Period) {
		return view.Pill{Tone: view.Idle, Text: "unknown"}
	}
	return statePills[state]
}
