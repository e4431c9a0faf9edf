package anthropic

import (
	"net/http"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// fail answers with an error, which names a parameter as these routes do.
func (a Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.Fail(w, r, api.FieldError(err, nil))
}

// named names the request in the header that Anthropic's clients read.
func named(w http.ResponseWriter, r *http.Request) { w.Header().Set("Request-Id", api.RequestID(r)) }

// CreateMessage answers a conversation.
func (a Dialect) CreateMessage(w http.ResponseWriter, r *http.Request, params gen.CreateMessageParams) {
	named(w, r)
	var prompt gen.MessagesPrompt
	o := defaultOptions()
	if err := a.ReadJSON(w, r, "MessagesRequest", &prompt, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	ask, err := a.ask(&prompt, &o)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if ask.Verify, err = a.Verifying(w, o.Verify, params.XWhorlVerify); err != nil {
		a.fail(w, r, err)
		return
	}
	if err := a.answer(w, r, ask, o.Stream, params.XRequestTimeout); err != nil {
		a.fail(w, r, err)
	}
}

// answer runs a request and replies. An error is returned if nothing was replied yet.
func (a Dialect) answer(w http.ResponseWriter, r *http.Request, ask api.Ask, stream bool, timeout *string) error {
	ctx, cancel, err := a.WithDeadline(r, nil, timeout)
	if err != nil {
		return err
	}
	defer cancel()
	turns, err := a.Turns(ctx, ask)
	if err != nil {
		return err
	}
	m := newMessage(&ask)
	if stream {
		return a.Tell(ctx, r, turns, a.EventStream(w), m)
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		return err
	}
	api.Reply(w, m.whole(results[0]))
	return nil
}

// CountMessageTokens counts what CreateMessage would read.
func (a Dialect) CountMessageTokens(w http.ResponseWriter, r *http.Request, _ gen.CountMessageTokensParams) {
	named(w, r)
	var prompt gen.MessagesPrompt
	if err := a.ReadJSON(w, r, "MessagesPrompt", &prompt); err != nil {
		a.fail(w, r, err)
		return
	}
	_, ids, err := a.prompt(&prompt)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, gen.CountedTokens{InputTokens: len(ids)})
}

// message shapes one answer, whole or streamed. Thoughts are left out of it.
type message struct {
	id, model string
	prompt    int // tokens
	split     api.Splitter
}

func newMessage(ask *api.Ask) *message {
	return &message{
		id: "msg_" + api.RandomHex(12), model: ask.Engine.Model().Name, prompt: len(ask.Prompts[0]), split: api.NewSplitter(ask.Engine, ask.Prompts[0]),
	}
}

// empty is an answer of which nothing came yet.
func (m *message) empty() gen.MessagesAnswer {
	return gen.MessagesAnswer{
		Id: m.id, Type: gen.MessagesAnswerTypeMessage, Role: gen.MessagesAnswerRoleAssistant, Model: m.model, Content: []gen.MessagesText{},
		Usage: gen.MessagesUsage{InputTokens: m.prompt},
	}
}

func (m *message) whole(r client.Result) gen.MessagesAnswer {
	out, end := m.empty(), ending(r)
	_, said := m.split.Push(r.Text)
	_, rest := m.split.Flush()
	reason := gen.MessagesAnswerStopReason(end.StopReason)
	out.Content = append(out.Content, gen.MessagesText{Type: gen.MessagesTextTypeText, Text: said + rest})
	out.StopReason, out.StopSequence, out.Usage.OutputTokens = &reason, end.StopSequence, len(r.IDs)
	return out
}

// ending is why an answer ended.
func ending(r client.Result) gen.MessagesEnd {
	switch r.Finish {
	case client.FinishStop:
		return gen.MessagesEnd{StopReason: gen.MessagesStopStopSequence, StopSequence: &r.StopMatch}
	case client.FinishLength:
		return gen.MessagesEnd{StopReason: gen.MessagesStopMaxTokens}
	}
	return gen.MessagesEnd{StopReason: gen.MessagesStopEndTurn}
}

// The answer has one block.
var first = new(int)

func send(out *api.EventStream, e gen.MessagesEvent) { out.SendNamed(string(e.Type), e) }

// Begin sends what comes before any text.
func (m *message) Begin(out *api.EventStream) {
	begun := m.empty()
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeMessageStart, Message: &begun})
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockStart, Index: first, ContentBlock: &gen.MessagesText{Type: gen.MessagesTextTypeText}})
}

// Hear sends a piece of the answer, or its end.
func (m *message) Hear(out *api.EventStream, e api.Event) {
	switch {
	case e.Delta != nil:
		_, said := m.split.Push(e.Delta.Text)
		m.say(out, said)
	case e.Result != nil:
		_, said := m.split.Flush()
		m.say(out, said)
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockStop, Index: first})
		end, usage := gen.MessagesDelta(ending(*e.Result)), gen.MessagesUsage{InputTokens: m.prompt, OutputTokens: len(e.Result.IDs)}
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeMessageDelta, Delta: &end, Usage: &usage})
	default:
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypePing})
	}
}

func (m *message) say(out *api.EventStream, text string) {
	if text == "" {
		return
	}
	piece := gen.MessagesDelta(gen.MessagesPiece{Type: gen.MessagesPieceTypeTextDelta, Text: text})
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockDelta, Index: first, Delta: &piece})
}

// End sends the last event.
func (m *message) End(out *api.EventStream) {
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeMessageStop})
}

// Broken says why there is no more.
func (m *message) Broken(out *api.EventStream, f api.Failure) {
	e := describe(f)
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeError, Error: &e})
}
