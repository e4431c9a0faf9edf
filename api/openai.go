package api

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
)

// options are the fields that both OpenAI routes have.
type options struct {
	model                               *string
	maxTokens, maxCompletion, n         *int
	stop                                *gen.Stop
	temperature, topP, minP, repetition *float64
	topK                                *int
	seed                                *int64
	presence, frequency                 *float64
	bias                                map[string]float64
	typicalP, lengthPenalty             *float64
	ngram, minTokens, beams             *int
	badWords                            []string
	early                               *any
	ignoreEOS, stream, returnIDs        *bool
	streamOptions                       *gen.StreamOptions
	timeout                             *float64
	timeoutHeader                       *string
}

// request makes the part of a client's request that is the same for all choices. The
// contract has checked the ranges.
func (o *options) request() (client.Request, error) {
	r := client.Request{IgnoreEOS: value(o.ignoreEOS, false), TopLogprobs: -1}
	temperature := 1.0
	if value(o.beams, 1) > 1 {
		temperature = 0
		r.Beams = sample.BeamParams{Beams: *o.beams, LengthPenalty: value(o.lengthPenalty, 1), Return: value(o.n, 1)}
	}
	r.Sampling = sample.Params{
		Temperature: value(o.temperature, temperature), TopK: max(0, value(o.topK, 0)), TopP: value(o.topP, 1), MinP: value(o.minP, 0),
		TypicalP: value(o.typicalP, 1), RepetitionPenalty: value(o.repetition, 1), PresencePenalty: value(o.presence, 0),
		FrequencyPenalty: value(o.frequency, 0), NoRepeatNGram: value(o.ngram, 0), MinNewTokens: value(o.minTokens, 0), Seed: seedOr(o.seed),
	}
	var err error
	if r.Sampling.Bias, err = biases(o.bias); err != nil {
		return r, err
	}
	if r.Beams.Early, err = early(value(o.early, nil)); err != nil {
		return r, err
	}
	if o.topP != nil && *o.topP == 0 { // the sampler's 0 means all; here it means the best alone
		r.Sampling.TopK, r.Sampling.TopP = 1, 1
	}
	if o.stop != nil {
		for _, s := range *o.stop {
			if s == "" {
				return client.Request{}, invalid("stop", "stop holds an empty text")
			}
			r.Stop = append(r.Stop, s)
		}
	}
	return r, nil
}

// limit is the number of tokens asked for; 0 if the request does not say.
func (o *options) limit() int { return value(o.maxCompletion, value(o.maxTokens, 0)) }

// turns makes n choices of each prompt. Choices of one prompt differ by their seed, or are
// the answers of one beam search, which the first of them makes.
func (a *API) turns(e Engine, req client.Request, prompts [][]int32, n int) ([]turn, error) {
	if n*len(prompts) > a.limits.Choices {
		return nil, unsupported("n", "%d answers are asked for: this gateway gives at most %d in one request", n*len(prompts), a.limits.Choices)
	}
	var out []turn
	for _, p := range prompts {
		for i := range n {
			t := turn{index: len(out), answers: 1, engine: e, req: req}
			if req.Beams.Beams > 1 {
				if t.answers = n; i > 0 {
					t.answers = 0
				}
			}
			t.req.Prompt = p
			t.req.Sampling.Seed += uint64(i)
			out = append(out, t)
		}
	}
	return out, nil
}

// withDeadline bounds a request by what it asks for.
func (a *API) withDeadline(r *http.Request, seconds *float64, header *string) (context.Context, context.CancelFunc, error) {
	d, err := a.deadline(seconds, header)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, nil
}

// envelope is what all objects of one answer share.
type envelope struct {
	id, model, fingerprint string
	created                int64
	ids                    bool // return_token_ids
	usage                  bool // include_usage
}

func newEnvelope(prefix string, m client.Model, o *options) envelope {
	return envelope{
		id: prefix + randomHex(12), model: m.Name, fingerprint: fingerprint(m), created: time.Now().Unix(),
		ids: value(o.returnIDs, false), usage: o.streamOptions != nil && value(o.streamOptions.IncludeUsage, false),
	}
}

func (e *envelope) tokenIDs(ids []int32) []int32 {
	if !e.ids {
		return nil
	}
	return ids
}

func finishReason(f client.Finish) gen.FinishReason {
	if f == client.FinishLength {
		return gen.FinishReasonLength
	}
	return gen.FinishReasonStop
}

// usageOf sums up an answer. A prompt that several choices share counts once.
func usageOf(turns []turn, n int, completion int) gen.Usage {
	prompt := 0
	for i := 0; i < len(turns); i += n {
		prompt += len(turns[i].req.Prompt)
	}
	return gen.Usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion}
}

// chatLogprobs is the chat form of log-probabilities, nil if there are none.
func chatLogprobs(e Engine, lps []sample.Logprob) *gen.ChatLogprobs {
	if lps == nil {
		return nil
	}
	out := &gen.ChatLogprobs{Content: []gen.TokenLogprob{}}
	for _, lp := range lps {
		t := tokenLogprob(e, lp.ID, lp.Logprob)
		t.TopLogprobs = []gen.TokenLogprob{}
		for _, alt := range lp.Top {
			t.TopLogprobs = append(t.TopLogprobs, tokenLogprob(e, alt.ID, alt.Logprob))
		}
		out.Content = append(out.Content, t)
	}
	return out
}

func tokenLogprob(e Engine, id int32, lp float64) gen.TokenLogprob {
	t := gen.TokenLogprob{Token: e.TokenText(id), Logprob: lp}
	if !strings.ContainsRune(t.Token, utf8.RuneError) {
		t.Bytes = []int{}
		for _, b := range []byte(t.Token) {
			t.Bytes = append(t.Bytes, int(b))
		}
	}
	return t
}

// completionLogprobs is the form of completions, nil if there are none. offset is where
// the first token stands in the text, in characters.
func completionLogprobs(e Engine, lps []sample.Logprob, offset int) (*gen.CompletionLogprobs, int) {
	if lps == nil {
		return nil, offset
	}
	out := &gen.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []float64{}, TopLogprobs: []map[string]float64{}, TextOffset: []int{}}
	for _, lp := range lps {
		text, top := e.TokenText(lp.ID), map[string]float64{}
		for _, alt := range lp.Top {
			s := e.TokenText(alt.ID)
			if _, twice := top[s]; !twice { // of ids that look alike the likelier stays
				top[s] = alt.Logprob
			}
		}
		out.Tokens = append(out.Tokens, text)
		out.TokenLogprobs = append(out.TokenLogprobs, lp.Logprob)
		out.TopLogprobs = append(out.TopLogprobs, top)
		out.TextOffset = append(out.TextOffset, offset)
		offset += utf8.RuneCountInString(text)
	}
	return out, offset
}
