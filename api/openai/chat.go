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
	o := defaultOptions(params.XRequestTimeout, params.XWhorlVerify)
	if err := a.ReadJSON(w, r, "ChatRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	ask, err := a.chatAsk(&req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, &o, ask, newChat(newEnvelope("chatcmpl-", &ask, &o)))
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
	answers []chatAnswer // by choice
}

// chatAnswer is how far an answer was streamed.
type chatAnswer struct {
	api.Splitter
	told bool // some of it was
}

func newChat(e envelope) *chat {
	c := &chat{e, make([]chatAnswer, e.choices())}
	for i := range c.answers {
		c.answers[i].Splitter = api.NewSplitter(e.engine, e.prompts[i/e.n])
	}
	return c
}

// count notes what an answer used.
func (c *chat) count(index int, ids []int32) {
	c.tokens += len(ids)
	c.thoughts += api.ThoughtTokens(c.engine, c.prompts[index/c.n], ids)
}

func (c *chat) whole(results []client.Result) any {
	out := gen.ChatCompletion{
		Id: c.id, Object: gen.ChatCompletionObjectChatCompletion, Created: c.created, Model: c.model, SystemFingerprint: c.fingerprint,
		Choices: []gen.ChatChoice{},
	}
	for i, r := range results {
		c.count(i, r.IDs)
		split := c.answers[i].Splitter
		thought, said := split.Push(r.Text)
		restThought, restSaid := split.Flush()
		message := gen.ChatAnswer{Role: gen.ChatAnswerRoleAssistant, Content: said + restSaid}
		if thought += restThought; thought != "" {
			message.ReasoningContent = &thought
		}
		out.Choices = append(out.Choices, gen.ChatChoice{
			Index: i, Message: message, FinishReason: finishReason(r.Finish),
			Logprobs: chatLogprobs(c.engine, r.Logprobs, true), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.promptIDs(i),
		})
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
	answer := &c.answers[index]
	thought, said := answer.Push(d.Text)
	return c.piece(index, thought, said, d)
}

// piece is a chunk of an answer's text and ids; nil if there is nothing to tell.
func (c *chat) piece(index int, thought, said string, d client.Delta) any {
	if thought == "" && said == "" && !c.ids && d.Logprobs == nil {
		return nil
	}
	answer := &c.answers[index]
	delta := gen.ChatDelta{}
	if thought != "" {
		delta.ReasoningContent = &thought
	}
	if said != "" || thought == "" {
		delta.Content = &said
	}
	lps := chatLogprobs(c.engine, d.Logprobs, !answer.told)
	answer.told = true
	return c.chunk(gen.ChatChunkChoice{Index: index, Delta: delta, Logprobs: lps, TokenIds: c.tokenIDs(d.IDs)})
}

func (c *chat) finish(index int, r client.Result) []any {
	c.count(index, r.IDs)
	reason := gen.ChatChunkChoiceFinishReason(finishReason(r.Finish))
	end := c.chunk(gen.ChatChunkChoice{Index: index, FinishReason: &reason})
	if thought, said := c.answers[index].Flush(); thought != "" || said != "" { // what was held back
		return []any{c.piece(index, thought, said, client.Delta{}), end}
	}
	return []any{end}
}

func (c *chat) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.chunk(), c.sum()
	out.Usage = &usage
	return []any{out}
}
