package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/swarm/health"
	"whorl/web/view"
)

const (
	lineBlocks  = 96 // blocks that are told apart in one line of a card
	firstEvents = 8  // events on the overview
)

func (s *Site) overviewPage(r *http.Request, snap *snapshot) (*view.Page, int) {
	p := s.frame(snap, "Overview", "overview", "/", nil)
	o := s.overview(snap, p.Now)
	o.Sections(p)
	return p, http.StatusOK
}

// overview makes the view model.
func (s *Site) overview(snap *snapshot, now time.Time) view.Overview {
	all := make([]judged, len(snap.views))
	for i := range snap.views {
		all[i] = s.judge(snap, i, now)
	}
	o := view.Overview{
		Verdict: verdict(snap, all, snap.stale(now, s.cfg.Period)), Events: s.events(snap, snap.past.events, true),
		Contributors: contributors(snap), Crawl: s.crawl(snap, now), Node: s.thisNode(snap), Join: s.join(all, ""),
	}
	if len(o.Events.Rows) > firstEvents {
		o.Events.Rows, o.Events.More = o.Events.Rows[:firstEvents], "/events"
	}
	served := s.deps.Models()
	for _, j := range all {
		if len(all) == 1 {
			j.text = "" // the verdict says it
		}
		o.Models = append(o.Models, s.card(snap, j, slices.Contains(served, j.view.Manifest.Name)))
	}
	return o
}

// verdict is the state of the whole swarm in words.
func verdict(snap *snapshot, all []judged, stale bool) view.Verdict {
	count := map[health.Condition]int{}
	var worst *judged
	for i := range all {
		count[all[i].condition]++
		if worst == nil || all[i].condition.Rank() < worst.condition.Rank() {
			worst = &all[i]
		}
	}
	v := view.Verdict{}
	switch {
	case snap.at.IsZero():
		return view.Verdict{Pill: view.Pill{Tone: view.Idle, Text: "starting"}, Title: "Asking the swarm.", Text: "The first answer comes within seconds."}
	case stale:
		return view.Verdict{Pill: view.Pill{Tone: view.Idle, Text: "unknown"}, Title: "The state of the swarm is not known.", Text: "The page below shows what was last heard."}
	case len(all) == 0:
		return view.Verdict{Pill: view.Pill{Tone: view.Idle, Text: "empty"}, Title: "No model is served yet.", Text: "Start the first server with the command below; it appears here within seconds."}
	}
	v.Pill = worst.pill
	name := func(j *judged) string { return view.PublicName(j.view.Manifest.Name).Text }
	n := len(all)
	switch usable := count[health.Healthy] + count[health.Degraded]; {
	case n == 1 && usable == 1:
		v.Title, v.Text = name(worst)+" is ready.", worst.text
	case n == 1:
		v.Title, v.Text = name(worst)+" cannot answer now.", worst.text
	case count[health.Healthy] == n:
		v.Title = fmt.Sprintf("All %d models are ready.", n)
	case usable == n:
		v.Title, v.Text = fmt.Sprintf("All %d models are ready.", n), name(worst)+": "+worst.text
	default:
		v.Title, v.Text = fmt.Sprintf("%d of %d models are ready.", usable, n), name(worst)+": "+worst.text
	}
	return v
}

// card is a model in short.
func (s *Site) card(snap *snapshot, j judged, chat bool) view.ModelCard {
	m := j.view.Manifest
	blocks := blocksOf(j, nil)
	c := view.ModelCard{
		Name: view.PublicName(m.Name).Text, Class: m.Class.Quant + ", " + m.Class.Arithmetic, Link: modelPath(j.coverage.Model), Pill: j.pill, Text: j.text, Flower: view.NewFlower(blocks),
		Blocks: view.Group(blocks, lineBlocks), Summary: summary(blocks, j.coverage), Facts: modelFacts(j),
	}
	to := snap.past.at.Truncate(trendStep).Add(trendStep) // so that the line changes only once a step
	if rows := snap.past.trends[j.coverage.Model]; len(rows) < 4 {
		c.Trend.Empty = true // too young to tell anything
	} else {
		c.Trend = redundancyChart(rows, store.Window{From: to.Add(-trend), To: to, Step: trendStep})
	}
	c.Trend.Title = "Holders of the scarcest block, 24 h"
	if chat {
		c.Chat = "/play?" + url.Values{"model": {m.Name}}.Encode()
	}
	return c
}

func modelPath(uid swarm.UID) string { return "/models/" + url.PathEscape(string(uid)) }

func serverPath(p swarm.PeerID) string { return "/servers/" + url.PathEscape(string(p)) }

// modelFacts are the numbers people look for first.
func modelFacts(j judged) []view.Fact {
	c := j.coverage
	loading := 0
	for i := range j.view.Servers {
		if j.view.Servers[i].State == swarm.Joining {
			loading++
		}
	}
	servers := view.Fact{Name: "Servers", Value: fmt.Sprint(c.Servers), Note: "online"}
	if loading > 0 {
		servers.Note = fmt.Sprintf("online, %d loading", loading)
	}
	if c.MinRedundancy == 0 { // nothing can be computed, so nothing can be promised
		return []view.Fact{{Name: "Speed", Value: "–", Note: "blocks are missing"}, servers, {Name: "Free cache", Value: "–"}, {Name: "Redundancy", Value: "0×", Note: "the scarcest block"}}
	}
	speed := view.Fact{Name: "Speed", Value: view.Rate(c.SessionTPS)}
	if c.SessionTPS != nil {
		speed.Note = "one session, estimated"
	}
	return []view.Fact{speed, servers,
		{Name: "Free cache", Value: view.Count(c.CacheLeft), Note: "tokens"},
		{Name: "Redundancy", Value: fmt.Sprintf("%d×", c.MinRedundancy), Note: "the scarcest block"}}
}

// contributors are the public names with the most blocks.
func contributors(snap *snapshot) []view.Contributor {
	const most = 5
	blocks := map[string]int{}
	for _, v := range snap.views {
		for i := range v.Servers {
			if n := publicName(&v.Servers[i]); n != "" {
				blocks[n] += v.Servers[i].Span.Len()
			}
		}
	}
	var out []view.Contributor
	for n, b := range blocks {
		if name := view.PublicName(n); name.Text != "" {
			out = append(out, view.Contributor{Name: name, Blocks: b})
		}
	}
	slices.SortFunc(out, func(a, b view.Contributor) int {
		return cmp.Or(cmp.Compare(b.Blocks, a.Blocks), strings.Compare(a.Name.Text, b.Name.Text), strings.Compare(a.Name.Link, b.Name.Link))
	})
	return out[:min(len(out), most)]
}

// crawl says how well the page knows the swarm, and its past.
func (s *Site) crawl(snap *snapshot, now time.Time) view.Crawl {
	c := view.Crawl{Pill: view.Pill{Tone: view.Good, Text: "fresh"}, Text: "The directory was last read", At: snap.okAt}
	switch {
	case snap.at.IsZero():
		c.Pill, c.Text = view.Pill{Tone: view.Idle, Text: "starting"}, "The directory has not been read yet."
	case snap.failures > 0:
		c.Pill = view.Pill{Tone: view.Warn, Text: "behind"}
		c.Text = fmt.Sprintf("%s failed: %s The last that succeeded was", view.Plural(snap.failures, "round"), sentence(view.Cut(snap.crawl.Error, 200)))
	case snap.stale(now, s.cfg.Period):
		c.Pill = view.Pill{Tone: view.Warn, Text: "stale"}
	}
	p := &snap.past
	if p.crawls > 0 {
		c.Facts = append(c.Facts, view.Fact{Name: "Rounds of the last hour", Value: fmt.Sprintf("%d, %d failed", p.crawls, p.failed)})
	}
	switch {
	case p.err != nil:
		c.History, c.Note, c.Since = view.Pill{Tone: view.Warn, Text: "unavailable"}, "The history cannot be used; serving does not need it. Out of reach since", p.since
	case p.at.IsZero():
		c.History, c.Note = view.Pill{Tone: view.Idle, Text: "starting"}, "Nothing has been read yet."
	default:
		c.History, c.Note = view.Pill{Tone: view.Good, Text: "kept"}, "Changes are recorded, and forgotten after some days."
	}
	if p.errors > 0 {
		c.Facts = append(c.Facts, view.Fact{Name: "Failed uses of the history", Value: fmt.Sprint(p.errors)})
	}
	return c
}

// thisNode tells of the node that serves the page.
func (s *Site) thisNode(snap *snapshot) *view.Node {
	if s.deps.Node == nil {
		return nil
	}
	st := s.deps.Node.Status()
	n := &view.Node{Peer: string(st.Peer), Pill: view.Pill{Tone: view.Good, Text: "running"}}
	add := func(name, value string) {
		if value != "" {
			n.Facts = append(n.Facts, view.Fact{Name: name, Value: value})
		}
	}
	add("Roles", strings.Join(st.Roles, ", "))
	if st.Span != nil {
		n.Pill = statePills[st.State]
		add("Blocks", fmt.Sprintf("%v, %d of them", st.Span, st.Span.Len()))
		add("Free cache", fmt.Sprintf("%s of %s tokens", view.Count(st.Cache.LeftTokens), view.Count(st.Cache.TotalTokens)))
	}
	if _, ok := findServer(snap, st.Peer); ok {
		n.Link = serverPath(st.Peer)
	}
	add("Fetching", fetching(st.Loading))
	add("Sessions", fmt.Sprint(st.Sessions))
	add("Peers", fmt.Sprint(st.Peers))
	add("Device", st.Device)
	add("Version", view.Cut(st.Version, 24))
	return n
}

// findServer tells whether a peer is a server of some model.
func findServer(snap *snapshot, p swarm.PeerID) (*swarm.Record, bool) {
	for _, v := range snap.views {
		if r, ok := v.Server(p); ok {
			return r, true
		}
	}
	return nil, false
}

// defaultSwarm is the name of a swarm that nobody named: `whorl serve --help` has it.
const defaultSwarm = "main"

// join says how to bring a server: for the given model, or else for the one in need.
func (s *Site) join(all []judged, uid swarm.UID) view.Join {
	j := view.Join{Text: "Any machine can hold some of the blocks. It takes those that need a holder most, and appears here within seconds."}
	name, wanted := "MODEL", swarm.UID("")
	for i, m := range all {
		if uid == m.coverage.Model || uid == "" && (i == 0 || m.condition == health.Broken && name == all[0].view.Manifest.Name) {
			name, wanted = m.view.Manifest.Name, m.coverage.Model
			if m.condition == health.Broken {
				j.Text = view.PublicName(name).Text + " lacks " + view.Plural(swarm.Total(m.coverage.Missing), "block") + ". Any machine can take over some of them."
			}
		}
	}
	if s.deps.Invite != nil && wanted != "" {
		if i, ok := s.deps.Invite(); ok && i.Model == wanted {
			j.Command = view.Command{ID: "join-command", Text: "whorl join " + i.Word}
			if i.Files {
				j.Command.Text += " MODEL"
				j.Note = "MODEL is the path of the model's files on that machine."
			} else {
				j.Note = "That machine needs no files: it fetches the blocks that it will hold."
			}
			return j
		}
	}
	words := []string{"whorl", "serve", view.Quote(name)}
	peers := s.cfg.JoinPeers
	var st swarm.NodeStatus
	if s.deps.Node != nil {
		st = s.deps.Node.Status()
	}
	if len(peers) == 0 {
		peers = joinable(st.Addrs)
	}
	if len(peers) == 0 {
		words = append(words, "--new-swarm")
	} else {
		words = append(words, "--initial-peers", view.Quote(strings.Join(peers, ",")))
	}
	if st.Swarm != "" && st.Swarm != defaultSwarm {
		words = append(words, "--swarm", view.Quote(st.Swarm))
	}
	j.Command = view.Command{ID: "join-command", Text: strings.Join(words, " ")}
	if name == "MODEL" {
		j.Note = "MODEL is a folder or a .gguf file on that machine."
	} else {
		j.Note = "Replace the name with the path of the model on that machine. A private swarm also needs --swarm-key."
	}
	return j
}

// joinable picks the address newcomers are told: one that reaches beyond this machine if
// there is any, and not a relayed one if possible.
func joinable(addrs []string) []string {
	if len(addrs) == 0 {
		return nil
	}
	return []string{slices.MinFunc(addrs, func(a, b string) int { return cmp.Compare(reach(a), reach(b)) })}
}

// reach orders addresses, the most useful first.
func reach(a string) int {
	switch {
	case strings.Contains(a, "/ip4/127.") || strings.Contains(a, "/ip6/::1/"):
		return 3
	case strings.Contains(a, "/p2p-circuit"):
		return 2
	case strings.HasPrefix(a, "/ip6/"):
		return 1
	}
	return 0
}

// fetching is how far a node is with fetching its model's files; "" when it fetches none.
func fetching(l *swarm.Loading) string {
	if l == nil || l.Phase != swarm.Fetching {
		return ""
	}
	text := fmt.Sprintf("%s of %s MiB", view.Count(l.Bytes>>20), view.Count(l.Total>>20))
	if l.SecondsLeft != nil {
		left := time.Duration(*l.SecondsLeft * float64(time.Second))
		text += fmt.Sprintf(", %.1f MiB/s, %v left", l.Rate/(1<<20), left.Round(time.Second))
	}
	return text
}
