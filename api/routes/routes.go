// Package routes joins the dialects to the handlers of a node's two listeners.
package routes

import (
	"net/http"

	"whorl/api"
	"whorl/api/anthropic"
	"whorl/api/control"
	"whorl/api/gen"
	"whorl/api/hidden"
	"whorl/api/ollama"
	"whorl/api/openai"
	"whorl/api/petals"
	"whorl/api/responses"
)

// Routes serve all operations of the contract. Safe for concurrent use.
type Routes struct {
	api *api.API
	all gen.ServerInterface
}

// New makes the routes; it starts nothing.
func New(cfg api.Config) (*Routes, error) {
	a, err := api.New(cfg, map[string]api.Form{"openai": openai.Error, "anthropic": anthropic.Error, "ollama": ollama.Error, "legacy": petals.Traceback, "problem": control.Problem})
	if err != nil {
		return nil, err
	}
	return &Routes{a, struct {
		openAI
		replies
		messages
		local
		legacy
		research
		own
	}{openAI{openai.Dialect{API: a}}, replies{responses.Dialect{API: a}}, messages{anthropic.Dialect{API: a}}, local{ollama.Dialect{API: a}}, legacy{petals.Dialect{API: a}}, research{hidden.Dialect{API: a}}, own{control.New(a)}}}, nil
}

// Names for the dialects as parts of one type.
type (
	openAI   struct{ openai.Dialect }
	replies  struct{ responses.Dialect }
	messages struct{ anthropic.Dialect }
	local    struct{ ollama.Dialect }
	legacy   struct{ petals.Dialect }
	research struct{ hidden.Dialect }
	own      struct{ control.Dialect }
)

// Cap changes limits of users.
func (r *Routes) Cap(change func(*api.Caps)) { r.api.Cap(change) }

// Public is the handler of the public listener: everything but control.
func (r *Routes) Public() http.Handler { return r.api.Handler(r.api.Public, false, r.all) }

// Admin is the handler of the admin listener: everything but inference and pages.
func (r *Routes) Admin() http.Handler { return r.api.Handler(r.api.Admin, true, r.all) }
