package anthropic

import (
	"encoding/json"
	"fmt"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
)

// options are what a request asks for beside its conversation, decoded over defaultOptions.
type options struct {
	MaxTokens     int      `json:"max_tokens"`
	Stream        bool     `json:"stream"`
	StopSequences []string `json:"stop_sequences"`
	Temperature   float64  `json:"temperature"`
	TopP          float64  `json:"top_p"`
	TopK          int      `json:"top_k"`
	Verify        *int     `json:"whorl_verify"`
}

func defaultOptions() options {
	d := sample.DefaultAsked()
	return options{Temperature: d.Temperature, TopP: d.TopP, TopK: d.TopK}
}

// ask makes a request of a conversation and options.
func (a Dialect) ask(p *gen.MessagesPrompt, o *options) (api.Ask, error) {
	e, ids, err := a.prompt(p)
	if err != nil {
		return api.Ask{}, err
	}
	q := api.Ask{
		Engine: e, Prompts: [][]int32{ids}, Param: "messages", Answers: 1, Tokens: &o.MaxTokens,
		Request: client.Request{TopLogprobs: -1, Stop: o.StopSequences},
	}
	asked := sample.DefaultAsked()
	asked.Temperature, asked.TopP, asked.TopK = o.Temperature, o.TopP, o.TopK
	if q.Request.Sampling, q.Request.Beams, err = asked.Settle(); err != nil {
		return q, err
	}
	q.Request.Sampling.Seed = api.SeedOr(nil)
	return q, nil
}

// prompt puts a conversation through its model's template.
func (a Dialect) prompt(p *gen.MessagesPrompt) (api.Engine, []int32, error) {
	if p.Thinking != nil && p.Thinking.Type != "disabled" {
		return nil, nil, api.Unsupported("thinking", "thinking of type %q is not supported: leave thinking out", api.Clip(p.Thinking.Type))
	}
	e, err := a.Engine(api.Value(p.Model, ""))
	if err != nil {
		return nil, nil, err
	}
	messages, err := conversation(p)
	if err != nil {
		return nil, nil, err
	}
	extras := client.ChatExtras{}
	if e.Thinks() {
		extras.Vars = gen.Variables{"enable_thinking": json.RawMessage("false")}
	}
	ids, err := api.EncodeMessages(e, messages, extras)
	return e, ids, err
}

// conversation is the system's text and the turns. Neighbours of one role are one turn: many
// templates want user and assistant to take turns.
func conversation(p *gen.MessagesPrompt) ([]gen.ChatMessage, error) {
	var out []gen.ChatMessage
	if system := api.Value(p.System, ""); system != "" {
		out = append(out, gen.ChatMessage{Role: gen.ChatMessageRoleSystem, Content: &system})
	}
	for _, m := range p.Messages {
		role, content := gen.ChatMessageRole(m.Role), m.Content
		if n := len(out); n > 0 && out[n-1].Role == role {
			both := *out[n-1].Content + "\n" + content
			out[n-1].Content = &both
			continue
		}
		out = append(out, gen.ChatMessage{Role: role, Content: &content})
	}
	if last := len(p.Messages) - 1; p.Messages[last].Role != gen.MessagesTurnRoleUser {
		field := fmt.Sprintf("messages.%d.role", last)
		return nil, api.Unsupported(field, "%s is %q: the last message must be the user's, since to continue an assistant's text is not supported", field, p.Messages[last].Role)
	}
	return out, nil
}
