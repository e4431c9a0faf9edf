package openai

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"unicode/utf8"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// completionTokens is how many tokens a completion has if the request does not say: the
// default of the API this route follows.
const completionTokens = 16

// maxScored is how many tokens of prompts one request may have log-probabilities of.
const maxScored = 1 << 16

// CreateCompletion continues a text.
func (a Dialect) CreateCompletion(w http.ResponseWriter, r *http.Request, params gen.CreateCompletionParams) {
	var req gen.CompletionRequest
	o := defaultOptions(params.XRequestTimeout, params.XWhorlVerify)
	if err := a.ReadJSON(w, r, "CompletionRequest", &req, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	ask, err := a.completionAsk(r.Context(), &req, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	c := &completion{envelope: newEnvelope("cmpl-", &ask, &o), made: ask.Answers, measured: req.Logprobs != nil}
	c.n = o.N
	c.behind = make([]int, c.choices())
	a.answer(w, r, &o, ask, c)
}

// completionAsk reads what a request asks for.
func (a Dialect) completionAsk(ctx context.Context, req *gen.CompletionRequest, o *options) (api.Ask, error) {
	switch {
	case api.Value(req.Suffix, "") != "":
		return api.Ask{}, api.Unsupported("suffix", "suffix is not supported")
	case api.Value(req.BestOf, o.N) < o.N:
		return api.Ask{}, api.Invalid("best_of", "best_of is %d: want n, which is %d, or more", *req.BestOf, o.N)
	case api.Value(req.BestOf, o.N) > o.N && (o.Stream || o.Beams > 1):
		return api.Ask{}, api.Unsupported("best_of", "best_of is more than n: that is not supported with stream or num_beams")
	}
	form, err := o.guide.with(nil)
	if err != nil {
		return api.Ask{}, err
	}
	e, err := a.Engine(ctx, o.Model)
	if err != nil {
		return api.Ask{}, err
	}
	ask, err := o.ask(e)
	if err != nil {
		return ask, err
	}
	if ask.Request.Grammar, err = api.Compile(e, form); err != nil {
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
	if ask.Answers = api.Value(req.BestOf, o.N); ask.Answers > o.N {
		ask.Request.TopLogprobs = max(0, ask.Request.TopLogprobs) // the likeliest are looked for
	}
	ask.Request.Echo = api.Value(req.Echo, false)
	scored := 0
	for _, p := range ask.Prompts {
		scored += len(p) * o.N
	}
	if ask.Request.Echo && req.Logprobs != nil && scored > maxScored {
		return ask, api.Unsupported("logprobs", "logprobs of %d tokens of prompts are asked for: one request may have %d", scored, maxScored)
	}
	return ask, nil
}

// completion shapes answers of the completions route.
type completion struct {
	envelope
	made     int   // answers to each prompt, of which n are given
	measured bool  // log-probabilities are asked for
	behind   []int // by choice: characters of the prompt, where it was echoed
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
	for _, r := range results {
		c.tokens += len(r.IDs)
	}
	for i, r := range c.best(results) {
		reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
		lps, text := completionLogprobs{e: c.engine}, r.Text
		if r.Echo != nil {
			lps.add(r.Echo.Logprobs, 0, true)
			c.behind[i], text = utf8.RuneCountInString(r.Echo.Text), r.Echo.Text+text
		}
		lps.add(r.Logprobs, c.behind[i], false)
		choices = append(choices, gen.CompletionChoice{
			Index: i, Text: text, FinishReason: &reason, Logprobs: lps.CompletionLogprobs, TokenIds: c.tokenIDs(r.IDs), PromptTokenIds: c.promptIDs(i),
		})
	}
	out, usage := c.object(choices...), c.sum()
	out.Usage = &usage
	return out
}

// best are the likeliest answers to each prompt, by the mean of their tokens.
func (c *completion) best(results []client.Result) []client.Result {
	if c.made == c.n {
		return results
	}
	mean := func(r client.Result) (sum float64) {
		for _, lp := range r.Logprobs {
			sum += lp.Logprob
		}
		return sum / float64(max(1, len(r.Logprobs)))
	}
	var out []client.Result
	for i := 0; i < len(results); i += c.made {
		of := slices.Clone(results[i : i+c.made])
		slices.SortStableFunc(of, func(a, b client.Result) int { return cmp.Compare(mean(b), mean(a)) })
		out = append(out, of[:c.n]...)
	}
	if !c.measured {
		for i := range out {
			out[i].Logprobs = nil
			if e := out[i].Echo; e != nil {
				out[i].Echo = &client.Echo{Text: e.Text}
			}
		}
	}
	return out
}

func (c *completion) begin() []any { return nil }

func (c *completion) delta(index int, d client.Delta) []any {
	if d.Text == "" && !c.ids && d.Logprobs == nil {
		return nil
	}
	lps := completionLogprobs{e: c.engine}
	lps.add(d.Logprobs, c.behind[index], d.Echo)
	if d.Echo {
		c.behind[index] = utf8.RuneCountInString(d.Text)
	}
	return []any{c.object(gen.CompletionChoice{Index: index, Text: d.Text, Logprobs: lps.CompletionLogprobs, TokenIds: c.tokenIDs(d.IDs)})}
}

func (c *completion) finish(index int, r client.Result) []any {
	c.tokens += len(r.IDs)
	reason := gen.CompletionChoiceFinishReason(finishReason(r.Finish))
	return []any{c.object(gen.CompletionChoice{Index: index, FinishReason: &reason})}
}

func (c *completion) end() []any {
	if !c.usage {
		return nil
	}
	out, usage := c.object(), c.sum()
	out.Usage = &usage
	return []any{out}
}
