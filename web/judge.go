package web

import (
	"fmt"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/swarm/health"
	"whorl/web/view"
)

// judged is a model with its state in words.
type judged struct {
	view      swarm.View
	coverage  *store.Coverage
	condition health.Condition
	pill      view.Pill
	text      string
}

var conditionTones = map[health.Condition]view.Tone{health.Healthy: view.Good, health.Degraded: view.Warn, health.Broken: view.Bad, health.Unknown: view.Idle}

// judge says how a model of the snapshot is.
func (s *Site) judge(snap *snapshot, i int, now time.Time) judged {
	j := judged{view: snap.views[i], coverage: &snap.coverage[i]}
	j.condition, j.text = j.coverage.Condition(s.cfg.Redundancy), j.coverage.Text(s.cfg.Redundancy)
	if snap.stale(now, s.cfg.Period) {
		j.condition, j.text = health.Unknown, health.NotHeard
	}
	j.pill = view.Pill{Tone: conditionTones[j.condition], Text: string(j.condition)}
	if kind, ok := modelKinds[j.condition]; ok && kind != store.ModelHealthy {
		j.text += since(snap, j.coverage.Model, kind)
	}
	j.text = sentence(j.text)
	if loading := j.coverage.LoadingText(j.view); j.condition == health.Broken && loading != "" {
		j.text += " " + loading
	}
	return j
}

// since goes on with a sentence: the time of the event that began the state, if it is known.
func since(snap *snapshot, model swarm.UID, kind store.Kind) string {
	for _, e := range snap.past.events { // newest first
		if e.Model == model && e.Peer == "" {
			if e.Kind == kind {
				return ", since " + view.Clock(e.At)
			}
			break
		}
	}
	return ""
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
	for b, r := range j.view.Held(swarm.Draining) {
		switch r.State {
		case swarm.Online:
			holders[b] = append(holders[b], r.Peer)
		case swarm.Joining:
			loaders[b]++
		case swarm.Draining:
			leavers[b]++
		}
	}
	out := make([]view.Block, n)
	for b := range out {
		out[b] = view.Block{Index: b, End: b + 1, Holders: len(holders[b])}
		out[b].State, out[b].Note = blockState(j.condition == health.Unknown, holders[b], loaders[b], leavers[b])
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

// recordPill is the state of a server by its record: what it says of itself is not shown as a
// fact while this node has had no contact with it.
func (s *Site) recordPill(snap *snapshot, r *swarm.Record, now time.Time) view.Pill {
	if r.State == swarm.Online && !snap.stale(now, s.cfg.Period) && snap.hearsay(r) {
		return view.Pill{Tone: view.Idle, Text: "not reached"}
	}
	return s.serverPill(snap, r.State, now)
}
