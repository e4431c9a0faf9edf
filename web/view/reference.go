package view

// Reference is what the page about the API shows.
type Reference struct {
	Version string
	Intro   []string // paragraphs
	Groups  []RouteGroup
	Admin   bool // the page is served by the admin listener
}

// RouteGroup is the routes of one tag.
type RouteGroup struct {
	Name, Text string
	Routes     []Route
}

// Route is one operation.
type Route struct {
	ID, Method, Path, Summary string
	Text                      []string // paragraphs
	Listener                  string   // "public", "admin" or "both"
	Token                     bool     // one is asked for where the listener has one
	Try                       bool     // it can be called from this page
	Why                       string   // it cannot
	Params                    []Field
	Bodies                    []Body
	Answers                   []Answer
}

// Field is a parameter, or a field of a body; Name has dots where it is a field of a field.
type Field struct {
	Name, In, Type, Text string
	Required             bool
	Example              string // of a parameter
}

// Body is what a request may carry.
type Body struct {
	Media, Example string
	Fields         []Field
}

// Answer is one that a route gives.
type Answer struct {
	Status, Text, Media, Example string
	Fields                       []Field
}

// Sections fills the page.
func (v Reference) Sections(p *Page) {
	p.Main = []Section{{ID: "reference", Class: "panel reference", Label: "API reference", Body: reference(v)}}
	p.Scripts = []string{"reference.js"}
}

// listenerText says where a route is served.
func listenerText(listener string) string {
	switch listener {
	case "both":
		return "both listeners"
	default:
		return listener + " listener"
	}
}
