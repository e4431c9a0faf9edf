package ollama

import (
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// OllamaChat answers a conversation. Without one it says that the model is there.
func (a Dialect) OllamaChat(w http.ResponseWriter, r *http.Request, params gen.OllamaChatParams) {
	var req gen.OllamaChatRequest
	if err := a.ReadJSON(w, r, "OllamaChatRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	prompt := func(e api.Engine, x client.ChatExtras, form *api.AnswerForm) (*api.Talk, error) {
		var tools *api.Tools
		if !absent(req.Tools) && string(req.Tools) != "[]" {
			var err error
			if tools, err = offered(req.Tools); err != nil {
				return nil, err
			}
		}
		return a.Converse(e, conversation(req.Messages), x, tools, form)
	}
	if len(req.Messages) == 0 {
		prompt = nil
	}
	c := common{api.Value(req.Model, ""), api.Value(req.Stream, true), req.Options, req.Think, req.Format, params.XRequestTimeout, req.WhorlVerify, params.XWhorlVerify}
	if err := a.answer(w, r, &c, "messages", prompt); err != nil {
		a.fail(w, r, err)
	}
}

// OllamaGenerate answers a text. Without one it says that the model is there.
func (a Dialect) OllamaGenerate(w http.ResponseWriter, r *http.Request, params gen.OllamaGenerateParams) {
	var req gen.OllamaGenerateRequest
	if err := a.ReadJSON(w, r, "OllamaGenerateRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	prompt := func(e api.Engine, x client.ChatExtras, form *api.AnswerForm) (*api.Talk, error) {
		return a.textTalk(e, &req, x, form)
	}
	if api.Value(req.Prompt, "") == "" {
		prompt = nil
	}
	c := common{api.Value(req.Model, ""), api.Value(req.Stream, true), req.Options, req.Think, req.Format, params.XRequestTimeout, req.WhorlVerify, params.XWhorlVerify}
	if err := a.answer(w, r, &c, "prompt", prompt); err != nil {
		a.fail(w, r, err)
	}
}

// common is what both routes have.
type common struct {
	model   string
	stream  bool
	options gen.RawJSON
	think   gen.RawJSON
	format  gen.RawJSON
	timeout *string
	verify  *int
	// The same as a header; the field wins.
	verifyHeader *string
}

// answer runs a request and replies. prompt is nil if there is nothing to answer; param is its
// field. An error is returned if nothing was replied yet.
func (a Dialect) answer(w http.ResponseWriter, r *http.Request, c *common, param string, prompt func(api.Engine, client.ChatExtras, *api.AnswerForm) (*api.Talk, error)) error {
	begun := time.Now()
	o, unknown, err := a.readOptions(c.options)
	if err != nil {
		return err
	}
	api.Warn(w, unknown)
	e, err := a.model(r.Context(), c.model)
	if err != nil {
		return err
	}
	s := &story{model: e.Model().Name, chat: param == "messages", begun: begun}
	if prompt == nil {
		last := s.piece("", "")
		reason := gen.OllamaAnswerDoneReasonLoad
		last.Done, last.DoneReason = true, &reason
		api.Reply(w, last)
		return nil
	}
	extras, err := think(e, c.think)
	if err != nil {
		return err
	}
	form, err := formOf(c.format)
	if err != nil {
		return err
	}
	talk, err := prompt(e, extras, form)
	if err != nil {
		return err
	}
	ask, err := a.ask(e, talk, param, &o)
	if err != nil {
		return err
	}
	if ask.Verify, err = a.Verifying(w, c.verify, c.verifyHeader); err != nil {
		return err
	}
	ctx, cancel, err := a.WithDeadline(r, nil, c.timeout)
	if err != nil {
		return err
	}
	defer cancel()
	turns, err := a.Turns(ctx, ask)
	if err != nil {
		return err
	}
	s.reader = talk.Reader()
	if c.stream {
		return a.Tell(ctx, r, turns, a.LineStream(w), s)
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		return err
	}
	said := s.reader.Whole(results[0].Text)
	last := s.last(said.Thought, said.Text, results[0])
	for _, call := range said.Calls {
		last.Message.ToolCalls = append(last.Message.ToolCalls, made(call))
	}
	api.Reply(w, last)
	return nil
}

// story writes one answer, whole or streamed.
type story struct {
	model  string
	chat   bool // else a text
	begun  time.Time
	reader *api.Reader
	calls  []api.CallPart // streamed, each told once it is whole
}

// piece is a part of the answer.
func (s *story) piece(thought, said string) gen.OllamaAnswer {
	out := gen.OllamaAnswer{Model: s.model, CreatedAt: time.Now().UTC()}
	var thinking *string
	if thought != "" {
		thinking = &thought
	}
	if s.chat {
		out.Message = &gen.OllamaSaid{Role: gen.OllamaSaidRoleAssistant, Content: said, Thinking: thinking}
	} else {
		out.Response, out.Thinking = &said, thinking
	}
	return out
}

// last is the part with which an answer ends, and what it took.
func (s *story) last(thought, said string, r client.Result) gen.OllamaAnswer {
	out, reason := s.piece(thought, said), gen.OllamaAnswerDoneReasonStop
	if r.Finish == client.FinishLength {
		reason = gen.OllamaAnswerDoneReasonLength
	}
	count := func(n int) *int { return &n }
	took := func(d time.Duration) *int64 { n := d.Nanoseconds(); return &n }
	out.Done, out.DoneReason = true, &reason
	out.PromptEvalCount, out.EvalCount = count(r.PromptTokens), count(len(r.IDs))
	out.TotalDuration, out.LoadDuration = took(time.Since(s.begun)), took(0)
	out.PromptEvalDuration, out.EvalDuration = took(r.Timings.Prefill), took(r.Timings.Decode)
	return out
}

// Begin sends nothing: there is nothing to say before the answer.
func (s *story) Begin(*api.EventStream) {}

// Hear sends a piece of the answer, or its end; an empty one where nothing came for a while, so
// that the connection stays. Calls are told whole, as Ollama does.
func (s *story) Hear(out *api.EventStream, e api.Event) {
	switch {
	case e.Delta != nil:
		s.tell(out, s.reader.Push(e.Delta.Text))
	case e.Result != nil:
		s.tell(out, s.reader.Flush())
		s.called(out)
		out.Line(s.last("", "", *e.Result))
	default:
		out.Line(s.piece("", ""))
	}
}

func (s *story) tell(out *api.EventStream, parts []api.Part) {
	for _, p := range parts {
		switch {
		case p.Call == nil:
			s.called(out)
			out.Line(s.piece(p.Thought, p.Text))
		case p.Call.Name != "":
			s.called(out)
			s.calls = append(s.calls, *p.Call)
		default:
			s.calls[len(s.calls)-1].Arguments += p.Call.Arguments
		}
	}
}

// called tells the calls that are whole.
func (s *story) called(out *api.EventStream) {
	for _, c := range s.calls {
		line := s.piece("", "")
		line.Message.ToolCalls = []gen.OllamaCall{made(c)}
		out.Line(line)
	}
	s.calls = nil
}

// made is a call as Ollama has it.
func made(c api.CallPart) gen.OllamaCall {
	return gen.OllamaCall{Id: &c.ID, Function: gen.OllamaFunction{Index: &c.Index, Name: c.Name, Arguments: api.Object(c.Arguments)}}
}

// End sends nothing: the last piece said so.
func (s *story) End(*api.EventStream) {}

// Broken says why there is no more.
func (s *story) Broken(out *api.EventStream, f api.Failure) {
	out.Line(gen.OllamaFailure{Error: f.Message})
}
