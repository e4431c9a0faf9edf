package view

import "encoding/json"

// Play is what the playground shows.
type Play struct {
	Models []PlayModel
	Socket string // path of the WebSocket
	Curl   string // address of the API's chat route
}

// PlayModel is a model to talk to.
type PlayModel struct {
	Name      string
	State     string // in words, after the name
	MaxLength int    // positions of a session; 0: not known
	Selected  bool
}

// Sections fills the page.
func (v *Play) Sections(p *Page) {
	p.Main = []Section{{ID: "play", Class: "panel chat", Label: "Playground", Body: play(*v)}}
	p.Scripts = []string{"play.js"}
}

// selected is the name of the model that is chosen first.
func (v *Play) selected() string {
	for _, m := range v.Models {
		if m.Selected {
			return m.Name
		}
	}
	if len(v.Models) > 0 {
		return v.Models[0].Name
	}
	return ""
}

// CurlChat is a command that asks a model one question.
func CurlChat(address, model string) string {
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": "Hello!"}}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return "curl -N " + Quote(address) + " \\\n  -H 'Content-Type: application/json' \\\n  -d " + Quote(string(body))
}
