package api

import (
	"context"
	"net/http"
	"time"

	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
)

// options are the fields that both OpenAI routes have, decoded beside those that one of them
// has alone. A nil field is absent.
type options struct {
	Model               *string            `json:"model"`
	MaxTokens           *int               `json:"max_tokens"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
	N                   *int               `json:"n"`
	Stream              *bool              `json:"stream"`
	StreamOptions       *gen.StreamOptions `json:"stream_options"`
	Stop                *gen.Stop          `json:"stop"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	TopK                *int               `json:"top_k"`
	MinP                *float64           `json:"min_p"`
	TypicalP            *float64           `json:"typical_p"`
	Seed                *int64             `json:"seed"`
	RepetitionPenalty   *float64           `json:"repetition_penalty"`
	PresencePenalty     *float64           `json:"presence_penalty"`
	FrequencyPenalty    *float64           `json:"frequency_penalty"`
	LogitBias           map[string]float64 `json:"logit_bias"`
	NoRepeatNgramSize   *int               `json:"no_repeat_ngram_size"`
	MinTokens           *int               `json:"min_tokens"`
	BadWords            []string           `json:"bad_words"`
	NumBeams            *int               `json:"num_beams"`
	LengthPenalty       *float64           `json:"length_penalty"`
	EarlyStopping       any                `json:"early_stopping"`
	IgnoreEOS           *bool              `json:"ignore_eos"`
	ReturnTokenIDs      *bool              `json:"return_token_ids"`
	Timeout             *float64           `json:"timeout"` // seconds

	timeoutHeader *string
}

// request makes the part of a client's request that is the same for all choices. The
// contract has checked the ranges.
func (o *options) request() (client.Request, error) {
	r := client.Request{IgnoreEOS: value(o.IgnoreEOS, false), TopLogprobs: -1}
	temperature := 1.0
	if value(o.NumBeams, 1) > 1 {
		temperature = 0
		r.Beams = sample.BeamParams{Beams: *o.NumBeams, LengthPenalty: value(o.LengthPenalty, 1), Return: value(o.N, 1)}
	}
	r.Sampling = sample.Params{
		Temperature: value(o.Temperature, temperature), TopK: max(0, value(o.TopK, 0)), TopP: value(o.TopP, 1), MinP: value(o.MinP, 0),
		TypicalP: value(o.TypicalP, 1), RepetitionPenalty: value(o.RepetitionPenalty, 1), PresencePenalty: value(o.PresencePenalty, 0),
		FrequencyPenalty: value(o.FrequencyPenalty, 0), NoRepeatNGram: value(o.NoRepeatNgramSize, 0), MinNewTokens: value(o.MinTokens, 0), Seed: seedOr(o.Seed),
	}
	var err error
	if r.Sampling.Bias, err = biases(o.LogitBias); err != nil {
		return r, err
	}
	if r.Beams.Early, err = early(o.EarlyStopping); err != nil {
		return r, err
	}
	if o.TopP != nil && *o.TopP == 0 { // the sampler's 0 means all; here it means the best alone
		r.Sampling.TopK, r.Sampling.TopP = 1, 1
	}
	if o.Stop != nil {
		for _, s := range *o.Stop {
			if s == "" {
				return client.Request{}, invalid("stop", "stop holds an empty text")
			}
			r.Stop = append(r.Stop, s)
		}
	}
	return r, nil
}

// limit is the number of tokens asked for; 0 if the request does not say.
func (o *options) limit() int { return value(o.MaxCompletionTokens, value(o.MaxTokens, 0)) }

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
		ids: value(o.ReturnTokenIDs, false), usage: o.StreamOptions != nil && value(o.StreamOptions.IncludeUsage, false),
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
