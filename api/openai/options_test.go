package openai

import (
	"reflect"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api/gen"
)

// options reads all that both routes have, and nothing that the contract lacks.
func TestOptionsAreTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(gen.Document)
	if err != nil {
		t.Fatal(err)
	}
	both := doc.Components.Schemas["AnswerOptions"].Value.Properties
	read := map[string]bool{"n": true, "max_tokens": true, "max_completion_tokens": true} // described apart, read alike
	for _, f := range reflect.VisibleFields(reflect.TypeFor[options]()) {
		name := f.Tag.Get("json")
		if name == "" || name == "-" || read[name] {
			continue
		}
		if read[name] = true; both[name] == nil {
			t.Errorf("%s is read and not in the contract", name)
		}
	}
	for name, p := range both {
		if !read[name] && p.Value.Extensions["x-refused"] == nil && p.Value.Description != "Ignored." {
			t.Errorf("both have %s, and options does not", name)
		}
	}
}
