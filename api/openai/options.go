package openai

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"whorl/api"
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
	MaxTokens           *int               `json:"max_tokens"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
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
	Verify              *int               `json:"whorl_verify"`
	guide

	timeoutHeader, verifyHeader *string
}

func defaultOptions(timeoutHeader, verifyHeader *string) options {
	return options{Asked: sample.DefaultAsked(), N: 1, timeoutHeader: timeoutHeader, verifyHeader: verifyHeader}
}

// ask makes the part of a request that is the same for both routes.
func (o *options) ask(e api.Engine) (api.Ask, error) {
	q := api.Ask{
		Engine: e, Answers: o.N, Tokens: cmp.Or(o.MaxCompletionTokens, o.MaxTokens), BadWords: o.BadWords,
		Request: client.Request{IgnoreEOS: o.IgnoreEOS, TopLogprobs: -1, Stop: o.Stop},
	}
	if slices.Contains(o.Stop, "") {
		return q, api.Invalid("stop", "stop holds an empty text")
	}
	asked := o.Asked
	if asked.Beams > 1 {
		asked.Params.Temperature, asked.Return = 0, o.N
	}
	asked.Params.Temperature = api.Value(o.Temperature, asked.Params.Temperature)
	asked.MinNewTokens = api.Value(o.MinTokens, asked.MinNewTokens)
	r, err := &q.Request, error(nil)
	if r.Sampling, r.Beams, err = asked.Settle(); err != nil {
		return q, err
	}
	if r.Guidance, err = api.Guide(e, asked.GuidanceParams); err != nil {
		return q, err
	}
	r.Sampling.Seed = api.SeedOr(o.Seed)
	r.Sampling.Bias, err = biases(o.LogitBias)
	return q, err
}

// envelope is what all objects of one answer share, and what is counted while it is written.
type envelope struct {
	id, fingerprint string
	model           string
	created         int64
	ids             bool // return_token_ids
	usage           bool // include_usage
	engine          api.Engine
	prompts         [][]int32
	n               int // choices of each prompt
	tokens          int // of all choices, so far
	thoughts        int // of them, those of thoughts
}

func newEnvelope(prefix string, ask *api.Ask, o *options) envelope {
	m := ask.Engine.Model()
	return envelope{
		id: prefix + api.RandomHex(12), model: m.Name, fingerprint: "fp_" + string(m.UID[:min(12, len(m.UID))]), created: time.Now().Unix(),
		ids: o.ReturnTokenIDs, usage: api.Value(o.StreamOptions.IncludeUsage, false), engine: ask.Engine, prompts: ask.Prompts, n: ask.Answers,
	}
}

// choices is how many there are.
func (e *envelope) choices() int { return e.n * len(e.prompts) }

func (e *envelope) tokenIDs(ids []int32) []int32 {
	if !e.ids {
		return nil
	}
	return ids
}

// promptIDs are the ids of a choice's prompt, if they are asked for.
func (e *envelope) promptIDs(choice int) []int32 { return e.tokenIDs(e.prompts[choice/e.n]) }

// sum is what was used so far. A prompt that several choices share counts once.
func (e *envelope) sum() gen.Usage {
	prompt := 0
	for _, p := range e.prompts {
		prompt += len(p)
	}
	u := gen.Usage{PromptTokens: prompt, CompletionTokens: e.tokens, TotalTokens: prompt + e.tokens}
	if e.thoughts > 0 {
		u.CompletionTokensDetails = &gen.CompletionTokens{ReasoningTokens: e.thoughts}
	}
	return u
}

func finishReason(f client.Finish) gen.FinishReason {
	if f == client.FinishLength {
		return gen.FinishReasonLength
	}
	return gen.FinishReasonStop
}

// names are fields of package sample that the OpenAI routes have by another name.
var names = map[string]string{"num_return_sequences": "n", "min_new_tokens": "min_tokens"}

// biases reads logit_bias: by token id as text.
func biases(m map[string]float64) ([]sample.Bias, error) {
	var out []sample.Bias
	for key, v := range m {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, api.Invalid("logit_bias", "logit_bias has the key %q: want token ids", api.Clip(key))
		}
		out = append(out, sample.Bias{ID: int32(id), Value: v})
	}
	slices.SortFunc(out, func(a, b sample.Bias) int { return int(a.ID) - int(b.ID) })
	for i := 1; i < len(out); i++ { // "5" and "05"
		if out[i].ID == out[i-1].ID {
			return nil, api.Invalid("logit_bias", "logit_bias has the token id %d twice", out[i].ID)
		}
	}
	return out, nil
}
