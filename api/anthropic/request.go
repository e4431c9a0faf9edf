package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"whorl/api"
	"whorl/api/calls"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/grammar"
)

// options are what a request asks for beside its conversation, decoded over defaultOptions.
type options struct {
	MaxTokens     int      `json:"max_tokens"`
	Stream        bool     `json:"stream"`
	StopSequences []string `json:"stop_sequences"`
	api.Draws
	Verify *int `json:"whorl_verify"`
}

func defaultOptions() options { return options{Draws: api.DefaultDraws()} }

// request is one for an answer to a conversation.
type request struct {
	api.Ask
	talk *api.Talk
}

// ask makes a request of a conversation and options.
func (a Dialect) ask(ctx context.Context, p *gen.MessagesPrompt, o *options) (q request, err error) {
	e, talk, err := a.talk(ctx, p)
	if err != nil {
		return q, err
	}
	q.talk = talk
	q.Ask = api.Ask{
		Engine: e, Param: "messages", Answers: 1, Tokens: &o.MaxTokens,
		Request: client.Request{TopLogprobs: -1, Stop: o.StopSequences},
	}
	talk.Put(&q.Ask)
	return q, o.Put(&q.Ask, nil)
}

// talk puts a conversation through its model's template.
func (a Dialect) talk(ctx context.Context, p *gen.MessagesPrompt) (api.Engine, *api.Talk, error) {
	if p.Thinking != nil && p.Thinking.Type != "disabled" {
		return nil, nil, api.Unsupported("thinking", "thinking of type %q is not supported: leave thinking out", api.Clip(p.Thinking.Type))
	}
	e, err := a.Engine(ctx, api.Value(p.Model, ""))
	if err != nil {
		return nil, nil, err
	}
	messages, err := conversation(p)
	if err != nil {
		return nil, nil, err
	}
	tools, err := offered(p)
	if err != nil {
		return nil, nil, err
	}
	extras := client.ChatExtras{}
	if e.Thinks() {
		extras.Vars = gen.Variables{"enable_thinking": json.RawMessage("false")}
	}
	talk, err := a.Converse(e, messages, extras, tools, form(p))
	return e, talk, err
}

// form is what the answer has to be, nil for anything.
func form(p *gen.MessagesPrompt) *api.AnswerForm {
	f, field := p.OutputFormat, "output_format"
	if f == nil && p.OutputConfig != nil {
		f, field = p.OutputConfig.Format, "output_config"
	}
	switch {
	case f == nil:
		return nil
	case len(f.Schema) == 0:
		return &api.AnswerForm{Param: field, Spec: grammar.Spec{Object: true}}
	}
	return &api.AnswerForm{Param: field, Spec: grammar.Spec{Schema: f.Schema}}
}

// offered are the tools that the answer may call, nil for none.
func offered(p *gen.MessagesPrompt) (*api.Tools, error) {
	out := &api.Tools{Param: "tools", Several: true}
	for i, t := range p.Tools {
		if slices.ContainsFunc(out.Offered, func(other calls.Tool) bool { return other.Name == t.Name }) {
			return nil, api.Invalid(fmt.Sprintf("tools.%d.name", i), "tools.%d.name is %q a second time", i, api.Clip(t.Name))
		}
		out.Offered = append(out.Offered, calls.Tool{Name: t.Name, Description: api.Value(t.Description, ""), Parameters: t.InputSchema, Strict: api.Value(t.Strict, false)})
	}
	if c := p.ToolChoice; c != nil {
		out.Several = !api.Value(c.DisableParallelToolUse, false)
		switch c.Type {
		case gen.MessagesChoiceTypeNone:
			return nil, nil
		case gen.MessagesChoiceTypeAny:
			out.Must = true
		case gen.MessagesChoiceTypeTool:
			out.Must, out.Only = true, api.Value(c.Name, "")
			if !slices.ContainsFunc(out.Offered, func(t calls.Tool) bool { return t.Name == out.Only }) {
				return nil, api.Invalid("tool_choice.name", "tool_choice.name is %q, which is none of the tools", api.Clip(out.Only))
			}
		}
	}
	if len(out.Offered) == 0 {
		if out.Must {
			return nil, api.Invalid("tool_choice", "tool_choice asks for a call, and there are no tools")
		}
		return nil, nil
	}
	out.List = api.ToolList(out.Offered)
	return out, nil
}

// conversation is the system's text and the turns. Neighbours of one role are one turn: many
// templates want user and assistant to take turns.
func conversation(p *gen.MessagesPrompt) ([]gen.ChatMessage, error) {
	var out []gen.ChatMessage
	if system := api.Value(p.System, ""); system != "" {
		out = append(out, gen.ChatMessage{Role: gen.ChatMessageRoleSystem, Content: &system})
	}
	for i, m := range p.Messages {
		messages, err := turn(m, fmt.Sprintf("messages.%d.content", i))
		if err != nil {
			return nil, err
		}
		for _, next := range messages {
			if n := len(out); n > 0 && out[n-1].Role == next.Role && next.Role != gen.ChatMessageRoleTool && out[n-1].Content != nil && next.Content != nil {
				both := *out[n-1].Content + "\n" + *next.Content
				out[n-1].Content, out[n-1].ToolCalls = &both, append(out[n-1].ToolCalls, next.ToolCalls...)
				continue
			}
			out = append(out, next)
		}
	}
	if last := len(p.Messages) - 1; p.Messages[last].Role != gen.MessagesTurnRoleUser {
		field := fmt.Sprintf("messages.%d.role", last)
		return nil, api.Unsupported(field, "%s is %q: the last message must be the user's, since to continue an assistant's text is not supported", field, p.Messages[last].Role)
	}
	return out, nil
}

// turn is a turn as messages: what tools answered stands before what the user says.
func turn(m gen.MessagesTurn, field string) (out []gen.ChatMessage, err error) {
	said := gen.ChatMessage{Role: gen.ChatMessageRole(m.Role)}
	text := gen.Content("")
	some := len(m.Content) == 0
	for i, b := range m.Content {
		at := fmt.Sprintf("%s.%d", field, i)
		switch b.Type {
		case gen.MessagesBlockTypeText:
			text += gen.Content(api.Value(b.Text, ""))
			some = true
		case gen.MessagesBlockTypeToolUse:
			if api.Value(b.Name, "") == "" || m.Role != gen.MessagesTurnRoleAssistant {
				return nil, api.Invalid(at, "%s is a tool_use without a name, or not the assistant's", at)
			}
			said.ToolCalls = append(said.ToolCalls, gen.ToolCall{Id: b.Id, Function: gen.FunctionCall{Name: *b.Name, Arguments: b.Input}})
		case gen.MessagesBlockTypeToolResult:
			if m.Role != gen.MessagesTurnRoleUser {
				return nil, api.Invalid(at, "%s is a tool_result of the assistant's", at)
			}
			result := api.Value(b.Content, "")
			out = append(out, gen.ChatMessage{Role: gen.ChatMessageRoleTool, ToolCallId: b.ToolUseId, Content: &result})
		}
	}
	if some {
		said.Content = &text
	}
	if some || said.ToolCalls != nil || out == nil {
		out = append(out, said)
	}
	return out, nil
}
