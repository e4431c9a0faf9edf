package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// maxPeerID is longer than any peer id.
const maxPeerID = 128

func (s *Site) serverPage(r *http.Request, snap *snapshot) (*view.Page, int) {
	peer := swarm.PeerID(pathParam(r, "peer"))
	records := recordsOf(snap, peer)
	past, seen := lastSeen(snap, peer)
	if len(records) == 0 && !seen || len(peer) > maxPeerID {
		return s.problem(r, snap, "No server with that id is known.", "Servers that left are forgotten after "+view.Period(s.cfg.Remember)+".")
	}
	ask := parseModelQuery(r.URL.Query(), 0)
	p := s.frame(snap, "Server "+view.ShortID(string(peer)), "server", serverPath(peer), ask.args)
	v := view.ServerPage{
		Peer: string(peer), Mine: peer == s.source(), Pill: s.serverPill(snap, swarm.Offline, p.Now), Text: serverText(records, past, seen) + s.avoidedText(peer),
		History: s.serverHistory(r.Context(), snap, peer, ask, p.Nav), Events: s.serverEvents(r.Context(), snap, peer), Pings: pings(snap, peer),
	}
	for _, rec := range records {
		v.Name, v.Pill, v.Addrs = view.PublicName(publicName(rec)), s.recordPill(snap, rec, p.Now), rec.Addrs
		v.Records = append(v.Records, s.serverRecord(snap, rec, p.Now))
	}
	if v.Mine && s.deps.Node != nil {
		if r := s.deps.Node.Status().Reach; r != nil { // others do not say
			v.Text += reachText(*r)
			v.Addrs = reachAddrs(*r, v.Addrs)
		}
	}
	v.Sections(p)
	return p, http.StatusOK
}

// reachText says whether others can dial this node, and what to do if not.
func reachText(r swarm.Reach) string {
	switch r.State {
	case swarm.ReachYes:
		return " Others can dial it."
	case swarm.ReachNo:
		text := " Nobody can dial it"
		if n := len(r.Relays); n == 1 {
			text += ": it is reached through a relay"
		} else if n > 1 {
			text += fmt.Sprintf(": it is reached through %d relays", n)
		}
		return text + ". What helps: " + r.Advice + "."
	}
	return " Nobody could be asked whether others can dial it."
}

// reachAddrs are the addresses with what is known of them: those that were tried, then the
// others that are announced.
func reachAddrs(r swarm.Reach, announced []string) []string {
	var out []string
	tried := map[string]bool{}
	for _, a := range r.Addrs {
		tried[a.Addr] = true
		out = append(out, a.String())
	}
	for _, a := range announced {
		if !tried[a] {
			out = append(out, a)
		}
	}
	for _, a := range r.Mapped {
		out = append(out, a+" (forwarded by the router)")
	}
	return out
}

// avoidedText says that this gateway avoids a server, and why.
func (s *Site) avoidedText(p swarm.PeerID) string {
	if s.deps.Avoided == nil {
		return ""
	}
	until, why, ok := s.deps.Avoided(p)
	if !ok {
		return ""
	}
	return " This gateway avoids it until " + view.Clock(until) + ": " + why + "."
}

// recordsOf are the records of a peer, one per model, the one that is furthest on the way
// to serving last.
func recordsOf(snap *snapshot, p swarm.PeerID) (out []*swarm.Record) {
	for _, v := range snap.views {
		if r, ok := v.Server(p); ok {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *swarm.Record) int { return int(a.State) - int(b.State) })
	return out
}

// lastSeen is what the history knows of a server: the earliest and the latest of it.
func lastSeen(snap *snapshot, p swarm.PeerID) (out store.Server, ok bool) {
	for key, s := range snap.past.servers {
		if key.peer != p {
			continue
		}
		first := s.First
		if ok && out.First.Before(first) {
			first = out.First
		}
		if !ok || s.At.After(out.At) {
			out = s
		}
		out.First, ok = first, true
	}
	return out, ok
}

// serverText says in words how the server is.
func serverText(records []*swarm.Record, past store.Server, seen bool) string {
	var text string
	switch {
	case len(records) == 0:
		text = "It has left the swarm. It was last seen on " + view.Clock(past.At) + "."
	case records[len(records)-1].State == swarm.Online:
		text = "Online and serving."
	case records[len(records)-1].State == swarm.Joining:
		text = "Loading its blocks."
	case records[len(records)-1].State == swarm.Draining:
		text = "Draining: it finishes its sessions and takes no new ones."
	default:
		text = "It announced that it is leaving."
	}
	if seen {
		text += " Known since " + view.Clock(past.First) + "."
	}
	return text
}

func (s *Site) serverRecord(snap *snapshot, r *swarm.Record, now time.Time) view.ServerRecord {
	cache := fmt.Sprintf("%s of %s", view.Count(r.CacheLeft), view.Count(r.CacheTotal))
	link, assumed := network(r.Rates, r.Manifest.Hidden)
	rec := view.ServerRecord{
		Model: view.PublicName(r.Manifest.Name).Text, Link: modelPath(r.UID), State: s.recordPill(snap, r, now), Span: r.Span.String(), Fetching: progress(r.Loading),
		Bar: spanBar(r.Span, r.Manifest.Blocks, s.recordPill(snap, r, now)),
		Facts: []view.Fact{
			{Name: "Throughput", Value: throughput(r.Throughput), Note: "per block, as it says"}, {Name: "Decode", Value: view.Rate(r.Rates.InferenceRPS), Note: "through one block"},
			{Name: "Prefill", Value: view.Rate(r.Rates.ForwardRPS), Note: "through one block"}, {Name: "Network", Value: link, Note: assumed},
			{Name: "Free cache", Value: cache, Note: "tokens"}, {Name: "Longest session", Value: strconv.Itoa(r.MaxLength), Note: "tokens"},
			{Name: "Weights", Value: strings.TrimSuffix(r.Manifest.Class.DType+", "+r.Manifest.Class.Quant, ", none")}, {Name: "Arithmetic", Value: r.Manifest.Class.Arithmetic},
			{Name: "Access", Value: access(r.Relay)}, {Name: "Version", Value: version(r.Version), Note: fmt.Sprintf("protocol %d", r.Protocol)},
		},
	}
	if to := intended(r); to.Len() > 0 && to != r.Span {
		note := "it loads them"
		if r.Next.Open {
			note = "it waits whether others choose the same"
		}
		rec.Facts = append(rec.Facts, view.Fact{Name: "Moves to", Value: to.String(), Note: note})
	}
	if s.deps.Node != nil && r.Peer == s.source() { // others do not say
		st := s.deps.Node.Status()
		if p := st.Placement; p != nil {
			rec.Facts = append(rec.Facts, view.Fact{Name: "Placement", Value: p.Do + " " + p.Span.String(), Note: p.Reason})
		}
		if st.Trouble != "" {
			rec.Facts = append(rec.Facts, view.Fact{Name: "Trouble", Value: st.Trouble})
		}
		if m := st.Memory; m != nil && m.Short != "" {
			rec.Facts = append(rec.Facts, view.Fact{Name: "Memory", Value: "short", Note: "no sessions are taken: " + m.Short})
		}
		if b := st.Batch; b.Sessions > 0 {
			rec.Facts = append(rec.Facts, view.Fact{Name: "Mean batch", Value: strconv.FormatFloat(b.Recent, 'f', 1, 64), Note: "sessions that share an iteration, of late"})
		}
	}
	if len(r.Adapters) > 0 {
		names := make([]string, len(r.Adapters))
		for i, a := range r.Adapters {
			names[i] = view.PublicName(a.Name).Text
		}
		rec.Facts = append(rec.Facts, view.Fact{Name: "Adapters", Value: strings.Join(names, ", ")})
	}
	return rec
}

// serverEvents is the server's timeline, back beyond what the overview keeps.
func (s *Site) serverEvents(ctx context.Context, snap *snapshot, p swarm.PeerID) view.Events {
	var all []store.Event
	err := s.read(ctx, func(ctx context.Context) (err error) {
		all, err = s.deps.Store.Events(ctx, store.EventQuery{Peer: p, Limit: maxPast})
		return err
	})
	e := s.events(snap, all, true)
	if err != nil {
		e.Note = unavailable
	}
	return e
}

// pings are the round trips that this server measured to others, and others to it.
func pings(snap *snapshot, p swarm.PeerID) (out []view.Ping) {
	rows := map[swarm.PeerID]*view.Ping{}
	row := func(other swarm.PeerID) *view.Ping {
		if rows[other] == nil {
			rows[other] = &view.Ping{Peer: string(other)}
			if _, ok := findServer(snap, other); ok {
				rows[other].Link = serverPath(other)
			}
		}
		return rows[other]
	}
	for _, v := range snap.views {
		for i := range v.Servers {
			r := &v.Servers[i]
			if r.Peer == p {
				for other, ms := range r.NextRTT {
					row(other).Out = view.Millis(ms)
				}
			} else if ms, ok := r.NextRTT[p]; ok {
				row(r.Peer).In = view.Millis(ms)
			}
		}
	}
	for _, ping := range rows {
		out = append(out, *ping)
	}
	slices.SortFunc(out, func(a, b view.Ping) int { return strings.Compare(a.Peer, b.Peer) })
	return out[:min(len(out), maxRows)]
}
