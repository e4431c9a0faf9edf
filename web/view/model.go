package view

import "time"

// ModelPage is what the page of one model shows.
type ModelPage struct {
	Name    string
	Pill    Pill
	Text    string
	Flower  Flower
	Blocks  []Block
	Summary string
	Facts   []Fact
	Chat    string

	Servers Servers
	History History
	Events  Events
	Details []Fact
	Join    Join
}

// Servers is the table of a model's servers.
type Servers struct {
	Rows   []ServerRow
	More   int    // rows that are not shown
	Filter string // what is left out, in words; "" for nothing
	Clear  string // path without the filter
	Sorts  []Sort
}

// Sort is an order of the table.
type Sort struct {
	Text, Link string
	Current    bool
}

// ServerRow is one server.
type ServerRow struct {
	Peer       string
	Link       string
	Mine       bool // this node
	Name       Name
	State      Pill
	Span       string
	Blocks     string // how many
	Bar        Bar
	Fetching   Progress
	Throughput string
	Rates      []Fact
	Cache      string
	CacheNote  string
	MaxLength  string
	Access     string // direct or relay
	Version    string
	Seen       time.Time // last
	First      time.Time // zero if not known
	Gone       bool
}

// History is the past of a model or a server.
type History struct {
	Ranges []Sort // 1 hour, 24 hours, ...
	Charts []Chart
	Heads  []string // of the table behind the charts, after the time
	Rows   []HistoryRow
	Note   string // "" unless something is wrong with it
	Empty  bool
}

// HistoryRow is one moment in the table behind the charts.
type HistoryRow struct {
	At     time.Time
	Values []string
}

// Sections fills the page.
func (m *ModelPage) Sections(p *Page) {
	p.Head = []Section{{ID: "verdict", Class: "hero", Label: "State of the model", Body: modelHero(*m)}}
	p.Main = []Section{
		{ID: "coverage", Class: "panel", Body: coverage(*m)},
		{ID: "servers", Class: "panel", Body: serverTable(m.Servers)},
		{ID: "history", Class: "panel", Body: history(m.History)},
	}
	p.Side = []Section{
		{ID: "events", Class: "panel", Body: eventList("Recent changes", m.Events)},
		{ID: "join", Class: "panel", Body: join(m.Join)},
		{ID: "details", Class: "panel", Body: details("Manifest", m.Details)},
	}
}

// ServerPage is what the page of one server shows.
type ServerPage struct {
	Peer    string
	Name    Name
	Mine    bool
	Pill    Pill
	Text    string
	Records []ServerRecord
	History History
	Events  Events
	Addrs   []string
	Pings   []Ping
}

// ServerRecord is what the server says of itself about one model.
type ServerRecord struct {
	Model, Link string
	State       Pill
	Span        string
	Bar         Bar
	Fetching    Progress
	Facts       []Fact
}

// Progress is how far something is; no text for nothing.
type Progress struct {
	Text string
	Bar  Bar
}

// Ping is a round trip between this server and another of its model.
type Ping struct {
	Peer, Link string
	Out, In    string // measured by this server, and by the other; "" for not measured
}

// Sections fills the page.
func (s *ServerPage) Sections(p *Page) {
	p.Head = []Section{{ID: "verdict", Class: "hero", Label: "State of the server", Body: serverHero(*s)}}
	p.Main = []Section{
		{ID: "records", Class: "panel", Body: records(*s)},
		{ID: "history", Class: "panel", Body: history(s.History)},
	}
	p.Side = []Section{
		{ID: "events", Class: "panel", Body: eventList("Timeline", s.Events)},
		{ID: "pings", Class: "panel", Body: pings(s.Pings)},
		{ID: "addrs", Class: "panel", Body: addresses(s.Addrs)},
	}
}

// Problem is a page that says what is wrong.
type Problem struct {
	Title, Text string
}

// Sections fills the page.
func (r Problem) Sections(p *Page) {
	p.Head = []Section{{ID: "verdict", Class: "verdict", Label: "Problem", Body: verdict(Verdict{Pill: Pill{Idle, "not found"}, Title: r.Title, Text: r.Text})}}
}
