package api

import (
	"context"
	"net/http"

	"whorl/api/gen"
	"whorl/client"
)

// completionTokens is how many tokens a completion has if the request does not say: the
// default of the API this route follows.
const completionTokens = 16

// CreateCompletion continues a text.
func (a *API) CreateCompletion(w http.ResponseWriter, r *http.Request, params gen.CreateCompletionParams) {
	var req gen.CompletionRequest
	o := defaultOptions(params.XRequestTimeout)
	if err := a.readJSON(w, r, "CompletionRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	e, turns, err := a.completionTurns(r.Context(), &req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, &o, turns, &completion{envelope: newEnvelope("cmpl-", e.Model(), &o), engine: e, turns: turns, n: o.N})
}

// completionTurns checks a request and makes its choices.
func (a *API) completionTurns(ctx context.Context, req *gen.CompletionRequest, o *options) (Engine, []turn, error) {
	n := o.N
	switch {
	case value(req.Echo, false):
		return nil, nil, unsupported("echo", "echo is not supported")
	case value(req.Suffix, "") != "":
		return nil, nil, unsupported("suffix", "suffix is not supported")
	case value(req.BestOf, n) != n:
		return nil, nil, unsupported("best_of", "best_of is not supported beside n")
	}
	e, err := a.engine(o.Model)
	if err != nil {
		return nil, nil, err
	}
	base, err := o.request()
	if err != nil {
		return nil, nil, err
	}
	if req.Logprobs != nil {
		base.TopLogprobs = *req.Logprobs
	}
	if err := a.finishSampling(e, &base, o.BadWords); err != nil {
		return nil, nil, fieldError(err, openAINames)
	}
	if count := max(len(req.Prompt.Texts), len(req.Prompt.IDs)); count*n > a.limits.Choices { // before the work of encoding
		return nil, nil, unsupported("prompt", "%d answers are asked for: this gateway gives at most %d in one request", count*n, a.limits.Choices)
	}
	prompts := req.Prompt.IDs
	for _, text := range req.Prompt.Texts {
		ids, err := e.Encode(text, true)
		if err != nil {
			return nil, nil, encodeError(e, "prompt", err)
		}
		prompts = append(prompts, ids)
	}
	room, longest := e.Room(ctx, client.SessionOptions{Beams: base.Beams.Beams}), 0
	for _, p := range prompts {
		longest = max(longest, len(p))
	}
	if base.MaxNewTokens = o.limit(); base.MaxNewTokens == 0 {
		base.MaxNewTokens = max(1, min(completionTokens, room-longest))
	}
	for _, p := range prompts {
		if err := checkPrompt(e, room, "prompt", p, base.MaxNewTokens); err != nil {
			return nil, nil, err
		}
	}
	turns, err := a.turns(e, base, prompts, n)
	return e, turns, err
}

// completion shapes answers of the completions route.
type completion struct {
	envelope
	engine     Engine
	turns      []turn
	n          int // choices of one prompt
	completion int // tokens of all choices
}

func (c *completion) object(choices ...gen.CompletionChoice) gen.Completion {
	if choices == nil {
		choices = []gen.CompletionChoice{}
	}
	return gen.Completion{
		Id: c.id, Object: gen.CompletionObjectTextCompletion, Created: c.created, Model: c.model, SystemFingerprint: c.fingerprint, Choices: choices,
	}
}

func (c *completion) whole(results []client.Result) any {
	var choices []gen.CompletionChoice
	for i, r := range results {
		c.completion += len(r.IDs)
		reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
		choices = append(choices, gen.CompletionChoice{
			Index: i, Text: r.Text, FinishReason: &reason, Logprobs: completionLogprobs(c.engine, r.Logprobs), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.tokenIDs(c.turns[i].req.Prompt),
		})
	}
	out, usage := c.object(choices...), usageOf(c.turns, c.n, c.completion)
	out.Usage = &usage
	return out
}

func (c *completion) begin() []any { return nil }

func (c *completion) delta(index int, d client.Delta) any {
	if d.Text == "" && !c.ids && d.Logprobs == nil {
		return nil
	}
	return c.object(gen.CompletionChoice{Index: index, Text: d.Text, Logprobs: completionLogprobs(c.engine, d.Logprobs), TokenIds: c.tokenIDs(d.IDs)})
}

func (c *completion) finish(index int, r client.Result) any {
	c.completion += len(r.IDs)
	reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
	return c.object(gen.CompletionChoice{Index: index, FinishReason: &reason})
}

func (c *completion) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.object(), usageOf(c.turns, c.n, c.completion)
	out.Usage = &usage
	return []any{out}
}
