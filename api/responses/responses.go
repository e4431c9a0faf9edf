package responses

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/internal/answers"
)

// fail answers with an error, which names a parameter as these routes do.
func (a Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.Fail(w, r, api.FieldError(err, nil))
}

// CreateResponse answers.
func (a Dialect) CreateResponse(w http.ResponseWriter, r *http.Request, params gen.CreateResponseParams) {
	var in gen.ResponsesRequest
	o := defaultOptions()
	if err := a.ReadJSON(w, r, "ResponsesRequest", &in, &o); err != nil {
		a.fail(w, r, err)
		return
	}
	q, err := a.ask(r.Context(), &in, o)
	if err == nil {
		err = a.answer(w, r, q, params)
	}
	if err != nil {
		a.fail(w, r, err)
	}
}

// answer runs a request and replies. An error is returned if nothing was replied yet.
func (a Dialect) answer(w http.ResponseWriter, r *http.Request, q *request, params gen.CreateResponseParams) error {
	ctx, cancel, err := a.WithDeadline(r, q.in.Timeout, params.XRequestTimeout)
	if err != nil {
		return err
	}
	defer cancel()
	if q.Verify, err = a.Verifying(w, q.in.WhorlVerify, params.XWhorlVerify); err != nil {
		return err
	}
	turns, err := a.Turns(ctx, q.Ask)
	if err != nil {
		return err
	}
	t := newTold(q, func(t *told) { a.keep(r, t) })
	if api.Value(q.in.Stream, false) {
		return a.Tell(ctx, r, turns, a.EventStream(w), t)
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		return err
	}
	t.take(t.reader.Push(results[0].Text))
	t.take(t.reader.Flush())
	t.over(results[0])
	api.Reply(w, t.response)
	return nil
}

// keep stores a response that has ended, unless it is not to be.
func (a Dialect) keep(r *http.Request, t *told) {
	if !t.response.Store {
		return
	}
	history := t.q.history
	for _, it := range t.response.Output {
		switch it.Type {
		case gen.ResponseItemTypeMessage:
			content := gen.Content((*it.Content)[0].Text)
			history = append(history[:len(history):len(history)], gen.ChatMessage{Role: gen.ChatMessageRoleAssistant, Content: &content})
		case gen.ResponseItemTypeFunctionCall:
			history = withCall(history[:len(history):len(history)], gen.ToolCall{Id: it.CallId, Function: gen.FunctionCall{Name: *it.Name, Arguments: api.Object(*it.Arguments)}})
		}
	}
	t.response.Store = a.put(r, &stored{t.response, t.q.input, history})
}

// told is a response while it is made.
type told struct {
	q        *request
	reader   *api.Reader
	response gen.Response
	sequence int                     // of the next event
	send     func(gen.ResponseEvent) // nil where nothing is streamed
	kept     func(*told)
}

func newTold(q *request, kept func(*told)) *told {
	o := q.options
	t := &told{q: q, reader: q.talk.Reader(), kept: kept}
	t.response = gen.Response{
		Id: "resp_" + api.RandomHex(24), Object: gen.ResponseObjectResponse, CreatedAt: time.Now().Unix(), Status: gen.ResponseStatusInProgress,
		Instructions: q.in.Instructions, MaxOutputTokens: q.in.MaxOutputTokens, Metadata: q.in.Metadata, Model: q.Engine.Model().Name, Output: []gen.ResponseItem{},
		ParallelToolCalls: api.Value(q.in.ParallelToolCalls, true), PreviousResponseId: q.in.PreviousResponseId, Store: api.Value(q.in.Store, true),
		Temperature: o.Temperature, TopP: o.TopP, Text: q.in.Text, ToolChoice: q.in.ToolChoice, Tools: q.in.Tools,
	}
	if t.response.Metadata == nil {
		t.response.Metadata = map[string]string{}
	}
	if t.response.Text == nil || t.response.Text.Format == nil {
		t.response.Text = &gen.ResponseText{Format: &gen.ResponseTextFormat{Type: gen.ResponseTextFormatTypeText}}
	}
	if api.Absent(t.response.ToolChoice) {
		t.response.ToolChoice = gen.RawJSON(`"auto"`)
	}
	if api.Absent(t.response.Tools) {
		t.response.Tools = gen.RawJSON("[]")
	}
	return t
}

// over ends the response.
func (t *told) over(r client.Result) {
	t.closeItem()
	if len(t.response.Output) == 0 { // an answer without a word
		t.beginText(gen.ResponseItemTypeMessage)
		t.closeItem()
	}
	t.response.Status = gen.ResponseStatusCompleted
	if r.Finish == client.FinishLength {
		t.response.Status, t.response.IncompleteDetails = gen.ResponseStatusIncomplete, &gen.ResponseIncomplete{Reason: gen.ResponseIncompleteReasonMaxOutputTokens}
		last := &t.response.Output[len(t.response.Output)-1]
		status := gen.ResponseItemStatusIncomplete
		last.Status = &status
	}
	in, out := len(t.q.Prompts[0]), len(r.IDs)
	t.response.Usage = &gen.ResponseUsage{
		InputTokens: in, OutputTokens: out, TotalTokens: in + out,
		OutputTokensDetails: gen.CompletionTokens{ReasoningTokens: api.ThoughtTokens(t.q.Engine, t.q.Prompts[0], r.IDs)},
	}
	t.kept(t)
}

// GetResponse is a stored one.
func (a Dialect) GetResponse(w http.ResponseWriter, r *http.Request, id gen.StoredID, params gen.GetResponseParams) {
	if field := "stream"; api.Value(params.Stream, false) || params.StartingAfter != nil {
		a.fail(w, r, api.Unsupported(field, "%s is not supported for a stored response: nothing runs in the background here, and it is told whole without %s and starting_after", field, field))
		return
	}
	s, err := a.get(r.Context(), id)
	if err != nil {
		a.failStored(w, r, id, err)
		return
	}
	api.Reply(w, s.Response)
}

// failStored answers with why a stored response is not there.
func (a Dialect) failStored(w http.ResponseWriter, r *http.Request, id string, err error) {
	if errors.Is(err, answers.ErrNone) {
		err = api.Refused(api.CodeNotFound, "no response %q is stored here", api.Clip(id))
	}
	a.Fail(w, r, err)
}

// DeleteResponse forgets a stored one.
func (a Dialect) DeleteResponse(w http.ResponseWriter, r *http.Request, id gen.StoredID) {
	if err := a.drop(r.Context(), id); err != nil {
		a.failStored(w, r, id, err)
		return
	}
	api.Reply(w, gen.ResponseDeleted{Id: id, Object: gen.ResponseDeletedObjectResponse, Deleted: true})
}

// mostItems is how many items are listed at a time if the request does not say.
const mostItems = 20

// ListInputItems lists what a stored response answered.
func (a Dialect) ListInputItems(w http.ResponseWriter, r *http.Request, id gen.StoredID, params gen.ListInputItemsParams) {
	s, err := a.get(r.Context(), id)
	if err != nil {
		a.failStored(w, r, id, err)
		return
	}
	items := s.Input
	if api.Value(params.Order, gen.ListInputItemsParamsOrderDesc) == gen.ListInputItemsParamsOrderDesc {
		slices.Reverse(items)
	}
	if after := api.Value(params.After, ""); after != "" {
		i := slices.IndexFunc(items, func(it gen.ResponseItem) bool { return it.Id == after })
		if i < 0 {
			a.Fail(w, r, api.Invalid("after", "after is %q, which is no item of the response", api.Clip(after)))
			return
		}
		items = items[i+1:]
	}
	n := min(api.Value(params.Limit, mostItems), len(items))
	out := gen.ResponseItems{Object: gen.ResponseItemsObjectList, Data: append([]gen.ResponseItem{}, items[:n]...), HasMore: n < len(items)}
	if n > 0 {
		out.FirstId, out.LastId = &items[0].Id, &items[n-1].Id
	}
	api.Reply(w, out)
}
