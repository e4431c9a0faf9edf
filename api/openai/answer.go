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
	delta(index int, d client.Delta) any
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
	turns, err := a.Turns(ctx, ask)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if o.Stream {
		a.stream(w, r, c, func(hear func(api.Event) error) error { return a.Stream(ctx, turns, hear) })
		return
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, c.whole(results))
}

// stream writes what run tells as server-sent events.
//
// Until the first byte is written an error is a reply with its own status. That byte is
// the first chunk, or a comment once KeepAlive has passed in silence. An error after it is
// a chunk of its own, and the stream ends without [DONE].
func (a Dialect) stream(w http.ResponseWriter, r *http.Request, c shape, run func(hear func(api.Event) error) error) {
	out := a.EventStream(w)
	err := run(func(e api.Event) error {
		if !out.Begun {
			for _, v := range c.begin() {
				out.Send(v)
			}
		}
		switch {
		case e.Delta != nil:
			out.Send(c.delta(e.Choice, *e.Delta))
		case e.Result != nil:
			for _, v := range c.finish(e.Choice, *e.Result) {
				out.Send(v)
			}
		default:
			out.Comment()
		}
		return out.Err
	})
	switch {
	case err == nil:
		for _, v := range c.end() {
			out.Send(v)
		}
		out.Raw("data: [DONE]\n\n")
	case r.Context().Err() != nil || out.Err != nil: // nobody is there to be told
	case !out.Begun:
		a.fail(w, r, err)
	default:
		out.Send(errorReply(a.Describe(r, err)))
	}
}
