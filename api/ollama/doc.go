// Package ollama is the dialect of Ollama's clients: chats, texts and what they ask about models.
// It turns their JSON into an api.Ask, and what becomes of that into their JSON, a line each.
//
// It runs nothing itself and checks no sampling parameter: api and client do. Its routes answer
// only where the operator turned them on. It loads, pulls and removes no models.
package ollama

import (
	"context"
	"net/http"
	"strings"

	"whorl/api"
	"whorl/api/gen"
)

// Dialect serves the operations with the tag ollama.
type Dialect struct{ *api.API }

// Error is a failure as Ollama's clients expect it.
func Error(f api.Failure, _ string) (mediaType string, body any) {
	return "application/json", gen.OllamaFailure{Error: f.Message}
}

// names are fields of package sample that these routes have by another name.
var names = map[string]string{"repetition_penalty": "repeat_penalty"}

// fail answers with an error, which names a parameter as these routes do.
func (a Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.Fail(w, r, api.FieldError(err, names))
}

// model finds a model by name; clients put a tag behind it, which all have here.
func (a Dialect) model(ctx context.Context, name string) (api.Engine, error) {
	return a.Engine(ctx, strings.TrimSuffix(name, ":latest"))
}
