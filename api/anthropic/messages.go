package anthropic

import (
	"encoding/json"
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
	ask, err := a.ask(r.Context(), &prompt, &o)
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
func (a Dialect) answer(w http.ResponseWriter, r *http.Request, ask request, stream bool, timeout *string) error {
	ctx, cancel, err := a.WithDeadline(r, nil, timeout)
	if err != nil {
		return err
	}
	defer cancel()
	turns, err := a.Turns(ctx, ask.Ask)
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
	_, talk, err := a.talk(r.Context(), &prompt)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, gen.CountedTokens{InputTokens: len(talk.Prompt)})
}

// message shapes one answer, whole or streamed. Thoughts are left out of it.
type message struct {
	id, model string
	prompt    int // tokens
	reader    *api.Reader
	block     int  // of those streamed so far, the last one, from 0
	open      bool // it has not ended
	tool      bool // it is a call
}

func newMessage(ask *request) *message {
	return &message{id: "msg_" + api.RandomHex(12), model: ask.Engine.Model().Name, prompt: len(ask.Prompts[0]), reader: ask.talk.Reader(), block: -1}
}

// empty is an answer of which nothing came yet.
func (m *message) empty() gen.MessagesAnswer {
	return gen.MessagesAnswer{
		Id: m.id, Type: gen.MessagesAnswerTypeMessage, Role: gen.MessagesAnswerRoleAssistant, Model: m.model, Content: []gen.MessagesPart{},
		Usage: gen.MessagesUsage{InputTokens: m.prompt},
	}
}

func (m *message) whole(r client.Result) gen.MessagesAnswer {
	out, said := m.empty(), m.reader.Whole(r.Text)
	end := m.ending(r)
	reason := gen.MessagesAnswerStopReason(end.StopReason)
	if said.Text != "" || len(said.Calls) == 0 {
		out.Content = append(out.Content, gen.MessagesPart{Type: gen.MessagesPartTypeText, Text: &said.Text})
	}
	for _, c := range said.Calls {
		part := use(c)
		part.Input = api.Object(c.Arguments)
		out.Content = append(out.Content, part)
	}
	out.StopReason, out.StopSequence, out.Usage.OutputTokens = &reason, end.StopSequence, len(r.IDs)
	return out
}

// use is the block of a call.
func use(c api.CallPart) gen.MessagesPart {
	return gen.MessagesPart{Type: gen.MessagesPartTypeToolUse, Id: &c.ID, Name: &c.Name, Input: json.RawMessage("{}")}
}

// ending is why an answer ended, once it was read.
func (m *message) ending(r client.Result) gen.MessagesEnd {
	switch {
	case r.Finish == client.FinishLength:
		return gen.MessagesEnd{StopReason: gen.MessagesStopMaxTokens}
	case m.reader.Calls() > 0:
		return gen.MessagesEnd{StopReason: gen.MessagesStopToolUse}
	case r.Finish == client.FinishStop:
		return gen.MessagesEnd{StopReason: gen.MessagesStopStopSequence, StopSequence: &r.StopMatch}
	}
	return gen.MessagesEnd{StopReason: gen.MessagesStopEndTurn}
}

func send(out *api.EventStream, e gen.MessagesEvent) { out.SendNamed(string(e.Type), e) }

// Begin sends what comes before any text.
func (m *message) Begin(out *api.EventStream) {
	begun := m.empty()
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeMessageStart, Message: &begun})
}

// Hear sends a piece of the answer, or its end.
func (m *message) Hear(out *api.EventStream, e api.Event) {
	switch {
	case e.Delta != nil:
		m.tell(out, m.reader.Push(e.Delta.Text))
	case e.Result != nil:
		m.tell(out, m.reader.Flush())
		if m.block < 0 { // an answer has a block
			m.begin(out, gen.MessagesPart{Type: gen.MessagesPartTypeText, Text: new(string)})
		}
		m.close(out)
		end, usage := gen.MessagesDelta(m.ending(*e.Result)), gen.MessagesUsage{InputTokens: m.prompt, OutputTokens: len(e.Result.IDs)}
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeMessageDelta, Delta: &end, Usage: &usage})
	default:
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypePing})
	}
}

// tell sends parts, each in a block of its kind.
func (m *message) tell(out *api.EventStream, parts []api.Part) {
	for _, p := range parts {
		switch {
		case p.Call != nil && p.Call.Name != "":
			m.begin(out, use(*p.Call))
			fallthrough
		case p.Call != nil:
			if p.Call.Arguments != "" {
				m.piece(out, gen.MessagesInputPiece{Type: gen.MessagesInputPieceTypeInputJsonDelta, PartialJson: p.Call.Arguments})
			}
		case p.Text != "":
			if !m.open || m.tool {
				m.begin(out, gen.MessagesPart{Type: gen.MessagesPartTypeText, Text: new(string)})
			}
			m.piece(out, gen.MessagesPiece{Type: gen.MessagesPieceTypeTextDelta, Text: p.Text})
		}
	}
}

// begin ends the block that is open and begins another.
func (m *message) begin(out *api.EventStream, part gen.MessagesPart) {
	m.close(out)
	m.block++
	m.open, m.tool = true, part.Type == gen.MessagesPartTypeToolUse
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockStart, Index: m.at(), ContentBlock: &part})
}

func (m *message) close(out *api.EventStream) {
	if m.open {
		send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockStop, Index: m.at()})
		m.open = false
	}
}

// at is the present block.
func (m *message) at() *int { n := m.block; return &n }

func (m *message) piece(out *api.EventStream, piece any) {
	delta := gen.MessagesDelta(piece)
	send(out, gen.MessagesEvent{Type: gen.MessagesEventTypeContentBlockDelta, Index: m.at(), Delta: &delta})
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
