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
		tool := calls.Tool{Name: t.Function.Name, Description: Value(t.Function.Description, ""), Strict: Value(t.Function.Strict, false)}
		if p := t.Function.Parameters; len(p) > 0 && string(p) != "null" {
			tool.Parameters = t.Function.Parameters
		}
		out = append(out, tool)
	}
	return out, nil
}

// Named refuses the choice of a tool that is not there.
func (tools *Tools) Named() error {
	if tools.Only == "" {
		return nil
	}
	for _, t := range tools.Offered {
		if t.Name == tools.Only {
			return nil
		}
	}
	return Invalid("tool_choice", "tool_choice names %q, which is none of the tools", Clip(tools.Only))
}

// Choose reads whether an answer may or has to call, and what, as OpenAI's clients say it; old is
// for the older form.
func (tools *Tools) Choose(choice json.RawMessage, old bool) (none bool, err error) {
	if Absent(choice) {
		return false, nil
	}
	var word string
	if json.Unmarshal(choice, &word) == nil {
		switch word {
		case "none":
			return true, nil
		case "auto":
			return false, nil
		case "required", "any":
			if !old {
				tools.Must = true
				return false, nil
			}
		}
		return false, Invalid("tool_choice", "tool_choice is %q: want none, auto, required or a function", Clip(word))
	}
	var one struct {
		Type     string
		Name     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal(choice, &one); err != nil {
		return false, Invalid("tool_choice", "tool_choice is wrong: %w", err)
	}
	if one.Type != "" && one.Type != "function" {
		return false, Unsupported("tool_choice", "tool_choice of type %q is not supported: only function is", Clip(one.Type))
	}
	if tools.Only = one.Function.Name; old || tools.Only == "" {
		tools.Only = one.Name
	}
	if tools.Only == "" {
		return false, Invalid("tool_choice", "tool_choice names no function")
	}
	tools.Must = true
	return false, nil
}

// Absent tells whether a field says nothing.
func Absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

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
