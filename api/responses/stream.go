package responses

import (
	"whorl/api"
	"whorl/api/gen"
)

// Begin sends that the response is made.
func (t *told) Begin(out *api.EventStream) {
	t.send = func(e gen.ResponseEvent) {
		e.SequenceNumber = t.sequence
		t.sequence++
		out.SendNamed(string(e.Type), e)
	}
	begun := t.response
	t.event(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseCreated, Response: &begun})
	t.event(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseInProgress, Response: &begun})
}

// event sends one, where the response is streamed.
func (t *told) event(e gen.ResponseEvent) {
	if t.send != nil {
		t.send(e)
	}
}

// Hear sends a piece of the answer, or its end.
func (t *told) Hear(out *api.EventStream, e api.Event) {
	switch {
	case e.Delta != nil:
		t.take(t.reader.Push(e.Delta.Text))
	case e.Result != nil:
		t.take(t.reader.Flush())
		t.over(*e.Result)
	default:
		out.Comment()
	}
}

// End sends the whole response.
func (t *told) End(*api.EventStream) {
	kind := gen.ResponseEventTypeResponseCompleted
	if t.response.Status == gen.ResponseStatusIncomplete {
		kind = gen.ResponseEventTypeResponseIncomplete
	}
	t.event(gen.ResponseEvent{Type: kind, Response: &t.response})
}

// Broken says why there is no more.
func (t *told) Broken(_ *api.EventStream, f api.Failure) {
	t.response.Status, t.response.Error = gen.ResponseStatusFailed, &gen.ResponseError{Code: string(f.Code), Message: f.Message}
	t.event(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseFailed, Response: &t.response})
}

// take adds parts of the answer to its items.
func (t *told) take(parts []api.Part) {
	for _, p := range parts {
		switch {
		case p.Call != nil && p.Call.Name != "":
			t.beginCall(p.Call)
			t.argue(p.Call.Arguments)
		case p.Call != nil:
			t.argue(p.Call.Arguments)
		case p.Thought != "":
			t.write(gen.ResponseItemTypeReasoning, p.Thought)
		case p.Text != "":
			t.write(gen.ResponseItemTypeMessage, p.Text)
		}
	}
}

// last is the item that is open, nil for none.
func (t *told) last() *gen.ResponseItem {
	n := len(t.response.Output)
	if n == 0 || t.response.Output[n-1].Status == nil || *t.response.Output[n-1].Status != gen.ResponseItemStatusInProgress {
		return nil
	}
	return &t.response.Output[n-1]
}

// at fills in where in the response an event is.
func (t *told) at(e gen.ResponseEvent) gen.ResponseEvent {
	index := len(t.response.Output) - 1
	e.OutputIndex, e.ItemId = &index, &t.response.Output[index].Id
	return e
}

// begin opens an item.
func (t *told) begin(it gen.ResponseItem) {
	t.closeItem()
	status := gen.ResponseItemStatusInProgress
	it.Status = &status
	t.response.Output = append(t.response.Output, it)
	e := t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseOutputItemAdded, Item: &it})
	e.ItemId = nil
	t.event(e)
}

// none is a list that is always empty.
func none() *[]map[string]any { return &[]map[string]any{} }

// first is the index of the only part of an item's content.
var first = new(int)

// beginText opens a message or a thought.
func (t *told) beginText(kind gen.ResponseItemType) {
	it := gen.ResponseItem{Type: kind, Content: &[]gen.ResponsePart{}}
	part := gen.ResponsePart{Type: gen.ResponsePartTypeReasoningText}
	if kind == gen.ResponseItemTypeMessage {
		role := gen.ResponseItemRoleAssistant
		it.Id, it.Role = "msg_"+api.RandomHex(12), &role
		part = gen.ResponsePart{Type: gen.ResponsePartTypeOutputText, Annotations: none(), Logprobs: none()}
	} else {
		it.Id, it.Summary = "rs_"+api.RandomHex(12), none()
	}
	t.begin(it)
	t.last().Content = &[]gen.ResponsePart{part}
	t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseContentPartAdded, ContentIndex: first, Part: &part}))
}

// write adds text to a message or a thought.
func (t *told) write(kind gen.ResponseItemType, text string) {
	if it := t.last(); it == nil || it.Type != kind {
		t.beginText(kind)
	}
	(*t.last().Content)[0].Text += text
	e := t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseReasoningTextDelta, ContentIndex: first, Delta: &text})
	if kind == gen.ResponseItemTypeMessage {
		e.Type, e.Logprobs = gen.ResponseEventTypeResponseOutputTextDelta, none()
	}
	t.event(e)
}

// beginCall opens a call.
func (t *told) beginCall(c *api.CallPart) {
	name, empty := c.Name, ""
	t.begin(gen.ResponseItem{Id: "fc_" + api.RandomHex(12), Type: gen.ResponseItemTypeFunctionCall, CallId: &c.ID, Name: &name, Arguments: &empty})
}

// argue adds to the arguments of the open call.
func (t *told) argue(text string) {
	it := t.last()
	if text == "" || it == nil {
		return
	}
	all := *it.Arguments + text
	it.Arguments = &all
	t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseFunctionCallArgumentsDelta, Delta: &text}))
}

// closeItem ends the item that is open.
func (t *told) closeItem() {
	it := t.last()
	if it == nil {
		return
	}
	status := gen.ResponseItemStatusCompleted
	it.Status = &status
	switch it.Type {
	case gen.ResponseItemTypeFunctionCall:
		t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseFunctionCallArgumentsDone, Arguments: it.Arguments, Name: it.Name}))
	case gen.ResponseItemTypeReasoning:
		t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseReasoningTextDone, ContentIndex: first, Text: &(*it.Content)[0].Text}))
		t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseContentPartDone, ContentIndex: first, Part: &(*it.Content)[0]}))
	default:
		t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseOutputTextDone, ContentIndex: first, Text: &(*it.Content)[0].Text, Logprobs: none()}))
		t.event(t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseContentPartDone, ContentIndex: first, Part: &(*it.Content)[0]}))
	}
	done := *it
	e := t.at(gen.ResponseEvent{Type: gen.ResponseEventTypeResponseOutputItemDone, Item: &done})
	e.ItemId = nil
	t.event(e)
}
