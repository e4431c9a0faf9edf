package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// EventStream writes server-sent events, or lines of JSON. The first error sticks.
type EventStream struct {
	Begun bool // something was written: the status is
	Err   error

	media   string
	w       http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration // what slow writes may still take, all together
}

// slowWrite is a write that the reader makes wait; shorter ones are the machine's own doing.
const slowWrite = 100 * time.Millisecond

// EventStream is one that answers a request.
func (a *API) EventStream(w http.ResponseWriter) *EventStream {
	return &EventStream{media: "text/event-stream; charset=utf-8", w: w, control: http.NewResponseController(w), wait: a.Limits.Write}
}

// LineStream is one of lines of JSON.
func (a *API) LineStream(w http.ResponseWriter) *EventStream {
	out := a.EventStream(w)
	out.media = "application/x-ndjson"
	return out
}

// Line writes a value as a line of JSON.
func (e *EventStream) Line(v any) { e.Raw(encoded(v) + "\n") }

// Send writes one event; nil is none.
func (e *EventStream) Send(v any) {
	if v == nil {
		return
	}
	e.Raw("data: " + encoded(v) + "\n\n")
}

// SendNamed writes one event with a name.
func (e *EventStream) SendNamed(name string, v any) {
	e.Raw("event: " + name + "\ndata: " + encoded(v) + "\n\n")
}

// SendLine writes one event with a name and an id, at which a reader may go on later.
func (e *EventStream) SendLine(id, name string, v any) {
	e.Raw("id: " + id + "\nevent: " + name + "\ndata: " + encoded(v) + "\n\n")
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	return string(b)
}

// Comment keeps the connection alive; readers ignore it.
func (e *EventStream) Comment() { e.Raw(": still working\n\n") }

// Raw writes text as it is.
func (e *EventStream) Raw(s string) {
	if !e.Begun {
		e.Begun = true
		h := e.w.Header()
		h.Set("Content-Type", e.media)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies of the nginx kind would collect chunks
		e.w.WriteHeader(http.StatusOK)
	}
	if e.Err != nil {
		return
	}
	// Not every writer has deadlines; those of real connections do. A slow reader holds a
	// session for no longer than the limit, however it spreads its slowness.
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > slowWrite {
			e.wait -= took
		}
	}()
	if err := e.control.SetWriteDeadline(start.Add(e.wait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		e.Err = err
		return
	}
	if _, e.Err = e.w.Write([]byte(s)); e.Err == nil {
		if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			e.Err = err
		}
	}
}
