package anthropic

import (
	"reflect"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api"
	"whorl/api/gen"
)

// All that the contract has of a message is read, ignored or refused, and nothing else is read.
func TestFieldsAreTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(gen.Document)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{"model": true, "messages": true, "system": true, "thinking": true, "tools": true, "tool_choice": true, "output_format": true, "output_config": true} // the conversation
	for _, f := range reflect.VisibleFields(reflect.TypeFor[options]()) {
		if !f.Anonymous {
			read[f.Tag.Get("json")] = true
		}
	}
	said := map[string]bool{}
	for _, part := range doc.Components.Schemas["MessagesRequest"].Value.AllOf {
		for name, p := range part.Value.Properties {
			said[name] = true
			if does := read[name]; does == (p.Value.Extensions["x-refused"] != nil || len(p.Value.Description) > 6 && p.Value.Description[:7] == "Ignored") {
				t.Errorf("%s is in the contract, and read: %v", name, does)
			}
		}
	}
	for name := range read {
		if !said[name] {
			t.Errorf("%s is read and not in the contract", name)
		}
	}
}

// Every status has a type of the contract, and a caller's mistake never looks like ours.
func TestErrorTypes(t *testing.T) {
	for code, m := range api.Meanings {
		e := describe(api.Failure{Meaning: m})
		if ours := e.Type == gen.MessagesErrorTypeApiError || e.Type == gen.MessagesErrorTypeOverloadedError || e.Type == gen.MessagesErrorTypeTimeoutError; ours != (m.Status >= 500) {
			t.Errorf("%s: status %d is a %s", code, m.Status, e.Type)
		}
	}
}
