// Package schematest has the public JSON Schema Test Suite, and a validator that is not ours to
// judge answers by. It is for tests alone.
package schematest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"whorl/internal/fixture"
)

//go:embed testdata/suite.json.gz
var suite []byte

// Group is a schema of the suite, and values with whether they are valid.
type Group struct {
	File, Description string
	Schema            json.RawMessage
	Tests             []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func (g *Group) String() string { return g.File + ": " + g.Description }

// Groups are all of the suite, in its order.
func Groups(t testing.TB) []Group {
	t.Helper()
	return fixture.Embedded[[]Group](t, "suite.json.gz", suite)
}

// Judge says of texts whether they are valid by a schema.
type Judge struct{ schema *jsonschema.Schema }

// NewJudge reads a schema; formats says that the texts of formats are to be kept to. Some schemas
// of the suite refer to others that the validator does not have: that is an error.
func NewJudge(schema []byte, formats bool) (*Judge, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if formats {
		c.AssertFormat()
	}
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		return nil, err
	}
	return &Judge{s}, nil
}

// Check says what is wrong with a text.
func (j *Judge) Check(text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = j.schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}
