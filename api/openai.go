package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
)

// options are the fields that both OpenAI routes have, decoded beside those that one of them
// has alone, over defaultOptions.
type options struct {
	sample.Asked
	Temperature         *float64           `json:"temperature"` // its default depends on num_beams
	MinTokens           *int               `json:"min_tokens"`  // min_new_tokens by another name
	Model               string             `json:"model"`
	MaxTokens           int                `json:"max_tokens"` // 0: not said
	MaxCompletionTokens int                `json:"max_completion_tokens"`
	N                   int                `json:"n"`
	Stream              bool               `json:"stream"`
	StreamOptions       gen.StreamOptions  `json:"stream_options"`
	Stop                gen.Stop           `json:"stop"`
	Seed                *int64             `json:"seed"`
	LogitBias           map[string]float64 `json:"logit_bias"`
	BadWords            []string           `json:"bad_words"`
	IgnoreEOS           bool               `json:"ignore_eos"`
	ReturnTokenIDs      bool               `json:"return_token_ids"`
	Timeout             *float64           `json:"timeout"` // seconds

	timeoutHeader *string
}

func defaultOptions(timeoutHeader *string) options {
	return options{Asked: sample.DefaultAsked(), N: 1, timeoutHeader: timeoutHeader}
}

// request makes the part of a client's request that is the same for all choices.
func (o *options) request() (client.Request, error) {
	r := client.Request{IgnoreEOS: o.IgnoreEOS, TopLogprobs: -1, Stop: o.Stop}
	if slices.Contains(o.Stop, "") {
		return r, invalid("stop", "stop holds an empty text")
	}
	asked := o.Asked
	if asked.Beams > 1 {
		asked.Params.Temperature, asked.Return = 0, o.N
	}
	asked.Params.Temperature = value(o.Temperature, asked.Params.Temperature)
	asked.MinNewTokens = value(o.MinTokens, asked.MinNewTokens)
	var err error
	if r.Sampling, r.Beams, err = asked.Settle(); err != nil {
		return r, fieldError(err, openAINames)
	}
	r.Sampling.Seed = seedOr(o.Seed)
	r.Sampling.Bias, err = biases(o.LogitBias)
	return r, err
}

// limit is the number of tokens asked for; 0 if the request does not say.
func (o *options) limit() int { return cmp.Or(o.MaxCompletionTokens, o.MaxTokens) }

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
		ids: o.ReturnTokenIDs, usage: value(o.StreamOptions.IncludeUsage, false),
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
