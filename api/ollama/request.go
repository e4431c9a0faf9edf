package ollama

import (
	"encoding/json"
	"math"
	"slices"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
)

// options are those of a request, decoded over defaultOptions.
type options struct {
	Temperature      float64  `json:"temperature"`
	TopK             int      `json:"top_k"`
	TopP             float64  `json:"top_p"`
	MinP             float64  `json:"min_p"`
	TypicalP         float64  `json:"typical_p"`
	RepeatPenalty    float64  `json:"repeat_penalty"`
	PresencePenalty  float64  `json:"presence_penalty"`
	FrequencyPenalty float64  `json:"frequency_penalty"`
	Seed             *int64   `json:"seed"`
	Stop             gen.Stop `json:"stop"`
	NumPredict       *int     `json:"num_predict"`
}

func defaultOptions() options {
	d := sample.DefaultAsked()
	return options{
		Temperature: d.Temperature, TopK: d.TopK, TopP: d.TopP, MinP: d.MinP, TypicalP: d.TypicalP,
		RepeatPenalty: d.RepetitionPenalty, PresencePenalty: d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty,
	}
}

// readOptions reads options, and names those that are not known.
func (a Dialect) readOptions(raw json.RawMessage) (o options, unknown []string, err error) {
	o = defaultOptions()
	if len(raw) == 0 || string(raw) == "null" {
		return o, nil, nil
	}
	unknown, err = a.Decode(raw, "OllamaOptions", &o)
	return o, unknown, err
}

// ask makes a request of a prompt and options.
func (a Dialect) ask(e api.Engine, prompt []int32, param string, o *options) (api.Ask, error) {
	q := api.Ask{
		Engine: e, Prompts: [][]int32{prompt}, Param: param, Answers: 1, Tokens: o.NumPredict, Default: a.Limits.AnswerTokens,
		Request: client.Request{TopLogprobs: -1, Stop: o.Stop},
	}
	if slices.Contains(o.Stop, "") {
		return q, api.Invalid("stop", "stop holds an empty text")
	}
	switch n := api.Value(o.NumPredict, 1); {
	case n == 0:
		return q, api.Invalid("num_predict", "num_predict is 0: want 1 or more, or -1 for as many as there is room for")
	case n < 0:
		q.Tokens, q.Default = nil, math.MaxInt
	}
	asked := sample.DefaultAsked()
	asked.Temperature, asked.TopK, asked.TopP, asked.MinP, asked.TypicalP = o.Temperature, o.TopK, o.TopP, o.MinP, o.TypicalP
	asked.RepetitionPenalty, asked.PresencePenalty, asked.FrequencyPenalty = o.RepeatPenalty, o.PresencePenalty, o.FrequencyPenalty
	var err error
	if q.Request.Sampling, q.Request.Beams, err = asked.Settle(); err != nil {
		return q, err
	}
	q.Request.Sampling.Seed = api.SeedOr(o.Seed)
	return q, nil
}

// think is what a template hears of the field think: true, false or how much.
func think(e api.Engine, raw json.RawMessage) (client.ChatExtras, error) {
	var on bool
	var effort string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return client.ChatExtras{}, nil
	case json.Unmarshal(raw, &on) != nil:
		if err := json.Unmarshal(raw, &effort); err != nil {
			return client.ChatExtras{}, api.Invalid("think", "think is neither true, false nor a text")
		}
		on = true
	}
	switch {
	case on && !e.Thinks():
		return client.ChatExtras{}, api.Unsupported("think", "the chat template of %s knows no thinking: leave think out", e.Model().Name)
	case !e.Thinks():
		return client.ChatExtras{}, nil
	}
	vars := gen.Variables{"enable_thinking": json.RawMessage("false")}
	if on {
		vars["enable_thinking"] = json.RawMessage("true")
	}
	if effort != "" {
		vars["reasoning_effort"] = raw
	}
	return client.ChatExtras{Vars: vars}, nil
}

// chatPrompt puts a conversation through the model's template.
func chatPrompt(e api.Engine, in []gen.OllamaMessage, x client.ChatExtras) ([]int32, error) {
	var out []gen.ChatMessage
	for _, m := range in {
		c := gen.ChatMessage{Role: gen.ChatMessageRole(m.Role), ReasoningContent: m.Thinking, ToolCalls: m.ToolCalls, Name: m.ToolName}
		if m.Content != nil {
			text := gen.Content(*m.Content)
			c.Content = &text
		}
		out = append(out, c)
	}
	return api.EncodeMessages(e, out, x)
}

// textPrompt is a text alone: as the user's turn, or raw as it is.
func textPrompt(e api.Engine, req *gen.OllamaGenerateRequest, x client.ChatExtras) ([]int32, error) {
	text := api.Value(req.Prompt, "")
	if api.Value(req.Raw, false) {
		ids, err := e.Encode(text, true)
		if err != nil {
			return nil, api.EncodeError(e, "prompt", err)
		}
		return ids, nil
	}
	var out []gen.ChatMessage
	for _, m := range []struct {
		role gen.ChatMessageRole
		text gen.Content
	}{{gen.ChatMessageRoleSystem, gen.Content(api.Value(req.System, ""))}, {gen.ChatMessageRoleUser, gen.Content(text)}} {
		if m.text != "" {
			out = append(out, gen.ChatMessage{Role: m.role, Content: &m.text})
		}
	}
	return api.EncodeMessages(e, out, x)
}
