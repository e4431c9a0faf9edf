package wiring

import (
	"context"
	"maps"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/health"
	"whorl/swarm/trust"
)

// watchEvery is how often a node looks for what has changed: events are so late at most, and what
// comes and goes in between is not told.
const watchEvery = time.Second

// moment is what events are told about, at one time.
type moment struct {
	state    string
	blocks   string // the span, "" for none
	short    string // why no sessions are taken for want of memory
	ready    map[string]string
	sessions map[string]swarm.SessionStatus // by role and id
	peers    map[swarm.PeerID]bool
	avoided  map[swarm.PeerID]trust.Avoidance
	missing  map[string]string // blocks that nobody holds, by model
}

// event is one change.
type event struct {
	kind string
	data map[string]any
}

// events are the changes from one moment to the next, in a stable order.
func (before moment) events(now moment) (out []event) {
	tell := func(kind string, pairs ...any) {
		data := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			data[pairs[i].(string)] = pairs[i+1]
		}
		out = append(out, event{kind, data})
	}
	if before.state != now.state {
		tell("node.state", "from", before.state, "to", now.state)
	}
	if before.blocks != now.blocks {
		tell("node.blocks", "from", before.blocks, "to", now.blocks)
	}
	if (before.short == "") != (now.short == "") {
		tell("node.memory", "short", now.short != "", "reason", now.short)
	}
	for _, part := range union(before.ready, now.ready) {
		if was, is := before.ready[part], now.ready[part]; was != is {
			tell("node.check", "part", part, "ok", is == "", "reason", is)
		}
	}
	for _, model := range union(before.missing, now.missing) {
		was, known := before.missing[model]
		is, left := now.missing[model]
		switch {
		case !known && left:
			tell("model.found", "model", model, "missing", is)
		case known && !left:
			tell("model.gone", "model", model)
		case was != is:
			tell("model.coverage", "model", model, "from", was, "missing", is)
		}
	}
	for _, key := range union(before.sessions, now.sessions) {
		was, known := before.sessions[key]
		is, left := now.sessions[key]
		switch {
		case !known:
			tell("session.opened", "session", is.ID, "role", is.Role, "model", is.Model, "max_length", is.MaxLength)
		case !left:
			tell("session.ended", "session", was.ID, "role", was.Role, "model", was.Model, "position", was.Position, "steps", was.Steps)
		case is.Epoch != was.Epoch && was.Epoch > 0:
			tell("session.rerouted", "session", is.ID, "role", is.Role, "epoch", is.Epoch, "route", is.Route)
		}
	}
	for _, p := range union(before.peers, now.peers) {
		switch {
		case !before.peers[p]:
			tell("peer.connected", "peer_id", p)
		case !now.peers[p]:
			tell("peer.gone", "peer_id", p)
		}
	}
	for _, p := range union(before.avoided, now.avoided) {
		was, known := before.avoided[p]
		is, left := now.avoided[p]
		switch {
		case left && (!known || was.Kind != is.Kind):
			tell("peer.avoided", "peer_id", p, "kind", is.Kind, "until", is.Until.UTC(), "reason", is.Reason)
		case known && !left:
			tell("peer.pardoned", "peer_id", p)
		}
	}
	return out
}

// union is the keys of both, sorted.
func union[K ~string, V any](a, b map[K]V) []K {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sight is what a node knows of the swarm's models: views, and what their blocks lack. Making it costs
// as much as the swarm is large, so it is kept while nothing has changed.
type sight struct {
	changed <-chan struct{}
	until   time.Time // servers fall silent without a change: it is not kept for longer
	views   []swarm.View
	missing map[string]string // blocks that nobody holds, by model
}

// sightFor is how long a sight is kept.
const sightFor = 3 * time.Second

// look renews a sight if it is time to.
func (n *Node) look(s *sight, now time.Time) {
	select {
	case <-s.changed:
	default:
		if now.Before(s.until) {
			return
		}
	}
	*s = sight{changed: n.net.Directory.Changed(), until: now.Add(sightFor), missing: map[string]string{}}
	s.views = n.net.Directory.Views()
	for _, v := range s.views {
		s.missing[v.Manifest.Name+" "+string(v.Manifest.UID())] = swarm.FormatSpans(health.Measure(v).Missing)
	}
}

// watch writes what changes into the node's events, until ctx ends.
func (n *Node) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var seen sight
	before := n.moment(&seen, time.Now())
	n.events.Add(time.Now(), "node.started", map[string]any{"peer_id": n.net.host.ID(), "roles": n.roles, "version": BuildVersion})
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			next := n.moment(&seen, now)
			for _, e := range before.events(next) {
				n.events.Add(now, e.kind, e.data)
			}
			before = next
		}
	}
}

// moment is how the node is now; seen is what was seen of the swarm before, and is renewed.
func (n *Node) moment(seen *sight, now time.Time) moment {
	n.look(seen, now)
	st := n.Status()
	m := moment{
		state: st.State.String(), ready: map[string]string{}, sessions: map[string]swarm.SessionStatus{},
		peers: map[swarm.PeerID]bool{}, avoided: map[swarm.PeerID]trust.Avoidance{}, missing: seen.missing,
	}
	if st.Span != nil {
		m.blocks = st.Span.String()
	}
	if st.Memory != nil {
		m.short = st.Memory.Short
	}
	for part, err := range n.ready(func() []swarm.View { return seen.views }) {
		if m.ready[part] = ""; err != nil {
			m.ready[part] = OneLine(err)
		}
	}
	for _, s := range n.Sessions() {
		m.sessions[s.Role+" "+s.ID] = s
	}
	for _, p := range n.net.host.PeerIDs() {
		m.peers[p] = true
	}
	for _, s := range n.Standings() {
		if s.Avoid != nil {
			m.avoided[s.Peer] = *s.Avoid
		}
	}
	return m
}
