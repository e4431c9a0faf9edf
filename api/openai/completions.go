package openai

import (
	"net/http"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// completionTokens is how many tokens a completion has if the request does not say: the
// default of the API this route follows.
const completionTokens = 16

// CreateCompletion continues a text.
func (a Dialect) CreateCompletion(w http.ResponseWriter, r *http.Request, params gen.CreateCompletionParams) {
	var req gen.CompletionRequest
	o := defaultOptions(params.XRequestTimeout)
	if err := a.ReadJSON(w, r, "CompletionRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	ask, err := a.completionAsk(&req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, &o, ask, &completion{newEnvelope("cmpl-", &ask, &o)})
}

// completionAsk reads what a request asks for.
func (a Dialect) completionAsk(req *gen.CompletionRequest, o *options) (api.Ask, error) {
	switch {
	case api.Value(req.Echo, false):
		return api.Ask{}, api.Unsupported("echo", "echo is not supported")
	case api.Value(req.Suffix, "") != "":
		return api.Ask{}, api.Unsupported("suffix", "suffix is not supported")
	case api.Value(req.BestOf, o.N) != o.N:
		return api.Ask{}, api.Unsupported("best_of", "best_of is not supported beside n")
	}
	e, err := a.Engine(o.Model)
	if err != nil {
		return api.Ask{}, err
	}
	ask, err := o.ask(e)
	if err != nil {
		return ask, err
	}
	ask.Param, ask.Default, ask.Request.TopLogprobs = "prompt", completionTokens, api.Value(req.Logprobs, -1)
	ask.Prompts = req.Prompt.IDs
	for _, text := range req.Prompt.Texts {
		ids, err := e.Encode(text, true)
		if err != nil {
			return ask, api.EncodeError(e, "prompt", err)
		}
		ask.Prompts = append(ask.Prompts, ids)
	}
	return ask, nil
}

// completion shapes answers of the completions route.
type completion struct{ envelope }

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
		c.tokens += len(r.IDs)
		reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
		choices = append(choices, gen.CompletionChoice{
			Index: i, Text: r.Text, FinishReason: &reason, Logprobs: completionLogprobs(c.engine, r.Logprobs), TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.promptIDs(i),
		})
	}
	out, usage := c.object(choices...), c.sum()
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
	c.tokens += len(r.IDs)
	reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
	return c.object(gen.CompletionChoice{Index: index, FinishReason: &reason})
}

func (c *completion) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.object(), c.sum()
	out.Usage = &usage
	return []any{out}
}
