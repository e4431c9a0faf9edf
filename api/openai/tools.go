package openai

import (
	"encoding/json"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client/grammar"
)

// offer is what a request says of tools. old says that it calls them functions.
type offer struct {
	*api.Tools
	old bool
}

// offered reads the tools that an answer may call; none where there are none, or none may be
// called.
func offered(req *gen.ChatRequest) (offer, error) {
	field, list, choice := "tools", req.Tools, req.ToolChoice
	old := emptyList(req.Tools) && !emptyList(req.Functions)
	if old {
		field, choice = "functions", req.FunctionCall
		var functions []json.RawMessage
		if err := json.Unmarshal(req.Functions, &functions); err != nil {
			return offer{}, api.Invalid(field, "functions is no list: %w", err)
		}
		var tools []map[string]json.RawMessage // as templates want them
		for _, f := range functions {
			tools = append(tools, map[string]json.RawMessage{"type": json.RawMessage(`"function"`), "function": f})
		}
		list, _ = json.Marshal(tools)
	}
	tools := &api.Tools{Param: field, List: list, Several: !old && api.Value(req.ParallelToolCalls, true)}
	none, err := tools.Choose(choice, old)
	switch {
	case err != nil:
		return offer{}, err
	case emptyList(list):
		if tools.Must {
			return offer{}, api.Invalid("tool_choice", "tool_choice asks for a call, and there are no tools")
		}
		return offer{}, nil
	case none:
		return offer{}, nil
	}
	if tools.Offered, err = api.ReadTools(field, list); err != nil {
		return offer{}, err
	}
	return offer{tools, old}, tools.Named()
}

// emptyList tells whether a list is absent or has nothing: templates tell an empty one from that.
func emptyList(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) != nil || len(list) == 0
}

// formOf is the form that response_format asks for, nil for any text.
func formOf(f *gen.ResponseFormat) (*api.AnswerForm, error) {
	if f == nil {
		return nil, nil
	}
	form := &api.AnswerForm{Param: "response_format", Spec: grammar.Spec{Object: true}}
	switch f.Type {
	case gen.ResponseFormatTypeText:
		return nil, nil
	case gen.ResponseFormatTypeJsonSchema:
		if f.JsonSchema == nil {
			return nil, api.Invalid("response_format.json_schema", "response_format.json_schema is missing")
		}
		if !api.Absent(f.JsonSchema.Schema) {
			form.Spec = grammar.Spec{Schema: f.JsonSchema.Schema}
		}
	}
	return form, nil
}

// guide is what the fields guided_* ask for, nil for nothing.
type guide struct {
	JSON   json.RawMessage `json:"guided_json"`
	Regex  string          `json:"guided_regex"`
	Choice []string        `json:"guided_choice"`
}

// with joins what they ask for with another form.
func (g *guide) with(form *api.AnswerForm) (*api.AnswerForm, error) {
	var all []*api.AnswerForm
	if form != nil {
		all = append(all, form)
	}
	if !api.Absent(g.JSON) {
		schema := g.JSON
		var spelled string
		if json.Unmarshal(schema, &spelled) == nil {
			schema = json.RawMessage(spelled)
		}
		all = append(all, &api.AnswerForm{Param: "guided_json", Spec: grammar.Spec{Schema: schema}})
	}
	if g.Regex != "" {
		all = append(all, &api.AnswerForm{Param: "guided_regex", Spec: grammar.Spec{Regex: g.Regex}})
	}
	if len(g.Choice) > 0 {
		var any []grammar.Spec
		for _, text := range g.Choice {
			any = append(any, grammar.Spec{Text: text})
		}
		all = append(all, &api.AnswerForm{Param: "guided_choice", Spec: grammar.Spec{Any: any}})
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, api.Unsupported(all[1].Param, "%s beside %s is not supported: the answer has one form", all[1].Param, all[0].Param)
}
