package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"whorl/api/calls"
	"whorl/api/gen"
	"whorl/client"
)

// EncodeMessages puts a conversation through the model's template. What is wrong is said of
// the fields messages and tools.
func EncodeMessages(e Engine, in []gen.ChatMessage, x client.ChatExtras) ([]int32, error) {
	messages, wrapped, err := chatMessages(in)
	if err != nil {
		return nil, err
	}
	ids, err := e.EncodeChat(messages, x)
	if err != nil && wrapped != nil && !errors.Is(err, client.ErrTooLong) { // a template that wants objects
		messages = wrapped
		ids, err = e.EncodeChat(messages, x)
	}
	if err != nil {
		return nil, EncodeError(e, "messages", err)
	}
	if x.Tools != nil && !toolsHeard(e, messages, x, ids) {
		var heard bool
		messages = toolsInSystem(messages, x.Tools)
		if ids, heard = toolsHeardIn(e, messages, x); !heard {
			in = told(newer(in), x.Tools)
			x.Tools = nil
			return EncodeMessages(e, in, x)
		}
	}
	if !callsHeard(e, messages, x, ids) {
		in = newer(in)
		for i := range in {
			in[i] = withCallsSaid(in[i], calls.Of(e.Template()))
		}
		return EncodeMessages(e, in, x)
	}
	return ids, nil
}

// callsHeard tells whether the model's template shows the calls of a conversation, if it has some: the model is not
// to be told what a tool answered to nothing.
func callsHeard(e Engine, messages []client.Message, x client.ChatExtras, with []int32) bool {
	silent := slices.Clone(messages)
	some := false
	for i := range silent {
		some = some || len(silent[i].ToolCalls) > 0
		silent[i].ToolCalls = nil
	}
	if !some {
		return true
	}
	without, err := e.EncodeChat(silent, x)
	return err != nil || !slices.Equal(with, without)
}

// withCallsSaid has the calls of a message in its text, as a model of a format writes them.
func withCallsSaid(m gen.ChatMessage, f calls.Format) gen.ChatMessage {
	if len(m.ToolCalls) == 0 {
		return m
	}
	var list []calls.Call
	for _, c := range m.ToolCalls {
		arguments, _ := callArguments(c.Function.Arguments)
		list = append(list, calls.Call{Name: c.Function.Name, Arguments: arguments})
	}
	text := Value(m.Content, "")
	if text != "" {
		text += "\n"
	}
	text += gen.Content(f.Written(list))
	m.Content, m.ToolCalls, m.FunctionCall = &text, nil, nil
	return m
}

// toolsHeard tells whether the model's template shows the tools.
func toolsHeard(e Engine, messages []client.Message, x client.ChatExtras, with []int32) bool {
	x.Tools = nil
	without, err := e.EncodeChat(messages, x)
	return err != nil || !slices.Equal(with, without) // some templates want tools
}

// toolsInSystem is a conversation for a template that looks for tools in the system's message, where they are the text
// of a list of functions.
func toolsInSystem(messages []client.Message, tools json.RawMessage) []client.Message {
	var list []struct{ Function json.RawMessage }
	text := string(tools)
	if json.Unmarshal(tools, &list) == nil {
		var functions []json.RawMessage
		for _, t := range list {
			functions = append(functions, t.Function)
		}
		if b, err := json.Marshal(functions); err == nil {
			text = string(b)
		}
	}
	if len(messages) > 0 && messages[0].Role == "system" {
		messages = slices.Clone(messages)
	} else {
		messages = append([]client.Message{{Role: "system", Content: "You are a helpful assistant with some tools."}}, messages...)
	}
	messages[0].Tools = text
	return messages
}

// toolsHeardIn are the ids of messages, and whether the model's template shows the tools in the
// system's one.
func toolsHeardIn(e Engine, messages []client.Message, x client.ChatExtras) (with []int32, heard bool) {
	with, err := e.EncodeChat(messages, x)
	if err != nil {
		return nil, false
	}
	silent := slices.Clone(messages)
	silent[0].Tools = ""
	without, err := e.EncodeChat(silent, x)
	return with, err == nil && !slices.Equal(with, without)
}

// told is a conversation for a template that knows no tools: they are in the system's text, calls
// in that of the assistant, and what tools answered is said by the user.
func told(in []gen.ChatMessage, tools json.RawMessage) (out []gen.ChatMessage) {
	say := func(role gen.ChatMessageRole, text string) {
		content := gen.Content(text)
		if n := len(out); n > 0 && out[n-1].Role == role && role != gen.ChatMessageRoleSystem { // many templates want turns
			content = *out[n-1].Content + "\n" + content
			out = out[:n-1]
		}
		out = append(out, gen.ChatMessage{Role: role, Content: &content})
	}
	system := calls.Told(tools)
	if len(in) > 0 && (in[0].Role == gen.ChatMessageRoleSystem || in[0].Role == gen.ChatMessageRoleDeveloper) {
		system, in = string(Value(in[0].Content, ""))+"\n\n"+system, in[1:]
	}
	say(gen.ChatMessageRoleSystem, system)
	for _, m := range in {
		text := string(Value(m.Content, ""))
		switch {
		case m.Role == gen.ChatMessageRoleTool, m.Role == gen.ChatMessageRoleFunction:
			say(gen.ChatMessageRoleUser, "<tool_response>\n"+text+"\n</tool_response>")
		case len(m.ToolCalls) > 0:
			say(m.Role, string(*withCallsSaid(m, calls.Hermes()).Content))
		default:
			out = append(out, m)
		}
	}
	return out
}

// chatMessages makes the messages that a template gets. Where calls have arguments that are no
// JSON object they are texts in out; wrapped, else nil, has them in objects.
func chatMessages(in []gen.ChatMessage) (out, wrapped []client.Message, err error) {
	in = newer(in)
	out = make([]client.Message, len(in))
	var calls map[int]json.RawMessage // that have to be wrapped
	for i, m := range in {
		o := client.Message{Role: string(m.Role), Reasoning: Value(m.ReasoningContent, "")}
		switch m.Role {
		case gen.ChatMessageRoleDeveloper: // the newer name of the same thing
			o.Role = "system"
		case gen.ChatMessageRoleFunction: // the older name
			o.Role, o.Name = "tool", Value(m.Name, "")
		case gen.ChatMessageRoleTool:
			o.ToolCallID, o.Name = Value(m.ToolCallId, ""), Value(m.Name, "")
		}
		if m.Content != nil {
			o.Content = string(*m.Content)
		}
		if len(m.ToolCalls) > 0 {
			o.NoContent = m.Content == nil
			var asObjects json.RawMessage
			if o.ToolCalls, asObjects, err = toolCalls(m.ToolCalls); err != nil {
				return nil, nil, Invalid(fmt.Sprintf("messages.%d.tool_calls", i), "%v", err)
			}
			if asObjects != nil {
				if calls == nil {
					calls = map[int]json.RawMessage{}
				}
				calls[i] = asObjects
			}
		}
		out[i] = o
	}
	if calls != nil {
		wrapped = slices.Clone(out)
		for i, c := range calls {
			wrapped[i].ToolCalls = c
		}
	}
	return out, wrapped, nil
}

// newer has calls of functions, as they were before there were tools, as calls of tools.
func newer(in []gen.ChatMessage) []gen.ChatMessage {
	out := slices.Clone(in)
	for i, m := range out {
		if m.FunctionCall != nil && m.FunctionCall.Name != "" && len(m.ToolCalls) == 0 {
			out[i].ToolCalls = []gen.ToolCall{{Function: *m.FunctionCall}}
		}
	}
	return out
}

// toolCalls is what a template gets of calls: where clients send arguments as a text that
// spells an object, it gets the object, and an empty one for none. What spells no object, as
// models write it at times, stays the text that it is; wrapped, else nil, has it in an object.
func toolCalls(calls []gen.ToolCall) (plain, wrapped json.RawMessage, err error) {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	type call struct { // some templates print calls whole: in the order that clients have
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	out, objects := make([]call, len(calls)), make([]call, len(calls))
	broken := false
	for i, c := range calls {
		arguments, whole := callArguments(c.Function.Arguments)
		out[i] = call{Value(c.Id, ""), "function", function{c.Function.Name, arguments}}
		if objects[i] = out[i]; !whole {
			broken = true
			if objects[i].Function.Arguments, err = json.Marshal(map[string]json.RawMessage{"arguments": arguments}); err != nil {
				return nil, nil, err
			}
		}
	}
	if plain, err = json.Marshal(out); err != nil || !broken {
		return plain, nil, err
	}
	wrapped, err = json.Marshal(objects)
	return plain, wrapped, err
}

// callArguments reads arguments as clients send them: an object if they are one, else a text.
func callArguments(raw json.RawMessage) (arguments json.RawMessage, object bool) {
	text := string(raw)
	if len(raw) == 0 || json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "" || trimmed == "null":
		return json.RawMessage("{}"), true
	case trimmed[0] == '{' && json.Valid([]byte(trimmed)):
		return json.RawMessage(trimmed), true
	}
	arguments, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts always marshal
	}
	return arguments, false
}
