package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/web/view"
)

const (
	// fieldsDeep is how many levels of fields are shown, fieldsMost how many in all.
	fieldsDeep, fieldsMost = 3, 120
)

// methods in the order in which a path's routes are shown.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// readReference makes the page about the API of its contract (OpenAPI 3.0), for one listener.
func readReference(contract []byte, admin bool) (view.Reference, error) {
	doc, err := openapi3.NewLoader().LoadFromData(contract)
	if err != nil {
		return view.Reference{}, fmt.Errorf("the contract of the API: %w", err)
	}
	v := view.Reference{Version: doc.Info.Version, Intro: paragraphs(doc.Info.Description), Admin: admin}
	for _, tag := range doc.Tags {
		g := view.RouteGroup{Name: tag.Name, Text: tag.Description}
		for _, path := range doc.Paths.InMatchingOrder() {
			item := doc.Paths.Value(path)
			for _, method := range methods {
				if op := item.GetOperation(method); op != nil && op.Tags[0] == tag.Name {
					g.Routes = append(g.Routes, readRoute(method, path, op, tag, admin))
				}
			}
		}
		slices.SortFunc(g.Routes, func(a, b view.Route) int { return strings.Compare(a.Path, b.Path) })
		v.Groups = append(v.Groups, g)
	}
	return v, nil
}

func readRoute(method, path string, op *openapi3.Operation, tag *openapi3.Tag, admin bool) view.Route {
	said := func(name string) any {
		if x, ok := op.Extensions[name]; ok {
			return x
		}
		return tag.Extensions[name]
	}
	r := view.Route{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Text: paragraphs(op.Description)}
	r.Listener, _ = said("x-listener").(string)
	r.Token, _ = said("x-token").(bool)
	here := "public"
	if admin {
		here = "admin"
	}
	switch _, socket := op.Responses.Map()["101"]; {
	case r.Listener != "both" && r.Listener != here:
		r.Why = fmt.Sprintf("To try it, open /reference of the %s listener.", r.Listener)
	case socket:
		r.Why = "A WebSocket: no form can speak it."
	default:
		r.Try = true
	}
	for _, p := range op.Parameters {
		r.Params = append(r.Params, view.Field{
			Name: p.Value.Name, In: p.Value.In, Type: typeOf(p.Value.Schema), Text: oneLine(p.Value.Description), Required: p.Value.Required,
		})
	}
	if op.RequestBody != nil {
		for _, media := range sorted(op.RequestBody.Value.Content) {
			c := op.RequestBody.Value.Content[media]
			b := view.Body{Media: media, Example: example(c)}
			addFields(&b.Fields, "", c.Schema, fieldsDeep)
			r.Bodies = append(r.Bodies, b)
		}
		slices.SortStableFunc(r.Bodies, func(a, b view.Body) int { // plain JSON first: it is what is tried
			return strings.Compare(rank(a.Media), rank(b.Media))
		})
	}
	for _, status := range sorted(op.Responses.Map()) {
		answer := op.Responses.Value(status).Value
		text := ""
		if answer.Description != nil {
			text = oneLine(*answer.Description)
		}
		if len(answer.Content) == 0 {
			r.Answers = append(r.Answers, view.Answer{Status: status, Text: text})
		}
		for _, media := range sorted(answer.Content) {
			a := view.Answer{Status: status, Text: text, Media: media, Example: example(answer.Content[media])}
			addFields(&a.Fields, "", answer.Content[media].Schema, fieldsDeep)
			r.Answers = append(r.Answers, a)
		}
	}
	return r
}

func rank(media string) string {
	if media == "application/json" {
		return ""
	}
	return media
}

// addFields lists the fields of a schema, and those of its fields, so many levels down.
func addFields(to *[]view.Field, under string, ref *openapi3.SchemaRef, deep int) {
	if ref == nil || ref.Value == nil || deep == 0 {
		return
	}
	s := ref.Value
	for _, parts := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range parts {
			addFields(to, under, part, deep)
		}
	}
	if s.Items != nil {
		addFields(to, under+"[]", s.Items, deep)
	}
	for _, name := range sorted(s.Properties) {
		if len(*to) >= fieldsMost {
			return
		}
		p := s.Properties[name]
		full := strings.TrimPrefix(under+"."+name, ".")
		if slices.ContainsFunc(*to, func(f view.Field) bool { return f.Name == full }) {
			continue // of another part
		}
		*to = append(*to, view.Field{Name: full, Type: typeOf(p), Text: oneLine(p.Value.Description), Required: slices.Contains(s.Required, name)})
		addFields(to, full, p, deep-1)
	}
}

// typeOf says what values a schema has.
func typeOf(ref *openapi3.SchemaRef) string {
	if ref == nil || ref.Value == nil {
		return ""
	}
	s := ref.Value
	out := "any"
	switch {
	case s.Type != nil && s.Type.Is("array"):
		out = "list of " + typeOf(s.Items)
	case s.Type != nil:
		out = strings.Join(s.Type.Slice(), " or ")
	case len(s.OneOf)+len(s.AnyOf) > 0:
		var all []string
		for _, part := range slices.Concat(s.OneOf, s.AnyOf) {
			if t := typeOf(part); !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
		out = strings.Join(all, " or ")
	case len(s.AllOf) > 0:
		out = "object"
	}
	if len(s.Enum) > 0 {
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i] = fmt.Sprint(e)
		}
		out += ": " + strings.Join(words, ", ")
	}
	switch {
	case s.Min != nil && s.Max != nil:
		out += fmt.Sprintf(", %g to %g", *s.Min, *s.Max)
	case s.Min != nil:
		out += fmt.Sprintf(", at least %g", *s.Min)
	case s.Max != nil:
		out += fmt.Sprintf(", at most %g", *s.Max)
	}
	if s.Default != nil {
		out += fmt.Sprintf(", %v by default", s.Default)
	}
	return out
}

// example is a text that is or may be sent.
func example(m *openapi3.MediaType) string {
	v := m.Example
	if v == nil {
		for _, name := range sorted(m.Examples) {
			v = m.Examples[name].Value.Value
			break
		}
	}
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "" // of a contract that is checked by tests
	}
	return string(b)
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// paragraphs are the parts of a text that empty lines part.
func paragraphs(s string) (out []string) {
	for _, p := range strings.Split(s, "\n\n") {
		if p = oneLine(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// referencePage is the page about the API among those of the dashboard.
func (s *Site) referencePage(r *http.Request, snap *snapshot) (*view.Page, int) {
	if s.deps.Contract == nil {
		return s.problem(r, snap, "There is no such page.", "The overview shows all models of the swarm.")
	}
	p := s.frame(snap, "API reference", "reference", "/reference", nil)
	p.Live = "" // a form must not be exchanged under the visitor's hands
	s.reference.Sections(p)
	return p, http.StatusOK
}
