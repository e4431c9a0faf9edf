package openai

import (
	"net/http"

	"whorl/api"
	"whorl/client"
)

// shape turns answers into what their route replies: a whole, or the chunks of an event
// stream. It is used by one goroutine.
type shape interface {
	whole(results []client.Result) any
	begin() []any // before all others
	delta(index int, d client.Delta) []any
	finish(index int, r client.Result) []any
	end() []any // after all others
}

// fail answers with an error, which names a parameter as these routes do.
func (a Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.Fail(w, r, api.FieldError(err, names))
}

// answer runs a request and replies as it asks, streamed or whole.
func (a Dialect) answer(w http.ResponseWriter, r *http.Request, o *options, ask api.Ask, c shape) {
	ctx, cancel, err := a.WithDeadline(r, o.Timeout, o.timeoutHeader)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer cancel()
	if ask.Verify, err = a.Verifying(w, o.Verify, o.verifyHeader); err != nil {
		a.fail(w, r, err)
		return
	}
	turns, err := a.Turns(ctx, ask)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if o.Stream {
		if err := a.Tell(ctx, r, turns, a.EventStream(w), teller{c}); err != nil {
			a.fail(w, r, err)
		}
		return
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, c.whole(results))
}

// teller writes a shape's chunks as server-sent events. A failure is a chunk of its own, and the
// stream then ends without [DONE].
type teller struct{ shape }

func (t teller) Begin(out *api.EventStream) { sendAll(out, t.begin()) }

func (t teller) Hear(out *api.EventStream, e api.Event) {
	switch {
	case e.Delta != nil:
		sendAll(out, t.delta(e.Choice, *e.Delta))
	case e.Result != nil:
		sendAll(out, t.finish(e.Choice, *e.Result))
	default:
		out.Comment()
	}
}

func (t teller) End(out *api.EventStream) {
	sendAll(out, t.end())
	out.Raw("data: [DONE]\n\n")
}

func (t teller) Broken(out *api.EventStream, f api.Failure) { out.Send(errorReply(f)) }

func sendAll(out *api.EventStream, chunks []any) {
	for _, v := range chunks {
		out.Send(v)
	}
}
