package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"whorl/api/calls"
	"whorl/api/gen"
)

// ReadTools reads tools in OpenAI's form.
func ReadTools(field string, list json.RawMessage) ([]calls.Tool, error) {
	var in []gen.Tool
	if err := json.Unmarshal(list, &in); err != nil {
		return nil, Invalid(field, "%s are wrong: %w", field, err)
	}
	var out []calls.Tool
	seen := map[string]bool{}
	for i, t := range in {
		at := fmt.Sprintf("%s.%d", field, i)
		switch {
		case t.Type != "function":
			return nil, Unsupported(at+".type", "%s.type is %q: only function is supported", at, Clip(string(t.Type)))
		case t.Function.Name == "":
			return nil, Invalid(at+".function.name", "%s.function.name is missing", at)
		case seen[t.Function.Name]:
			return nil, Invalid(at+".function.name", "%s.function.name is %q a second time", at, Clip(t.Function.Name))
		}
		seen[t.Function.Name] = true
		tool := calls.Tool{Name: t.Function.Name, Description: Value(t.Function.Description, "")}
		if p := t.Function.Parameters; len(p) > 0 && string(p) != "null" {
			tool.Parameters = t.Function.Parameters
		}
		out = append(out, tool)
	}
	return out, nil
}

// ToolList writes tools in OpenAI's form, as templates get them.
func ToolList(tools []calls.Tool) json.RawMessage {
	type function struct { // in the order that models know
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var out []tool
	for _, t := range tools {
		out = append(out, tool{"function", function{t.Name, t.Description, t.Parameters}})
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // schemas were read from JSON
	}
	return b
}

// Object is the arguments of a call as an object, which they are in one member of if they are
// none.
func Object(arguments string) json.RawMessage {
	if text := strings.TrimSpace(arguments); strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := json.Marshal(map[string]string{"arguments": arguments})
	if err != nil {
		panic(err) // texts always marshal
	}
	return b
}
