package openai

import (
	"context"
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
	q, err := a.chatAsk(r.Context(), &req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, &o, q.Ask, newChat(newEnvelope("chatcmpl-", &q.Ask, &o), q))
}

// chatAsk is a request for answers to a conversation.
type chatAsk struct {
	api.Ask
	talk *api.Talk
	old  bool // calls are of functions, not tools
}

// chatAsk reads what a request asks for.
func (a Dialect) chatAsk(ctx context.Context, req *gen.ChatRequest, o *options) (q chatAsk, err error) {
	for _, m := range req.Modalities {
		if m != "text" {
			return q, api.Unsupported("modalities", "the modality %q is not supported: only text is", api.Clip(m))
		}
	}
	tools, err := offered(req)
	if err != nil {
		return q, err
	}
	form, err := formOf(req.ResponseFormat)
	if err != nil {
		return q, err
	}
	if form, err = o.guide.with(form); err != nil {
		return q, err
	}
	e, err := a.Engine(ctx, o.Model)
	if err != nil {
		return q, err
	}
	if q.Ask, err = o.ask(e); err != nil {
		return q, err
	}
	q.old, q.Param, q.Default = tools.old, "messages", a.Limits.AnswerTokens
	if api.Value(req.Logprobs, false) {
		q.Request.TopLogprobs = api.Value(req.TopLogprobs, 0)
	} else if api.Value(req.TopLogprobs, 0) > 0 {
		return q, api.Invalid("top_logprobs", "top_logprobs needs logprobs: true")
	}
	if q.talk, err = a.Converse(e, req.Messages, chatExtras(req), tools.Tools, form); err != nil {
		return q, err
	}
	q.talk.Put(&q.Ask)
	return q, nil
}

// chatExtras are what a template is given beside the conversation and the tools.
func chatExtras(req *gen.ChatRequest) client.ChatExtras {
	extras := client.ChatExtras{Vars: req.ChatTemplateKwargs}
	if req.ReasoningEffort != nil {
		if extras.Vars = maps.Clone(extras.Vars); extras.Vars == nil {
			extras.Vars = gen.Variables{}
		}
		if extras.Vars["reasoning_effort"] == nil {
			extras.Vars["reasoning_effort"], _ = json.Marshal(*req.ReasoningEffort)
		}
	}
	return extras
}

// chat shapes answers of the chat route.
type chat struct {
	envelope
	old     bool         // calls are of functions
	answers []chatAnswer // by choice
}

// chatAnswer is how far an answer was streamed.
type chatAnswer struct {
	*api.Reader
	told bool // some of it was
}

func newChat(e envelope, q chatAsk) *chat {
	c := &chat{e, q.old, make([]chatAnswer, e.choices())}
	for i := range c.answers {
		c.answers[i].Reader = q.talk.Reader()
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
		out.Choices = append(out.Choices, gen.ChatChoice{
			Index: i, Message: c.message(c.answers[i].Whole(r.Text)), FinishReason: c.reason(i, r.Finish),
			Logprobs: chatLogprobs(c.engine, r.Logprobs, true), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.promptIDs(i),
		})
	}
	out.Usage = c.sum()
	return out
}

// message is a whole answer.
func (c *chat) message(said api.Said) gen.ChatAnswer {
	out := gen.ChatAnswer{Role: gen.ChatAnswerRoleAssistant, Content: &said.Text}
	if said.Thought != "" {
		out.ReasoningContent = &said.Thought
	}
	if len(said.Calls) > 0 && said.Text == "" {
		out.Content = nil
	}
	for _, call := range said.Calls {
		f := gen.MadeFunctionCall{Name: call.Name, Arguments: call.Arguments}
		if c.old { // one at most
			if out.FunctionCall == nil {
				out.FunctionCall = &f
			}
			continue
		}
		out.ToolCalls = append(out.ToolCalls, gen.MadeCall{Id: call.ID, Type: gen.MadeCallTypeFunction, Function: f})
	}
	return out
}

// reason is why an answer ended, once it was read.
func (c *chat) reason(index int, f client.Finish) gen.FinishReason {
	switch {
	case f == client.FinishLength || c.answers[index].Calls() == 0:
		return finishReason(f)
	case c.old:
		return gen.FinishReasonFunctionCall
	}
	return gen.FinishReasonToolCalls
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

func (c *chat) delta(index int, d client.Delta) []any {
	return c.pieces(index, c.answers[index].Push(d.Text), d)
}

// pieces are the chunks of an answer's parts; the first one has what is known of its ids, and
// stands alone where there are no parts but something is to be told.
func (c *chat) pieces(index int, parts []api.Part, d client.Delta) (out []any) {
	if len(parts) == 0 {
		if !c.ids && d.Logprobs == nil {
			return nil
		}
		parts = []api.Part{{}}
	}
	answer := &c.answers[index]
	for i, p := range parts {
		choice := gen.ChatChunkChoice{Index: index, Delta: c.piece(p)}
		if i == 0 {
			choice.Logprobs = chatLogprobs(c.engine, d.Logprobs, !answer.told)
			choice.TokenIds = c.tokenIDs(d.IDs)
		}
		answer.told = true
		if p.Call != nil && c.old && p.Call.Index > 0 && choice.Logprobs == nil && choice.TokenIds == nil {
			continue // there was one already
		}
		out = append(out, c.chunk(choice))
	}
	return out
}

// piece is a part as a delta.
func (c *chat) piece(p api.Part) gen.ChatDelta {
	switch {
	case p.Call == nil && p.Thought != "":
		return gen.ChatDelta{ReasoningContent: &p.Thought}
	case p.Call == nil:
		return gen.ChatDelta{Content: &p.Text}
	}
	f := gen.FunctionPiece{Arguments: &p.Call.Arguments}
	if p.Call.Name != "" {
		f.Name = &p.Call.Name
	}
	if c.old {
		if p.Call.Index > 0 {
			return gen.ChatDelta{}
		}
		return gen.ChatDelta{FunctionCall: &f}
	}
	call := gen.CallPiece{Index: p.Call.Index, Function: f}
	if p.Call.ID != "" {
		kind := gen.CallPieceTypeFunction
		call.Id, call.Type = &p.Call.ID, &kind
	}
	return gen.ChatDelta{ToolCalls: []gen.CallPiece{call}}
}

func (c *chat) finish(index int, r client.Result) []any {
	c.count(index, r.IDs)
	var out []any
	if rest := c.answers[index].Flush(); len(rest) > 0 {
		out = c.pieces(index, rest, client.Delta{})
	}
	reason := gen.ChatChunkChoiceFinishReason(c.reason(index, r.Finish))
	return append(out, c.chunk(gen.ChatChunkChoice{Index: index, FinishReason: &reason}))
}

func (c *chat) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.chunk(), c.sum()
	out.Usage = &usage
	return []any{out}
}
