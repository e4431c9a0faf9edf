package view

import "time"

// Overview is what the first page shows.
type Overview struct {
	Verdict      Verdict
	Models       []ModelCard
	More         int // models that are not shown
	Events       Events
	Contributors []Contributor
	Crawl        Crawl
	Node         *Node // this node, nil if it does not say
	Join         Join
}

// Verdict is the state of the swarm in words.
type Verdict struct {
	Pill  Pill
	Title string
	Text  string
}

// ModelCard is a model in short.
type ModelCard struct {
	Name    string
	Class   string // of numerics: models of one name may differ in it
	Link    string
	Pill    Pill
	Text    string // the state in words
	Flower  Flower
	Blocks  []Block // few enough for one line
	Summary string  // of the blocks, for those who do not see them
	Facts   []Fact
	Trend   Chart
	Chat    string // path of the playground; "" if this gateway does not generate with it
}

// Contributor is a name with the blocks it holds.
type Contributor struct {
	Name   Name
	Blocks int
}

// Crawl is how well the page knows the swarm.
type Crawl struct {
	Pill    Pill
	Text    string
	At      time.Time // of the last refresh; zero for never
	Facts   []Fact
	History Pill   // of the store
	Note    string // on the history
	Since   time.Time
}

// Node is the node that shows the page.
type Node struct {
	Peer  string
	Link  string // of its server page; "" if it is no server
	Pill  Pill
	Facts []Fact
}

// Join says how to bring a server.
type Join struct {
	Text    string
	Command Command
	Note    string
}

// Events are changes, newest first.
type Events struct {
	Rows []EventRow
	Note string // "" unless something is wrong with them
	More string // path of older ones; "" if there are none
}

// EventRow is one change.
type EventRow struct {
	At      time.Time
	Tone    Tone
	Subject string // who
	Title   string // who in full
	Link    string
	Name    Name   // of the person, if public
	What    string // what happened
}

// Glyph is the shape of the tone.
func (e EventRow) Glyph() string { return Pill{Tone: e.Tone}.Glyph() }

// Sections fills the page.
func (o *Overview) Sections(p *Page) {
	p.Head = []Section{{ID: "verdict", Class: "verdict", Label: "State of the swarm", Polite: true, Body: verdict(o.Verdict)}}
	p.Main = []Section{
		{ID: "models", Class: "plain", Label: "Models", Body: models(o)},
		{ID: "join", Class: "panel", Body: join(o.Join)},
		{ID: "contributors", Class: "panel half", Body: contributors(o.Contributors)},
		{ID: "crawl", Class: "panel half", Body: crawl(o.Crawl)},
	}
	p.Side = []Section{
		{ID: "events", Class: "panel", Body: eventList("Recent changes", o.Events)},
	}
	if o.Node != nil {
		p.Side = append(p.Side, Section{ID: "node", Class: "panel", Body: node(*o.Node)})
	}
}

// EventsSections fills the page of all changes.
func EventsSections(p *Page, e Events) {
	p.Head = []Section{{ID: "verdict", Class: "verdict", Body: verdict(Verdict{Title: "Changes", Text: "What happened to models and servers, the newest first."})}}
	p.Main = []Section{{ID: "events", Class: "panel", Body: eventList("All models", e)}}
}
