package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/swarm/health"
)

// snapshot is all that pages are made of. Nobody changes one after it was published.
type snapshot struct {
	seq      uint64
	at       time.Time        // of the sample; zero before the first
	okAt     time.Time        // of the last sample that succeeded
	views    []swarm.View     // by name, then id; models nobody serves any more have no servers
	coverage []store.Coverage // of each view
	crawl    store.Crawl
	failures int // rounds that failed, up to now
	past     past
	next     chan struct{} // closed when a newer one is published
}

// past is what was last read from the history.
type past struct {
	at      time.Time // of the last load that succeeded; zero for never
	events  []store.Event
	trends  map[swarm.UID][]store.Coverage
	servers map[serverKey]store.Server
	crawls  int // rounds of the last hour
	failed  int // of those

	err    error     // of the last use of the store
	since  time.Time // when it began to fail
	errors int       // failed uses in all
}

type serverKey struct {
	model swarm.UID
	peer  swarm.PeerID
}

// Bounds of what strangers can make the pages hold.
const (
	maxModels = 50
	maxRows   = 300
	maxPast   = 20 // events of a page
)

// memory keeps the models that were seen.
type memory struct {
	remember time.Duration
	seen     map[swarm.UID]seenModel
}

type seenModel struct {
	manifest swarm.Manifest
	at       time.Time
}

// models completes views by the models that were served a short time ago: one that lost
// its last server is broken, not gone.
func (m *memory) models(views []swarm.View, now time.Time) []swarm.View {
	all := make([]swarm.View, 0, len(views))
	for _, v := range views {
		if v.Manifest.Blocks > 0 { // a view without a manifest is of a model nobody knows
			all = append(all, v)
			if len(v.Servers) > 0 {
				m.seen[v.Manifest.UID()] = seenModel{v.Manifest, now}
			}
		}
	}
	for uid, s := range m.seen {
		switch {
		case now.Sub(s.at) > m.remember:
			delete(m.seen, uid)
		case !slices.ContainsFunc(all, func(v swarm.View) bool { return v.Manifest.UID() == uid }):
			all = append(all, swarm.View{Manifest: s.manifest, At: now})
		}
	}
	slices.SortFunc(all, func(a, b swarm.View) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Servers)), min(1, len(a.Servers))), strings.Compare(a.Manifest.Name, b.Manifest.Name),
			strings.Compare(string(a.Manifest.UID()), string(b.Manifest.UID())))
	})
	for _, v := range all[min(len(all), maxModels):] {
		delete(m.seen, v.Manifest.UID())
	}
	return all[:min(len(all), maxModels)]
}

// stale tells whether a snapshot is too old to say that anything is online.
func (s *snapshot) stale(now time.Time, period time.Duration) bool {
	return s.okAt.IsZero() || now.Sub(s.okAt) > 2*period
}

// model finds a view and its coverage.
func (s *snapshot) model(uid swarm.UID) (swarm.View, *store.Coverage, bool) {
	for i, v := range s.views {
		if s.coverage[i].Model == uid {
			return v, &s.coverage[i], true
		}
	}
	return swarm.View{}, nil, false
}

// known is what the last snapshot said, to tell changes from.
type known struct {
	servers map[serverKey]knownServer
	models  map[swarm.UID]knownModel
}

type knownServer struct {
	state     swarm.State
	span      swarm.Span
	next      swarm.Span // where it means to go; empty if it stays
	modelName string
	name      string
}

type knownModel struct {
	condition health.Condition
	detail    string
	since     time.Time // when it broke, if it is broken
}

// changes compares a snapshot with what was known and tells what happened, servers before
// models, each in a fixed order. It makes known what the snapshot says.
func (k *known) changes(s *snapshot, redundancy int) []store.Event {
	var out []store.Event
	servers := map[serverKey]knownServer{}
	for i, v := range s.views {
		for j := range v.Servers {
			r := &v.Servers[j]
			key := serverKey{s.coverage[i].Model, r.Peer}
			now := knownServer{r.State, r.Span, intended(r), v.Manifest.Name, publicName(r)}
			servers[key] = now
			if e, happened := serverEvent(key, k.servers[key], now, k.servers != nil && hasKey(k.servers, key)); happened {
				out = append(out, e)
			}
		}
	}
	var gone []serverKey
	for key, was := range k.servers {
		if !hasKey(servers, key) && was.state != swarm.Offline {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, func(a, b serverKey) int {
		return cmp.Or(strings.Compare(string(a.model), string(b.model)), strings.Compare(string(a.peer), string(b.peer)))
	})
	for _, key := range gone {
		was := k.servers[key]
		out = append(out, store.Event{Kind: store.ServerOffline, Model: key.model, ModelName: was.modelName, Peer: key.peer, Span: was.span})
	}
	models := map[swarm.UID]knownModel{}
	for i := range s.coverage {
		c := &s.coverage[i]
		was := k.models[c.Model]
		now := knownModel{c.Condition(redundancy), conditionDetail(c, redundancy), was.since}
		healed := ""
		switch {
		case now.condition != health.Broken && !was.since.IsZero():
			healed = "whole again after " + s.at.Sub(was.since).Round(time.Second).String()
			now.since = time.Time{}
		case now.condition == health.Broken && was.condition != health.Broken && was.condition != "": // one that just begins heals of nothing
			now.since = s.at
		}
		models[c.Model] = now
		if was.condition != now.condition || was.detail != now.detail {
			out = append(out, store.Event{Kind: modelKinds[now.condition], Model: c.Model, ModelName: c.ModelName, Detail: strings.TrimPrefix(strings.TrimSuffix(now.detail+"; "+healed, "; "), "; ")})
		}
	}
	k.servers, k.models = servers, models
	for i := range out {
		out[i].At = s.at
	}
	return out
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

var modelKinds = map[health.Condition]store.Kind{health.Healthy: store.ModelHealthy, health.Degraded: store.ModelDegraded, health.Broken: store.ModelBroken}

var stateKinds = map[swarm.State]store.Kind{
	swarm.Joining: store.ServerJoining, swarm.Online: store.ServerOnline, swarm.Draining: store.ServerDraining, swarm.Offline: store.ServerOffline,
}

// serverEvent tells what happened to a server, if anything did.
func serverEvent(key serverKey, was, now knownServer, before bool) (store.Event, bool) {
	e := store.Event{Kind: stateKinds[now.state], Model: key.model, ModelName: now.modelName, Peer: key.peer, PublicName: now.name, Span: now.span}
	switch {
	case !before:
		return e, now.state != swarm.Offline
	case was.state != now.state:
		return e, true
	case was.span != now.span:
		e.Kind, e.Detail = store.ServerMoved, was.span.String()
		return e, now.state != swarm.Joining // who still chooses has left nothing
	case was.next != now.next && now.next.Len() > 0 && now.state == swarm.Online:
		e.Kind, e.Detail = store.ServerIntends, now.next.String()
		return e, true
	}
	return store.Event{}, false
}

// intended is where a server means to go; empty if it stays, or has not chosen.
func intended(r *swarm.Record) swarm.Span {
	if r.Next == nil {
		return swarm.Span{}
	}
	return r.Next.Span
}

// conditionDetail says why a model is not healthy: of a broken one the blocks without a
// holder, of a degraded one a sentence.
func conditionDetail(c *store.Coverage, redundancy int) string {
	switch c.Condition(redundancy) {
	case health.Broken:
		return swarm.FormatSpans(c.Missing)
	case health.Degraded:
		return c.Text(redundancy)
	}
	return ""
}

// nameFloor is how many blocks a server must hold for its public name to be shown: names
// are thanks for a real share. All blocks of a smaller model are enough.
const nameFloor = 10

// publicName is a server's name if it may be shown; otherwise it must not leave this node.
func publicName(r *swarm.Record) string {
	if r.State != swarm.Online || r.Span.Len() < min(nameFloor, r.Manifest.Blocks) {
		return ""
	}
	return r.PublicName
}

// hearsay tells whether all that is known of a server is what it says.
func (s *snapshot) hearsay(r *swarm.Record) bool {
	for i, v := range s.views {
		if s.coverage[i].Model == r.UID {
			return v.Hearsay(r.Peer)
		}
	}
	return false
}
