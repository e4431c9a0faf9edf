package ollama

import (
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api/gen"
)

// All that the contract has of options is read, ignored, refused or of one value that changes
// nothing, and nothing else is read.
func TestOptionsAreTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(gen.Document)
	if err != nil {
		t.Fatal(err)
	}
	said := doc.Components.Schemas["OllamaOptions"].Value.Properties
	read := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[options]()) {
		name := f.Tag.Get("json")
		if read[name] = true; said[name] == nil {
			t.Errorf("%s is read and not in the contract", name)
		}
	}
	for name, p := range said {
		v := p.Value
		none := v.Extensions["x-refused"] != nil || strings.HasPrefix(v.Description, "Ignored") || v.Min != nil && v.Max != nil && *v.Min == *v.Max
		if read[name] == none {
			t.Errorf("%s is in the contract, and read: %v", name, read[name])
		}
	}
}
