package openai

import (
	"encoding/json"
	"maps"
	"net/http"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// CreateChatCompletion answers a conversation.
func (a Dialect) CreateChatCompletion(w http.ResponseWriter, r *http.Request, params gen.CreateChatCompletionParams) {
	var req gen.ChatRequest
	o := defaultOptions(params.XRequestTimeout)
	if err := a.ReadJSON(w, r, "ChatRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	ask, err := a.chatAsk(&req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	c := &chat{envelope: newEnvelope("chatcmpl-", &ask, &o)}
	c.told = make([]bool, c.choices())
	a.answer(w, r, &o, ask, c)
}

// chatAsk reads what a request asks for.
func (a Dialect) chatAsk(req *gen.ChatRequest, o *options) (api.Ask, error) {
	if err := chatSupported(req); err != nil {
		return api.Ask{}, err
	}
	e, err := a.Engine(o.Model)
	if err != nil {
		return api.Ask{}, err
	}
	ask, err := o.ask(e)
	if err != nil {
		return ask, err
	}
	ask.Param, ask.Default = "messages", a.Limits.AnswerTokens
	if api.Value(req.Logprobs, false) {
		ask.Request.TopLogprobs = api.Value(req.TopLogprobs, 0)
	} else if api.Value(req.TopLogprobs, 0) > 0 {
		return ask, api.Invalid("top_logprobs", "top_logprobs needs logprobs: true")
	}
	ids, err := chatPrompt(e, req)
	ask.Prompts = [][]int32{ids}
	return ask, err
}

// chatPrompt puts a conversation through the model's template.
func chatPrompt(e api.Engine, req *gen.ChatRequest) ([]int32, error) {
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
		extras.Tools = tools(req.Tools)
	}
	return api.EncodeMessages(e, req.Messages, extras)
}

// tools are the tools of a request, nil for none: templates tell an empty list from that.
func tools(given json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(given, &list) != nil || len(list) == 0 {
		return nil
	}
	return given
}

// chatSupported refuses what would have to be ignored in silence.
func chatSupported(req *gen.ChatRequest) error {
	none := func(v any) bool { s, ok := v.(string); return v == nil || ok && (s == "none" || s == "auto") }
	switch {
	case !none(req.ToolChoice):
		return api.Unsupported("tool_choice", "tool_choice is not supported")
	case len(req.Functions) > 0 && req.FunctionCall != "none":
		return api.Unsupported("functions", "functions are not supported")
	case !none(req.FunctionCall):
		return api.Unsupported("function_call", "function_call is not supported")
	case req.ResponseFormat != nil && req.ResponseFormat.Type != "text":
		return api.Unsupported("response_format", "response_format %q is not supported: only text is", api.Clip(req.ResponseFormat.Type))
	}
	for _, m := range req.Modalities {
		if m != "text" {
			return api.Unsupported("modalities", "the modality %q is not supported: only text is", api.Clip(m))
		}
	}
	return nil
}

// chat shapes answers of the chat route.
type chat struct {
	envelope
	told []bool // by choice: some of it was streamed
}

func (c *chat) whole(results []client.Result) any {
	out := gen.ChatCompletion{
		Id: c.id, Object: gen.ChatCompletionObjectChatCompletion, Created: c.created, Model: c.model, SystemFingerprint: c.fingerprint,
		Choices: []gen.ChatChoice{},
	}
	for i, r := range results {
		c.tokens += len(r.IDs)
		choice := gen.ChatChoice{
			Index: i, Message: gen.ChatAnswer{Role: gen.ChatAnswerRoleAssistant, Content: r.Text}, FinishReason: finishReason(r.Finish),
			Logprobs: chatLogprobs(c.engine, r.Logprobs, true), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.promptIDs(i),
		}
		out.Choices = append(out.Choices, choice)
	}
	out.Usage = c.sum()
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
	for i := range c.choices() {
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
	c.tokens += len(r.IDs)
	reason := gen.ChatChunkChoiceFinishReason(finishReason(r.Finish))
	return c.chunk(gen.ChatChunkChoice{Index: index, FinishReason: &reason})
}

func (c *chat) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.chunk(), c.sum()
	out.Usage = &usage
	return []any{out}
}
