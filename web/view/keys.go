package view

// Keys is the page about the keys of a node's callers. It holds nothing of them: its script asks the
// listener, with the token that its reader gives.
type Keys struct{}

// Sections puts the page together.
func (Keys) Sections(p *Page) {
	p.Main = []Section{{ID: "keys", Class: "panel", Label: "Keys", Body: keys()}}
	p.Scripts = []string{"keys.js"}
}
