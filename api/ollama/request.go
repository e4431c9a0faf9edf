package ollama

import (
	"encoding/json"
	"math"
	"slices"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/grammar"
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
func (a Dialect) ask(e api.Engine, talk *api.Talk, param string, o *options) (api.Ask, error) {
	q := api.Ask{
		Engine: e, Param: param, Answers: 1, Tokens: o.NumPredict, Default: a.Limits.AnswerTokens,
		Request: client.Request{TopLogprobs: -1, Stop: o.Stop},
	}
	talk.Put(&q)
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

// absent tells whether a field says nothing.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// formOf is the form that the field format asks for, nil for anything.
func formOf(raw json.RawMessage) (*api.AnswerForm, error) {
	var word string
	switch {
	case absent(raw):
		return nil, nil
	case json.Unmarshal(raw, &word) != nil:
		return &api.AnswerForm{Param: "format", Spec: grammar.Spec{Schema: raw}}, nil
	case word == "":
		return nil, nil
	case word == "json":
		return &api.AnswerForm{Param: "format", Spec: grammar.Spec{Object: true}}, nil
	}
	return nil, api.Invalid("format", "format is %q: want json or a JSON Schema", api.Clip(word))
}

// offered are the tools that an answer may call.
func offered(list json.RawMessage) (*api.Tools, error) {
	tools, err := api.ReadTools("tools", list)
	return &api.Tools{Param: "tools", List: list, Offered: tools, Several: true}, err
}

// conversation is a conversation as templates get it.
func conversation(in []gen.OllamaMessage) []gen.ChatMessage {
	var out []gen.ChatMessage
	for _, m := range in {
		c := gen.ChatMessage{Role: gen.ChatMessageRole(m.Role), ReasoningContent: m.Thinking, ToolCalls: m.ToolCalls, Name: m.ToolName}
		if m.Content != nil {
			text := gen.Content(*m.Content)
			c.Content = &text
		}
		out = append(out, c)
	}
	return out
}

// textTalk is a text alone: as the user's turn, or raw as it is.
func (a Dialect) textTalk(e api.Engine, req *gen.OllamaGenerateRequest, x client.ChatExtras, form *api.AnswerForm) (*api.Talk, error) {
	text := api.Value(req.Prompt, "")
	if api.Value(req.Raw, false) {
		ids, err := e.Encode(text, true)
		if err != nil {
			return nil, api.EncodeError(e, "prompt", err)
		}
		return api.Raw(e, ids, form)
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
	return a.Converse(e, out, x, nil, form)
}
