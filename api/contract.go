package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api/gen"
	"whorl/internal/keys"
)

// document reads the contract, once: it is the same for all and never changed.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(gen.Document)
	if err != nil {
		return nil, err
	}
	for _, s := range doc.Components.Schemas {
		flatten(s.Value)
	}
	return doc, nil
})

// flatten makes an object of parts (allOf) one object with the fields of all.
func flatten(s *openapi3.Schema) {
	for _, part := range s.AllOf {
		flatten(part.Value)
		if part.Value.Properties == nil {
			return // no object
		}
	}
	for _, part := range s.AllOf {
		if s.Properties == nil {
			s.Properties = openapi3.Schemas{}
		}
		maps.Copy(s.Properties, part.Value.Properties)
		s.Required = append(s.Required, part.Value.Required...)
		s.Type = part.Value.Type
	}
	s.AllOf = nil
}

// rule is who may call an operation, as the contract says.
type rule struct {
	listener string     // public, admin or both
	token    bool       // where a listener has one it is asked for
	scope    keys.Scope // that a key needs
	guests   bool       // pages of the visitor's machine and of configured sites may call it
	option   string     // that an operator has to turn on; "" for none
}

// rules are what the contract says of routes beside their schemas.
type rules struct {
	operations map[string]rule   // by "METHOD /path/{pattern}"
	errors     map[string]string // form of errors, by the path of a route
	under      map[string]string // form of errors of all else, by the first part of a path
	off        map[string]bool   // paths that do not exist, as their option is off
}

// turnOff makes the paths of an option such that are nowhere.
func (rs *rules) turnOff(option string) {
	for operation, to := range rs.operations {
		if _, path, _ := strings.Cut(operation, " "); to.option == option {
			rs.off[path] = true
			delete(rs.errors, path)
		}
	}
}

// of is the rule of a matched route, and its pattern in the contract. What the contract lacks
// needs a token, or a key that allows all.
func (rs *rules) of(method, pattern string) (rule, string) {
	if pattern == "/v1/models/*" {
		pattern = "/v1/models/{id}"
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	to, ok := rs.operations[method+" "+pattern]
	if !ok {
		to.token, to.scope = true, keys.Admin
	}
	return to, pattern
}

// form is the form of errors at a path; listed is false where a page may stand there as well.
func (rs *rules) form(path string) (form string, listed bool) {
	if form, ok := rs.errors[path]; ok {
		return form, true
	}
	for first, form := range rs.under {
		if path == first || strings.HasPrefix(path, first+"/") {
			return form, true
		}
	}
	return "problem", false
}

// forms are the names of all forms.
func (rs *rules) forms() map[string]bool {
	out := map[string]bool{"problem": true} // of what is nowhere
	for _, names := range []map[string]string{rs.errors, rs.under} {
		for _, name := range names {
			out[name] = true
		}
	}
	return out
}

// readRules reads the extensions of tags, and of operations that say otherwise.
func readRules(doc *openapi3.T) (*rules, error) {
	out := &rules{operations: map[string]rule{}, errors: map[string]string{}, under: map[string]string{}, off: map[string]bool{}}
	tags := map[string]map[string]any{}
	for _, t := range doc.Tags {
		tags[t.Name] = t.Extensions
		if first, ok := t.Extensions["x-under"].(string); ok {
			out.under[first] = fmt.Sprint(t.Extensions["x-errors"])
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			x := maps.Clone(tags[op.Tags[0]])
			maps.Copy(x, op.Extensions)
			listener, _ := x["x-listener"].(string)
			pages, _ := x["x-pages"].(string)
			form, _ := x["x-errors"].(string)
			token, ok := x["x-token"].(bool)
			scope, _ := x["x-scope"].(string)
			option, _ := x["x-option"].(string)
			if !ok || listener == "" || pages == "" || form == "" || !slices.Contains(keys.Scopes(), keys.Scope(scope)) {
				return nil, fmt.Errorf("%s %s: x-listener, x-token, x-scope, x-pages or x-errors is missing or wrong", method, path)
			}
			out.operations[method+" "+path] = rule{listener: listener, token: token, scope: keys.Scope(scope), guests: pages == "guests", option: option}
			out.errors[path] = form
		}
	}
	return out, nil
}
