package api

import (
	"context"
	"net/http"
)

// Teller writes what becomes of a request into a stream, as a dialect does. It is used by one
// goroutine.
type Teller interface {
	Begin(out *EventStream)         // before all others; again, as long as it writes nothing
	Hear(out *EventStream, e Event) // see Event
	End(out *EventStream)           // after all answers
	Broken(out *EventStream, f Failure)
}

// Tell runs turns and has a teller write them.
//
// Until the first byte is written an error is returned: its reply has a status of its own. That
// byte is of the first piece, or of what the teller writes once KeepAlive has passed in silence.
// An error after it is the stream's last word.
func (a *API) Tell(ctx context.Context, r *http.Request, turns []Turn, out *EventStream, t Teller) error {
	err := a.Stream(ctx, turns, func(e Event) error {
		if !out.Begun {
			t.Begin(out)
		}
		t.Hear(out, e)
		return out.Err
	})
	switch {
	case err == nil:
		t.End(out)
	case r.Context().Err() != nil || out.Err != nil: // nobody is there to be told
	case !out.Begun:
		return err
	default:
		t.Broken(out, a.Describe(r, err))
	}
	return nil
}
