package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"whorl/api"
	"whorl/api/calls"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/grammar"
	"whorl/internal/answers"
)

// options are what chooses tokens, decoded over their defaults.
type options struct {
	api.Draws
	Seed *int64 `json:"seed"`
}

func defaultOptions() options { return options{Draws: api.DefaultDraws()} }

// request is one for a response.
type request struct {
	api.Ask
	talk    *api.Talk
	options options
	in      *gen.ResponsesRequest
	input   []gen.ResponseItem // its own
	history []gen.ChatMessage  // all that it answers, without instructions
}

// ask reads what a request asks for.
func (a Dialect) ask(ctx context.Context, in *gen.ResponsesRequest, o options) (q *request, err error) {
	q = &request{options: o, in: in}
	if id := api.Value(in.PreviousResponseId, ""); id != "" {
		before, err := a.get(ctx, id)
		if errors.Is(err, answers.ErrNone) {
			return nil, api.Invalid("previous_response_id", "previous_response_id is %q: no such response is stored here", api.Clip(id))
		}
		if err != nil {
			return nil, err
		}
		q.history = before.History
	}
	if err := q.read(api.Value(in.Input, nil)); err != nil {
		return nil, err
	}
	if len(q.history) == 0 {
		return nil, api.Invalid("input", "input is empty: there is nothing to answer")
	}
	tools, err := offered(in)
	if err != nil {
		return nil, err
	}
	e, err := a.Engine(ctx, api.Value(in.Model, ""))
	if err != nil {
		return nil, err
	}
	messages := q.history
	if text := api.Value(in.Instructions, ""); text != "" {
		content := gen.Content(text)
		messages = append([]gen.ChatMessage{{Role: gen.ChatMessageRoleSystem, Content: &content}}, messages...)
	}
	extras := client.ChatExtras{}
	if in.Reasoning != nil && in.Reasoning.Effort != nil {
		effort, _ := json.Marshal(*in.Reasoning.Effort)
		extras.Vars = gen.Variables{"reasoning_effort": effort}
	}
	if q.talk, err = a.Converse(e, messages, extras, tools, form(in)); err != nil {
		return nil, err
	}
	q.Ask = api.Ask{
		Engine: e, Param: "input", Answers: 1, Tokens: in.MaxOutputTokens, Default: a.Limits.AnswerTokens, Request: client.Request{TopLogprobs: -1},
	}
	q.talk.Put(&q.Ask)
	if err := o.Put(&q.Ask, o.Seed); err != nil {
		return nil, err
	}
	return q, nil
}

// read takes the items of a request into its input and its history.
func (q *request) read(items gen.Items) error {
	for i, it := range items {
		at := fmt.Sprintf("input.%d", i)
		kind := api.Value(it.Type, gen.ResponseInputItemTypeMessage)
		out := gen.ResponseItem{Id: api.Value(it.Id, ""), Type: gen.ResponseItemType(kind)}
		if out.Id == "" {
			out.Id = "item_" + api.RandomHex(12)
		}
		status := gen.ResponseItemStatusCompleted
		out.Status = &status
		switch kind {
		case gen.ResponseInputItemTypeReasoning:
			continue
		case gen.ResponseInputItemTypeMessage:
			if it.Role == nil {
				return api.Invalid(at+".role", "%s.role is missing", at)
			}
			content := gen.Content(api.Value(it.Content, ""))
			q.history = append(q.history, gen.ChatMessage{Role: gen.ChatMessageRole(*it.Role), Content: &content})
			role, part := gen.ResponseItemRole(*it.Role), gen.ResponsePart{Type: gen.ResponsePartTypeInputText, Text: string(content)}
			if role == gen.ResponseItemRoleAssistant {
				part.Type = gen.ResponsePartTypeOutputText
			}
			out.Role, out.Content = &role, &[]gen.ResponsePart{part}
		case gen.ResponseInputItemTypeFunctionCall:
			if api.Value(it.Name, "") == "" {
				return api.Invalid(at+".name", "%s.name is missing", at)
			}
			arguments, _ := json.Marshal(api.Value(it.Arguments, ""))
			q.called(gen.ToolCall{Id: it.CallId, Function: gen.FunctionCall{Name: *it.Name, Arguments: arguments}})
			out.CallId, out.Name, out.Arguments = it.CallId, it.Name, it.Arguments
		case gen.ResponseInputItemTypeFunctionCallOutput:
			content := gen.Content(api.Value(it.Output, ""))
			q.history = append(q.history, gen.ChatMessage{Role: gen.ChatMessageRoleTool, ToolCallId: it.CallId, Content: &content})
			text := string(content)
			out.CallId, out.Output = it.CallId, &text
		}
		q.input = append(q.input, out)
	}
	return nil
}

// called adds a call to the assistant's turn, which may have said something or called before.
func (q *request) called(c gen.ToolCall) { q.history = withCall(q.history, c) }

func withCall(history []gen.ChatMessage, c gen.ToolCall) []gen.ChatMessage {
	if n := len(history); n > 0 && history[n-1].Role == gen.ChatMessageRoleAssistant {
		last := history[n-1]
		last.ToolCalls = append(slices.Clone(last.ToolCalls), c)
		return append(history[:n-1:n-1], last)
	}
	return append(history, gen.ChatMessage{Role: gen.ChatMessageRoleAssistant, ToolCalls: []gen.ToolCall{c}})
}

// form is what the answer has to be, nil for any text.
func form(in *gen.ResponsesRequest) *api.AnswerForm {
	if in.Text == nil || in.Text.Format == nil {
		return nil
	}
	f := in.Text.Format
	switch {
	case f.Type == gen.ResponseTextFormatTypeText:
		return nil
	case f.Type == gen.ResponseTextFormatTypeJsonSchema && !api.Absent(f.Schema):
		return &api.AnswerForm{Param: "text.format", Spec: grammar.Spec{Schema: f.Schema}}
	}
	return &api.AnswerForm{Param: "text.format", Spec: grammar.Spec{Object: true}}
}

// offered are the tools that the answer may call, nil for none.
func offered(in *gen.ResponsesRequest) (*api.Tools, error) {
	var list []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	if !api.Absent(in.Tools) {
		if err := json.Unmarshal(in.Tools, &list); err != nil {
			return nil, api.Invalid("tools", "tools are wrong: %w", err)
		}
	}
	var given []calls.Tool
	for i, t := range list {
		if t.Type != "function" {
			return nil, api.Unsupported(fmt.Sprintf("tools.%d.type", i), "tools.%d.type is %q: only function is supported", i, api.Clip(t.Type))
		}
		tool := calls.Tool{Name: t.Name, Description: api.Value(t.Description, "")}
		if !api.Absent(t.Parameters) {
			tool.Parameters = t.Parameters
		}
		given = append(given, tool)
	}
	out := &api.Tools{Param: "tools", Several: api.Value(in.ParallelToolCalls, true)}
	none, err := out.Choose(in.ToolChoice, false)
	switch {
	case err != nil:
		return nil, err
	case given == nil && out.Must:
		return nil, api.Invalid("tool_choice", "tool_choice asks for a call, and there are no tools")
	case given == nil || none:
		return nil, nil
	}
	out.List = api.ToolList(given)
	if out.Offered, err = api.ReadTools("tools", out.List); err != nil {
		return nil, err
	}
	for i := range list { // which templates are not told
		out.Offered[i].Strict = api.Value(list[i].Strict, false)
	}
	return out, out.Named()
}
