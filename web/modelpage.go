package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

func (s *Site) modelPage(r *http.Request, snap *snapshot) (*view.Page, int) {
	uid := swarm.UID(pathParam(r, "uid"))
	i := slices.IndexFunc(snap.coverage, func(c store.Coverage) bool { return c.Model == uid })
	if i < 0 {
		return s.problem(r, snap, "The swarm has no such model.", "It may have had it: models that nobody serves are forgotten after "+view.Period(s.cfg.Remember)+".")
	}
	ask := parseModelQuery(r.URL.Query(), snap.views[i].Manifest.Blocks)
	p := s.frame(snap, view.PublicName(snap.views[i].Manifest.Name).Text, "model", modelPath(uid), ask.args)
	j := s.judge(snap, i, p.Now)
	blocks := blocksOf(j, func(b int) string { return link(p.Nav, ask.args, "block", strconv.Itoa(b)) + "#servers" })
	m := view.ModelPage{
		Name: p.Title, Pill: j.pill, Text: j.text, Flower: view.NewFlower(blocks), Blocks: blocks, Summary: summary(blocks, j.coverage),
		Facts:   append(modelFacts(j), view.Fact{Name: "Total", Value: totalRate(j.coverage), Note: totalNote(j.coverage)}, view.Fact{Name: "Longest session", Value: longest(j.view), Note: "tokens"}),
		Servers: s.servers(snap, j, ask, p.Now), History: s.modelHistory(r.Context(), snap, uid, ask, p.Nav),
		Events: s.events(snap, ofModel(snap.past.events, uid), false), Details: manifestFacts(j.view.Manifest, uid), Join: s.join([]judged{j}, uid),
	}
	m.Events.More = link("/events", nil, "model", string(uid))
	if slices.Contains(s.deps.Models(), j.view.Manifest.Name) {
		m.Chat = "/play?" + url.Values{"model": {j.view.Manifest.Name}}.Encode()
	}
	m.Sections(p)
	return p, http.StatusOK
}

func totalRate(c *store.Coverage) string {
	if c.MinRedundancy == 0 {
		return "–"
	}
	return view.Rate(c.Bottleneck)
}

func totalNote(c *store.Coverage) string {
	if c.MinRedundancy == 0 || c.Bottleneck == nil {
		return ""
	}
	return "all sessions together"
}

// longest is the longest session that every block has a server for.
func longest(v swarm.View) string {
	best := make([]int, v.Manifest.Blocks)
	for b, r := range v.Held(swarm.Online) {
		best[b] = max(best[b], r.MaxLength)
	}
	if n := slices.Min(best); n > 0 {
		return strconv.Itoa(n)
	}
	return "–"
}

func ofModel(all []store.Event, uid swarm.UID) (out []store.Event) {
	for _, e := range all {
		if e.Model == uid {
			out = append(out, e)
		}
	}
	return out
}

func manifestFacts(m swarm.Manifest, uid swarm.UID) []view.Fact {
	revision := m.Revision
	if revision == "" {
		revision = "none, a local file"
	}
	facts := []view.Fact{
		{Name: "Blocks", Value: strconv.Itoa(m.Blocks)}, {Name: "Hidden size", Value: strconv.Itoa(m.Hidden)}, {Name: "Weights", Value: m.Class.DType},
		{Name: "Quantisation", Value: m.Class.Quant}, {Name: "Cache", Value: m.Class.KVDType}, {Name: "Arithmetic", Value: m.Class.Arithmetic},
		{Name: "Revision", Value: view.PublicName(revision).Text}, {Name: "Config", Value: view.ShortID(m.Class.ConfigHash)}, {Name: "Id", Value: string(uid)},
	}
	if m.Namespace != "" {
		facts = append(facts, view.Fact{Name: "Namespace", Value: view.PublicName(m.Namespace).Text})
	}
	return facts
}

// modelQuery is what a visitor chose of a model's page.
type modelQuery struct {
	args  url.Values // only what is valid and not the default
	block int        // -1 for all
	order string
	span  time.Duration
}

// ranges are the stretches of history to choose from, the first being the default.
var ranges = []struct {
	name string
	span time.Duration
	step time.Duration
}{
	{"24h", 24 * time.Hour, 5 * time.Minute}, {"1h", time.Hour, 15 * time.Second}, {"7d", 7 * 24 * time.Hour, 30 * time.Minute},
}

// orders are the ways to sort servers, the first being the default.
var orders = []struct {
	name, text string
	less       func(a, b *swarm.Record) int
}{
	{"blocks", "Blocks", func(a, b *swarm.Record) int {
		return cmp.Or(cmp.Compare(a.Span.Start, b.Span.Start), cmp.Compare(a.Span.End, b.Span.End))
	}},
	{"throughput", "Throughput", func(a, b *swarm.Record) int { return cmp.Compare(b.Throughput, a.Throughput) }},
	{"cache", "Cache", func(a, b *swarm.Record) int { return cmp.Compare(b.CacheLeft, a.CacheLeft) }},
	{"state", "State", func(a, b *swarm.Record) int { return cmp.Compare(b.State, a.State) }},
}

func parseModelQuery(q url.Values, blocks int) modelQuery {
	m := modelQuery{args: url.Values{}, block: -1, order: orders[0].name, span: ranges[0].span}
	if b, err := strconv.Atoi(q.Get("block")); err == nil && b >= 0 && b < blocks {
		m.block = b
		m.args.Set("block", strconv.Itoa(b))
	}
	for _, o := range orders[1:] {
		if q.Get("sort") == o.name {
			m.order = o.name
			m.args.Set("sort", o.name)
		}
	}
	for _, r := range ranges[1:] {
		if q.Get("range") == r.name {
			m.span = r.span
			m.args.Set("range", r.name)
		}
	}
	return m
}

// servers is the table, with those that left a short time ago at its end.
func (s *Site) servers(snap *snapshot, j judged, ask modelQuery, now time.Time) view.Servers {
	path, uid := modelPath(j.coverage.Model), j.coverage.Model
	var t view.Servers
	for i, o := range orders {
		name := o.name
		if i == 0 {
			name = ""
		}
		t.Sorts = append(t.Sorts, view.Sort{Text: o.text, Link: link(path, ask.args, "sort", name) + "#servers", Current: o.name == ask.order})
	}
	shown := func(span swarm.Span) bool { return ask.block < 0 || span.Holds(ask.block) }
	var live []*swarm.Record
	for i := range j.view.Servers {
		if r := &j.view.Servers[i]; shown(r.Span) {
			live = append(live, r)
		}
	}
	for _, o := range orders {
		if o.name == ask.order {
			slices.SortStableFunc(live, o.less) // then by peer, as views are
		}
	}
	for _, r := range live {
		t.Rows = append(t.Rows, s.serverRow(snap, r, now))
	}
	for _, g := range gone(snap, j.view, uid) {
		if shown(g.Span) {
			t.Rows = append(t.Rows, goneRow(g, j.view.Manifest.Blocks))
		}
	}
	if ask.block >= 0 {
		t.Filter, t.Clear = fmt.Sprintf("Servers of block %d.", ask.block), link(path, ask.args, "block", "")+"#servers"
	}
	t.More = max(0, len(t.Rows)-maxRows)
	t.Rows = t.Rows[:min(len(t.Rows), maxRows)]
	return t
}

// gone are the servers that the history knows and the swarm no longer does, the last
// first.
func gone(snap *snapshot, v swarm.View, uid swarm.UID) (out []store.Server) {
	for key, known := range snap.past.servers {
		if _, here := v.Server(key.peer); key.model == uid && !here {
			out = append(out, known)
		}
	}
	slices.SortFunc(out, func(a, b store.Server) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(string(a.Peer), string(b.Peer)))
	})
	return out
}

func (s *Site) serverRow(snap *snapshot, r *swarm.Record, now time.Time) view.ServerRow {
	uid := r.UID
	row := view.ServerRow{
		Peer: string(r.Peer), Link: serverPath(r.Peer), Mine: r.Peer == s.source(), Name: view.PublicName(publicName(r)),
		State: s.recordPill(snap, r, now), Span: r.Span.String(), Blocks: view.Plural(r.Span.Len(), "block"),
		Bar: spanBar(r.Span, r.Manifest.Blocks, s.recordPill(snap, r, now)), Throughput: throughput(r.Throughput), Rates: rates(r.Rates, r.Manifest.Hidden),
		Cache: view.Count(r.CacheLeft), CacheNote: "of " + view.Count(r.CacheTotal) + " tokens", MaxLength: "sessions to " + strconv.Itoa(r.MaxLength),
		Access: access(r.Relay), Version: version(r.Version), Seen: snap.okAt, Fetching: progress(r.Loading),
	}
	if known, ok := snap.past.servers[serverKey{uid, r.Peer}]; ok {
		row.First = known.First
	}
	return row
}

// goneRow is a server that left.
func goneRow(g store.Server, blocks int) view.ServerRow {
	return view.ServerRow{
		Peer: string(g.Peer), Link: serverPath(g.Peer), State: statePills[swarm.Offline], Span: g.Span.String(), Blocks: view.Plural(g.Span.Len(), "block"),
		Bar: spanBar(g.Span, blocks, statePills[swarm.Offline]), Throughput: throughput(g.Throughput), Rates: rates(g.Rates, 0), Cache: "–", Access: access(g.Relay), Version: version(g.Version),
		Seen: g.At, First: g.First, Gone: true,
	}
}

func spanBar(s swarm.Span, blocks int, state view.Pill) view.Bar {
	start := min(max(0, s.Start), blocks)
	return view.Bar{Of: blocks, Start: start, Len: max(0, min(s.End, blocks)-start), State: state.Text}
}

// progress draws how far a server is with fetching its files.
func progress(l *swarm.Loading) view.Progress {
	const steps = 1000
	p := view.Progress{Text: fetching(l)}
	if l != nil && l.Total > 0 {
		p.Bar = view.Bar{Of: steps, Len: int(float64(l.Bytes) / float64(l.Total) * steps), State: statePills[swarm.Joining].Text}
	}
	return p
}

func throughput(f float64) string {
	if f == 0 {
		return view.NotMeasured
	}
	return view.Rate(&f)
}

func rates(r swarm.Rates, hidden int) []view.Fact {
	value, note := network(r, hidden)
	return []view.Fact{{Name: "decode", Value: view.Rate(r.InferenceRPS)}, {Name: "prefill", Value: view.Rate(r.ForwardRPS)}, {Name: "network", Value: value, Note: note}}
}

// network is how many rows pass a server's link, and whether that was measured.
func network(r swarm.Rates, hidden int) (value, note string) {
	if r.NetworkRPS == nil && hidden > 0 {
		assumed := swarm.AssumedLink.RPS(hidden)
		return view.Rate(&assumed), "assumed: its link was not measured yet"
	}
	return view.Rate(r.NetworkRPS), ""
}

func access(relay bool) string {
	if relay {
		return "through a relay"
	}
	return "direct"
}

func version(v string) string {
	if v = view.PublicName(v).Text; v != "" {
		return view.Cut(v, 24)
	}
	return "unknown"
}
