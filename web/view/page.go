package view

import (
	"time"

	"github.com/a-h/templ"
)

// Page is a whole page: sections in a head and two columns, and the frame around them.
type Page struct {
	Title string // of the tab, without the product's name
	Kind  string // names the layout: "overview", "model", "server", "play", "reference", "keys", "problem"
	Nav   string // path of the entry that is marked as current
	Swarm string // name of the swarm
	Admin bool   // the page is one of the admin listener, which has others than the public one
	// Live is the path of the event stream that brings new sections; "" for none.
	Live   string
	Period time.Duration // of the refresh: what is older than two is stale
	Now    time.Time     // of the server, when the page was made
	Stale  bool

	Banner, AsOf     Section
	Head, Main, Side []Section
	Scripts          []string // names of static files beside the usual one
}

// Section is a part of a page that is brought up to date as one. IDs are unique in a page.
type Section struct {
	ID     string
	Label  string // of the region, for those who do not see it; "" if its heading does
	Class  string
	Polite bool // changes are announced
	Body   templ.Component
}

// All are the sections of a page in the order of the page.
func (p *Page) All() []Section {
	all := []Section{p.Banner}
	all = append(all, p.Head...)
	all = append(all, p.Main...)
	all = append(all, p.Side...)
	return append(all, p.AsOf)
}

// Tone colours a word: "good", "warn", "bad", "idle" or "" for plain.
type Tone string

// The tones.
const (
	Good Tone = "good"
	Warn Tone = "warn"
	Bad  Tone = "bad"
	Idle Tone = "idle"
)

// Pill is a word with a tone and a glyph, so that colour is not the only signal.
type Pill struct {
	Tone Tone
	Text string
}

// Glyph is the tone's shape.
func (p Pill) Glyph() string {
	switch p.Tone {
	case Good:
		return "●"
	case Warn:
		return "◐"
	case Bad:
		return "✕"
	}
	return "○"
}

// Fact is a name and a value with an optional explanation.
type Fact struct {
	Name, Value, Note string
}

// Command is a line to paste into a shell.
type Command struct {
	ID   string // of the element
	Text string
}
