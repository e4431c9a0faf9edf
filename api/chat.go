package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"whorl/api/gen"
	"whorl/client"
)

// CreateChatCompletion answers a conversation.
func (a *API) CreateChatCompletion(w http.ResponseWriter, r *http.Request, params gen.CreateChatCompletionParams) {
	var req gen.ChatRequest
	o := defaultOptions(params.XRequestTimeout)
	if err := a.readJSON(w, r, "ChatRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	e, turns, err := a.chatTurns(r.Context(), &req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, &o, turns, &chat{envelope: newEnvelope("chatcmpl-", e.Model(), &o), engine: e, turns: turns, told: make([]bool, len(turns))})
}

// chatTurns checks a request and makes its choices.
func (a *API) chatTurns(ctx context.Context, req *gen.ChatRequest, o *options) (Engine, []turn, error) {
	if err := chatSupported(req); err != nil {
		return nil, nil, err
	}
	e, err := a.engine(o.Model)
	if err != nil {
		return nil, nil, err
	}
	base, err := o.request()
	if err != nil {
		return nil, nil, err
	}
	room := e.Room(ctx, client.SessionOptions{Beams: base.Beams.Beams})
	if value(req.Logprobs, false) {
		base.TopLogprobs = value(req.TopLogprobs, 0)
	} else if value(req.TopLogprobs, 0) > 0 {
		return nil, nil, invalid("top_logprobs", "top_logprobs needs logprobs: true")
	}
	if err := a.finishSampling(e, &base, o.BadWords); err != nil {
		return nil, nil, fieldError(err, openAINames)
	}
	ids, err := chatPrompt(e, req)
	if err != nil {
		return nil, nil, err
	}
	if base.MaxNewTokens = o.limit(); base.MaxNewTokens == 0 {
		base.MaxNewTokens = max(1, min(a.limits.AnswerTokens, room-len(ids)))
	}
	if err := checkPrompt(e, room, "messages", ids, base.MaxNewTokens); err != nil {
		return nil, nil, err
	}
	turns, err := a.turns(e, base, [][]int32{ids}, o.N)
	return e, turns, err
}

// chatPrompt puts a conversation through the model's template.
func chatPrompt(e Engine, req *gen.ChatRequest) ([]int32, error) {
	messages, broken, err := chatMessages(req.Messages)
	if err != nil {
		return nil, err
	}
	extras := client.ChatExtras{Vars: req.ChatTemplateKwargs}
	if req.ReasoningEffort != nil {
		if extras.Vars = maps.Clone(extras.Vars); extras.Vars == nil {
			extras.Vars = gen.Variables{}
		}
		if extras.Vars["reasoning_effort"] == nil {
			extras.Vars["reasoning_effort"], _ = json.Marshal(*req.ReasoningEffort)
		}
	}
	if req.ToolChoice != "none" {
		extras.Tools = tools(req)
	}
	ids, err := e.EncodeChat(messages, extras)
	if err != nil && broken != nil { // a template that wants objects
		ids, err = e.EncodeChat(broken, extras)
	}
	if err != nil {
		return nil, encodeError(e, "messages", err)
	}
	if extras.Tools != nil {
		return ids, toolsHeard(e, messages, extras, ids)
	}
	return ids, nil
}

// toolsHeard refuses tools that the model's template leaves out: the model would never hear of
// them, and whoever offered them would wait for calls in vain.
func toolsHeard(e Engine, messages []client.Message, x client.ChatExtras, with []int32) error {
	x.Tools = nil
	without, err := e.EncodeChat(messages, x)
	if err != nil || !slices.Equal(with, without) {
		return nil // some templates want tools
	}
	return unsupported("tools", `the chat template of %s knows no tools: leave them out, or set tool_choice to "none"`, e.Model().Name)
}

// tools are the tools of a request, nil for none: templates tell an empty list from that.
func tools(req *gen.ChatRequest) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(req.Tools, &list) != nil || len(list) == 0 {
		return nil
	}
	return req.Tools
}

// chatMessages makes the messages that a template gets. Where calls have arguments that are no
// JSON object they are texts in out; wrapped, else nil, has them in objects.
func chatMessages(in []gen.ChatMessage) (out, wrapped []client.Message, err error) {
	out = make([]client.Message, len(in))
	var calls map[int]json.RawMessage // that have to be wrapped
	for i, m := range in {
		o := client.Message{Role: string(m.Role), Reasoning: value(m.ReasoningContent, "")}
		switch m.Role {
		case gen.ChatMessageRoleDeveloper: // the newer name of the same thing
			o.Role = "system"
		case gen.ChatMessageRoleTool:
			o.ToolCallID, o.Name = value(m.ToolCallId, ""), value(m.Name, "")
		}
		if m.Content != nil {
			o.Content = string(*m.Content)
		}
		if len(m.ToolCalls) > 0 {
			o.NoContent = m.Content == nil
			var asObjects json.RawMessage
			if o.ToolCalls, asObjects, err = toolCalls(m.ToolCalls); err != nil {
				return nil, nil, invalid(fmt.Sprintf("messages.%d.tool_calls", i), "%v", err)
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
		out[i] = call{value(c.Id, ""), "function", function{c.Function.Name, arguments}}
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

// chatSupported refuses what would have to be ignored in silence.
func chatSupported(req *gen.ChatRequest) error {
	none := func(v any) bool { s, ok := v.(string); return v == nil || ok && (s == "none" || s == "auto") }
	switch {
	case !none(req.ToolChoice):
		return unsupported("tool_choice", "tool_choice is not supported")
	case len(req.Functions) > 0 && req.FunctionCall != "none":
		return unsupported("functions", "functions are not supported")
	case !none(req.FunctionCall):
		return unsupported("function_call", "function_call is not supported")
	case req.ResponseFormat != nil && req.ResponseFormat.Type != "text":
		return unsupported("response_format", "response_format %q is not supported: only text is", clip(req.ResponseFormat.Type))
	}
	for _, m := range req.Modalities {
		if m != "text" {
			return unsupported("modalities", "the modality %q is not supported: only text is", clip(m))
		}
	}
	return nil
}

// chat shapes answers of the chat route.
type chat struct {
	envelope
	engine     Engine
	turns      []turn
	completion int    // tokens of all choices
	told       []bool // by choice: some of it was streamed
}

func (c *chat) whole(results []client.Result) any {
	out := gen.ChatCompletion{
		Id: c.id, Object: gen.ChatCompletionObjectChatCompletion, Created: c.created, Model: c.model, SystemFingerprint: c.fingerprint,
		Choices: []gen.ChatChoice{},
	}
	for i, r := range results {
		c.completion += len(r.IDs)
		choice := gen.ChatChoice{
			Index: i, Message: gen.ChatAnswer{Role: gen.ChatAnswerRoleAssistant, Content: r.Text}, FinishReason: finishReason(r.Finish),
			Logprobs: chatLogprobs(c.engine, r.Logprobs, true), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.tokenIDs(c.turns[i].req.Prompt),
		}
		out.Choices = append(out.Choices, choice)
	}
	out.Usage = usageOf(c.turns, len(c.turns), c.completion)
	return out
}

func (c *chat) chunk(choices ...gen.ChatChunkChoice) gen.ChatChunk {
	if choices == nil {
		choices = []gen.ChatChunkChoice{}
	}
	return gen.ChatChunk{
		Id: c.id, Object: gen.ChatChunkObjectChatCompletionChunk, Created: c.created, Model: c.model, SystemFingerprint: c.fingerprint, Choices: choices,
	}
}

func (c *chat) begin() []any {
	var out []any
	for i := range c.turns {
		role, empty := gen.ChatDeltaRoleAssistant, ""
		out = append(out, c.chunk(gen.ChatChunkChoice{Index: i, Delta: gen.ChatDelta{Role: &role, Content: &empty}}))
	}
	return out
}

func (c *chat) delta(index int, d client.Delta) any {
	if d.Text == "" && !c.ids && d.Logprobs == nil {
		return nil
	}
	lps := chatLogprobs(c.engine, d.Logprobs, !c.told[index])
	c.told[index] = true
	return c.chunk(gen.ChatChunkChoice{Index: index, Delta: gen.ChatDelta{Content: &d.Text}, Logprobs: lps, TokenIds: c.tokenIDs(d.IDs)})
}

func (c *chat) finish(index int, r client.Result) any {
	c.completion += len(r.IDs)
	reason := gen.ChatChunkChoiceFinishReason(finishReason(r.Finish))
	return c.chunk(gen.ChatChunkChoice{Index: index, FinishReason: &reason})
}

func (c *chat) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.chunk(), usageOf(c.turns, len(c.turns), c.completion)
	out.Usage = &usage
	return []any{out}
}
